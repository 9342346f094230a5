# SPDX-License-Identifier: Apache-2.0
"""The command line: exit codes, messages, JSON. No switch is needed."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dnsteer import __version__
from dnsteer.cli import main
from dnsteer.cli.main import _GROUPS, application
from dnsteer.cli.output import Exit, err, out, reporting
from dnsteer.spec.errors import DefinitionError
from dnsteer.switch import tools
from tests.unit.commands import ENV, SPEC, Command, dnsteer, files_of_at_most, shell
from tests.unit.test_docs import options

ARCHITECTURE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"
CHANGING = ["apply", "rollback", "restore", "drain", "undrain", "down", "up", "reconcile"]
VERBS = [
    "check",
    "render",
    "plan",
    *CHANGING,
    "verify",
    "lint",
    "capacity",
    "bringup",
    "status",
    "report",
    "history",
    "show",
    "explain",
    "schema",
    "version",
    "lab",
]
LAB = ["lab up", "lab down", "lab status", "lab demo", "lab failover", "lab agent"]


@pytest.mark.parametrize("verb", [*VERBS, *LAB])
def test_every_verb_has_help(verb: str, command: Command) -> None:
    code, shown, said = command(*verb.split(), "--help")
    assert (code, said) == (0, "")
    assert f"Usage: dnsteer {verb}" in shown


def test_the_help_names_all_verbs_and_exit_codes() -> None:
    done = dnsteer("-h")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: dnsteer [OPTIONS] COMMAND" in done.stdout
    assert all(f" {verb} " in done.stdout for verb in VERBS)
    assert all(f" {code.value} " in " ".join(done.stdout.split()) for code in Exit)


def test_every_verb_is_in_one_group_of_the_help() -> None:
    app = application()
    assert sorted(verb for verbs in _GROUPS.values() for verb in verbs) == sorted(
        str(verb.name) for verb in (*app.registered_commands, *app.registered_groups) if not verb.hidden
    )


def test_every_module_of_verbs_is_in_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(main.__file__).parent
    modules = {file.stem for file in folder.glob("*.py") if "\ndef register(" in file.read_text()}
    assert modules == set(main._MODULES.values()), "_GROUPS of cli/main.py names the verbs with their modules"
    monkeypatch.setitem(main._MODULES, "hello", "helo")
    with pytest.raises(DefinitionError, match="_GROUPS names the module 'helo', and there is no dnsteer"):
        application("hello")
    for module, message in (
        ("render", "'render' for hello, which it does not register"),
        ("output", "has no function register"),
    ):
        monkeypatch.setitem(main._MODULES, "hello", module)
        with pytest.raises(DefinitionError, match=message):
            application("hello")


def test_the_page_of_the_architecture_names_the_module_of_every_verb() -> None:
    rows = [line.split("|") for line in ARCHITECTURE.read_text().splitlines() if line.startswith("| `")]
    found = {(verb, row[2]) for row in rows if len(row) > 3 for verb in re.findall(r"`([a-z-]+)`", row[1])}
    shown = {(verb, module) for verb, of in found for module in re.findall(r"`(\w+)\.py`", of)}
    missing = [verb for verb, module in main._MODULES.items() if verb != "due" and (verb, module) not in shown]
    assert not missing, f"the table of verbs in {ARCHITECTURE.name} needs these with their modules in cli/: {missing}"


USAGE = {
    "chek": "Did you mean 'check'",
    "lab upp": "Did you mean 'up'",
    "check": "Missing argument 'SPEC'",
    f"verify {SPEC} --ignore-foregin": "--ignore-foreign",
    f"apply {SPEC} --timeout soon": "'--timeout'",
    f"apply {SPEC} --timeout 0": "'--timeout'",
    f"apply {SPEC} --db /run/db.sock": "found '/run/db.sock'; expected unix:PATH, tcp:IPV4:PORT or tcp:[IPV6]:PORT",
    f"verify {SPEC} --db tcp:localhost:6640": "expected unix:PATH, tcp:IPV4:PORT or tcp:[IPV6]:PORT",
    f"render {SPEC}": "--output",
    f"check {SPEC} more": "unexpected extra argument",
    f"explain {SPEC}": "give either --client and --vip, or --cookie",
    f"explain {SPEC} --cookie xyz": "--cookie: found 'xyz'",
}


@pytest.mark.parametrize("line", USAGE)
def test_wrong_usage_is_64_and_helps(line: str, command: Command) -> None:
    code, shown, said = command(*line.split())
    assert (code, shown) == (64, "")
    assert USAGE[line] in said


def test_usage_errors_leave_with_64() -> None:
    done = dnsteer("chek")
    assert done.returncode == 64
    assert "Did you mean 'check'" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_verb_shows_the_help(command: Command) -> None:
    code, shown, said = command()
    assert code == 64
    assert "Usage: dnsteer" in shown + said


@pytest.mark.parametrize("verb", ["check", "apply", "verify"])
def test_a_bad_spec_is_1_and_says_where(verb: str, tmp_path: Path, command: Command) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(Path(SPEC).read_text().replace("bridge: br-dns", "bridge: br-dns\n  colour: red"))
    line = spec.read_text().splitlines().index("  colour: red") + 1
    code, shown, said = command(verb, str(spec))
    assert (code, shown) == (1, "")
    assert f"{spec}:{line}: $.switch.colour" in said
    assert "nothing was changed" in said
    code, shown, said = command(verb, str(spec), "--json")
    assert (code, said) == (1, "")
    report = json.loads(shown)
    assert (report["ok"], report["more"], report["errors"][0]["line"]) == (False, False, line)


@pytest.mark.parametrize("verb", ["check", "apply", "render -o x"])
def test_a_missing_file_is_named(verb: str, tmp_path: Path, command: Command) -> None:
    code, _, said = command(*verb.split(), str(tmp_path / "none.yaml"))
    assert code == 1
    assert "none.yaml: found no such file" in said


def test_an_unwritable_directory_is_named(tmp_path: Path, command: Command) -> None:
    (tmp_path / "file").write_text("")
    done = command("render", SPEC, "-o", str(tmp_path / "file"))
    assert done == (1, "", f"dnsteer: {tmp_path / 'file'}: File exists\n")


def test_addresses_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """rich would draw emoji in them."""
    out.print("2001:db8:a:b::1")
    err.print("2001:db8:a:b::1")
    assert capsys.readouterr() == ("2001:db8:a:b::1\n", "2001:db8:a:b::1\n")


def test_json_of_every_verb_that_has_it(tmp_path: Path, command: Command) -> None:
    rendered = json.loads(command("render", SPEC, "-o", str(tmp_path), "--json")[1])
    assert rendered["files"] == {f.name: f.stat().st_size for f in tmp_path.iterdir()}
    assert json.loads(command("schema")[1])["title"] == "dnsteer spec, version 1"
    assert set(json.loads(command("version", "--json")[1])) == {"dnsteer", "python", "ovs"}
    flows = (tmp_path / "flows.txt").read_text().splitlines()
    cookie = next(line.split(",")[0].removeprefix("cookie=") for line in flows if line.startswith("cookie="))
    assert json.loads(command("explain", SPEC, "--json", "--cookie", cookie)[1])["line"] > 1


@pytest.mark.parametrize("verb", ["schema", "version", "version --json"])
def test_a_closed_pipe_prints_no_error(verb: str) -> None:
    done = shell(f'dnsteer {verb} | true; echo "${{PIPESTATUS[0]}}"')
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_a_broken_pipe_is_no_error_of_the_switch() -> None:
    with pytest.raises(BrokenPipeError), reporting():
        raise BrokenPipeError


def test_a_closed_standard_output_is_no_error() -> None:
    closed = shell("dnsteer version >&-; echo $?")
    assert (closed.stdout, closed.stderr) == ("0\n", "")


@pytest.mark.parametrize(
    "verb",
    [
        "schema",
        "version",
        "version --json",
        f"check {SPEC} --sample 1",
        f"check {SPEC} --sample 1 --json",
        f"lint {SPEC} --flavor ovs-doca",
        f"explain {SPEC} --client 198.51.100.7:40001 --vip 192.0.2.53:53/udp",
    ],
)
def test_output_that_cannot_be_written(verb: str) -> None:
    done = shell(f"dnsteer {verb} >/dev/full; echo $?")
    assert (done.stdout, done.stderr) == ("1\n", "dnsteer: standard output: No space left on device\n")


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
def test_completion_of_a_shell_that_is_named(kind: str, command: Command) -> None:
    code, shown, said = command("--show-completion", kind)
    assert (code, said) == (0, "")
    assert "_DNSTEER_COMPLETE=complete_" + kind in shown


@pytest.mark.parametrize(("code", "words"), [(3, "exit status 3"), (-1, "terminating with signal 1 (Hangup)")])
def test_exit_codes_of_ovs_programs_are_described(code: int, words: str) -> None:
    """As those programs say it themselves, if they have begun."""
    assert tools._how_it_ended(code) == words


def test_completion_offers_verbs(place: Path, command: Command) -> None:
    program = place / "dnsteer"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m dnsteer "$@"\n')
    program.chmod(0o755)
    script = command("--show-completion", "bash")[1]
    words = "COMP_WORDS=(dnsteer ver)\nCOMP_CWORD=1\n_dnsteer_completion dnsteer\necho ${COMPREPLY[@]}"
    done = shell(f"unset -f dnsteer; PATH={place}:$PATH\n{script}\n{words}")
    assert (set(done.stdout.split()), done.stderr) == ({"verify", "version"}, "")


def test_completion_of_an_unknown_shell(command: Command) -> None:
    assert command("--show-completion", "tcsh")[0] == 1
    code, shown, said = command("--install-completion", "tcsh")
    assert (code, shown) == (Exit.USAGE, "")
    assert "found 'tcsh'; expected one of bash, zsh, fish" in said


@pytest.mark.parametrize(("shell", "file"), [("bash", ".bash_completions/dnsteer.sh"), ("zsh", ".zfunc/_dnsteer")])
def test_completion_is_installed(shell: str, file: str, tmp_path: Path) -> None:
    done = dnsteer("--install-completion", shell, HOME=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path / file}: installed; completion begins with the next shell\n"
    assert "_DNSTEER_COMPLETE" in (tmp_path / file).read_text()


@pytest.mark.parametrize("home", ["", "none", "relative", "file", "loop"])
def test_completion_without_a_home_directory_is_refused(home: str, tmp_path: Path) -> None:
    """The path is named with what to do about it, and no home directory is made."""
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    before = sorted(tmp_path.iterdir())
    value = home if home in ("", "relative") else str(tmp_path / home)
    done = dnsteer("--install-completion", "bash", HOME=value)
    assert (done.returncode, done.stdout) == (Exit.ERROR, "")
    assert done.stderr == (
        f"dnsteer: --install-completion: {value!r}, of the variable HOME, is no directory; set HOME to a directory that "
        "this user can write to, or install by hand: dnsteer --show-completion bash > FILE\n"
    )
    assert sorted(tmp_path.iterdir()) == before
    assert not Path("relative").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_that_cannot_be_installed_leaves_the_settings_of_the_shell(
    shell: str, place: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.setenv("HOME", str(place))
    settings = place / f".{shell}rc"
    settings.write_text("alias ll='ls -l'\n" * 20)
    with files_of_at_most(350):
        code, shown, said = command("--install-completion", shell)
    assert (code, shown) == (Exit.ERROR, "")
    assert str(place) in said and "File too large" in said and "--show-completion bash > FILE" in said
    assert settings.read_text() == "alias ll='ls -l'\n" * 20


def test_version_is_printed(command: Command) -> None:
    assert command("--version") == (0, f"dnsteer {__version__}\n", "")


LONG = "\N{LATIN SMALL LETTER E WITH ACUTE}" * 500
NOTES = {
    "x" * 501: "found 501 characters; expected at most 500",
    "y" * 100_000: "found 100000 characters",
    "two\nlines": "found the character '\\n'; expected one line",
    "red \x1b[31m": "found the character '\\x1b'",
    "\udcff": "found the character '\\udcff'",
    "left \u202e right": "found the character '\\u202e'",
}
NOTED = [
    "apply SPEC",
    "plan SPEC",
    "rollback",
    "drain a/b",
    "down a/b",
    "weight a/b 3",
    "deny 10.0.0.0/8",
    "withdraw a",
]


@pytest.mark.parametrize("verb", NOTED)
@pytest.mark.parametrize("note", NOTES, ids=lambda note: repr(note[:12]))
def test_a_note_is_one_line_of_text(verb: str, note: str, place: Path, command: Command) -> None:
    remote = ["--db", f"unix:{place}/none"]
    code, shown, said = command(*verb.replace("SPEC", SPEC).split(), "--note", note, *remote)
    assert (code, shown) == (Exit.USAGE, "")
    assert NOTES[note] in " ".join(said.split())


@pytest.mark.parametrize("verb", NOTED)
def test_every_note_that_is_bounded_is_tried(verb: str, place: Path, command: Command) -> None:
    """One that is just short enough gets as far as the switch, which is not there."""
    remote = ["--db", f"unix:{place}/none"]
    assert command(*verb.replace("SPEC", SPEC).split(), "--note", LONG, *remote)[0] == Exit.UNAVAILABLE
    with_note = {v for v, given in options().items() if "--note" in given}
    assert with_note == {v.split()[0] for v in NOTED}


def test_ctrl_c_while_waiting_for_a_switch(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{place}/db.sock")
        server.listen()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = subprocess.Popen(
                [sys.executable, "-m", "dnsteer", "apply", SPEC, "--db", f"unix:{place}/db.sock"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=ENV,
            )
            peer, _ = server.accept()
            process.send_signal(number)
            assert process.communicate(timeout=30) == ("", "dnsteer: interrupted\n")
            assert process.returncode == 130
            peer.close()


def test_an_ignored_signal_stays_ignored(place: Path) -> None:
    """As with nohup."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{place}/db.sock")
        server.listen()
        process = subprocess.Popen(
            [sys.executable, "-m", "dnsteer", "verify", SPEC, "--db", f"unix:{place}/db.sock", "--timeout", "0.5"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENV,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
        )
        peer, _ = server.accept()
        process.send_signal(signal.SIGHUP)
        assert "does not answer within 0.5 s" in process.communicate(timeout=30)[1]
        assert process.returncode == 69
        peer.close()


WORK = """
import os, time
from dnsteer.cli import main
class Thing:
    def __del__(self):
        os.kill(os.getpid(), 2)
        time.sleep(0.1)
def work():
    {0}
    time.sleep(30)
    return 0
main._run = work
main.run()
"""


@pytest.mark.parametrize("where", ["Thing()", "exec('os.kill(os.getpid(), 2); time.sleep(1)')"])
def test_interrupts_are_not_lost_or_repeated(where: str, tmp_path: Path) -> None:
    """In destructors it only reports them; after one inside of exec() it ends itself by the signal."""
    (tmp_path / "work.py").write_text(WORK.format(where))
    env = {**ENV, "PYTHONPATH": f"{tmp_path}:{ENV['PYTHONPATH']}"}
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "work"], capture_output=True, text=True, check=False, env=env)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "dnsteer: interrupted\n")
    assert time.monotonic() - start < 15


def test_the_earlier_name_of_reconcile_still_works(tmp_path: Path) -> None:
    """Units that an earlier release installed call it; it is not in the list of verbs."""
    assert " due " not in dnsteer("--help").stdout
    done = dnsteer("due", "--db", f"unix:{tmp_path}/none.sock")
    assert done.returncode == dnsteer("reconcile", "--db", f"unix:{tmp_path}/none.sock").returncode == Exit.UNAVAILABLE


def test_quick_verbs_do_without_the_spec() -> None:
    """A backend that has failed is taken out in a third of a second; pydantic and YAML alone would take half as long."""
    code = "import sys, dnsteer.deploy.overlay_change; print({'pydantic', 'yaml', 'ovs', 'rich'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENV)
    assert done.stdout == "set()\n"
