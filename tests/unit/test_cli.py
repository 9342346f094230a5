"""The command line: exit codes, messages, JSON, and an OVSDB that is missing, dead or stuck. No switch is needed."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from dnsteer.cli import main
from dnsteer.cli.output import Exit, err, out, reporting
from dnsteer.switch import rpc
from dnsteer.switch.rpc import parse_remote

ROOT = Path(__file__).resolve().parents[2]
SPEC = str(ROOT / "examples" / "own-ports.yaml")
CHANGING = ["apply", "rollback", "restore", "drain", "undrain", "down", "up", "due"]
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
    "history",
    "show",
    "explain",
    "schema",
    "version",
    "lab",
]
LAB = ["lab up", "lab down", "lab status", "lab demo"]
ENV = {**os.environ, "PYTHONPATH": str(ROOT / "generator"), "COLUMNS": "100"}
ENV.pop("PYTHONUNBUFFERED", None)  # it would hide what goes wrong when the output is written at the end
Command = Callable[..., tuple[int, str, str]]
RUN = "import dnsteer.switch.tools as tools; tools.SBIN = (); from dnsteer.cli.main import run; run()"


def dnsteer(*args: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a process of its own."""
    argv = [sys.executable, "-m", "dnsteer", *args]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env={**ENV, **more}, timeout=60)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The same without the process, which is quicker: exit code, output and messages."""

    def run(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dnsteer", *args])
        code = main._run()
        return code, *capsys.readouterr()

    return run


def shell(script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in which `dnsteer` is the command."""
    function = f'dnsteer() {{ "{sys.executable}" -m dnsteer "$@"; }}\n'
    return subprocess.run(
        ["bash", "-c", function + script], capture_output=True, text=True, check=False, env=ENV, timeout=60
    )  # fmt: skip


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
def test_a_file_that_is_not_there(verb: str, tmp_path: Path, command: Command) -> None:
    code, _, said = command(*verb.split(), str(tmp_path / "none.yaml"))
    assert code == 1
    assert "none.yaml: found no such file" in said


def test_a_folder_that_cannot_be_written(tmp_path: Path, command: Command) -> None:
    (tmp_path / "file").write_text("")
    done = command("render", SPEC, "-o", str(tmp_path / "file"))
    assert done == (1, "", f"dnsteer: {tmp_path / 'file'}: File exists\n")


def test_addresses_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """rich would draw emoji in them."""
    out.print("2001:db8:a:b::1", markup=False)
    err.print("2001:db8:a:b::1", markup=False)
    assert capsys.readouterr() == ("2001:db8:a:b::1\n", "2001:db8:a:b::1\n")


# An OVSDB that is not as it should be


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short name, for sockets."""
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        yield Path(folder)


@pytest.mark.parametrize("verb", ["apply", "verify"])
def test_no_database(verb: str, place: Path, command: Command) -> None:
    said = f"dnsteer: OVSDB at unix:{place}/db.sock: there is no such socket; is it running?\n"
    assert command(verb, SPEC, "--db", f"unix:{place}/db.sock") == (69, "", said)


def test_a_database_from_the_environment(place: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DNSTEER_DB", f"unix:{place}/db.sock")
    assert f"unix:{place}/db.sock" in command("verify", SPEC)[2]


@pytest.mark.parametrize("kind", ["unix", "file", "tcp"])
def test_a_dead_database(kind: str, place: Path, command: Command) -> None:
    remote = f"unix:{place}/db.sock"
    with socket.socket(socket.AF_INET if kind == "tcp" else socket.AF_UNIX) as dead:
        if kind == "file":
            (place / "db.sock").write_text("")
        elif kind == "unix":
            dead.bind(f"{place}/db.sock")  # nobody listens
        else:
            dead.bind(("127.0.0.1", 0))
            remote = f"tcp:127.0.0.1:{dead.getsockname()[1]}"
        done = command("verify", SPEC, "--db", remote)
    assert done == (69, "", f"dnsteer: OVSDB at {remote}: nobody listens there; is it running?\n")


GREETINGS = {
    "says nothing": (b"", "does not answer within 0.5 s"),
    "says half of it": (b'{"id": 1, "result": {"tables"', "does not answer within 0.5 s"),
    "drips": (b'{"id": 1, "result": {"tables"', "does not answer within 0.5 s"),
    "asks back only": (b'{"id": "echo", "method": "echo", "params": []}', "does not answer within 0.5 s"),
    "refuses": (b'{"id": 1, "result": null, "error": {"error": "unknown database"}}', "unknown database"),
}


@pytest.mark.parametrize("how", GREETINGS)
@pytest.mark.parametrize("verb", ["apply", "verify"])
def test_a_stuck_database_is_given_up_in_time(how: str, verb: str, place: Path) -> None:
    said, message = GREETINGS[how]
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        server.bind(f"{place}/db.sock")
        server.listen()
        process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "dnsteer", verb, SPEC, "--db", f"unix:{place}/db.sock", "--timeout", "0.5"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV,
            )
        )  # fmt: skip
        peer, _ = server.accept()
        start = time.monotonic()
        peer.sendall(said)
        if how == "drips":
            with suppress(OSError):
                while process.poll() is None:
                    peer.sendall(b" ")
        _, errors = process.communicate(timeout=20)
        peer.close()
    assert process.returncode == (1 if how == "refuses" else 69)
    assert message in errors
    assert "Traceback" not in errors
    assert time.monotonic() - start < 5


def test_errors_as_json(place: Path, command: Command) -> None:
    code, shown, said = command("apply", SPEC, "--db", f"unix:{place}/db.sock", "--json")
    assert (code, said) == (69, "")
    message = f"OVSDB at unix:{place}/db.sock: there is no such socket; is it running?"
    assert json.loads(shown) == {"ok": False, "error": message}


def test_a_database_of_somebody_else(place: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_remote: str, _timeout: float) -> socket.socket:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(rpc, "_connect", refused)
    done = command("verify", SPEC, "--db", f"unix:{place}/db.sock")
    assert done == (77, "", f"dnsteer: {place}/db.sock: Permission denied; run as root or as the owner\n")


@pytest.mark.parametrize("verb", ["check", "explain"])
def test_without_open_vswitch(verb: str, place: Path) -> None:
    query = ["--client", "198.51.100.7:40001", "--vip", "198.51.100.53:53/udp"] if verb == "explain" else []
    done = subprocess.run(
        [sys.executable, "-c", RUN, verb, SPEC, *query], capture_output=True, text=True, check=False,
        env={**ENV, "PATH": str(place), "TMPDIR": str(place)},
    )  # fmt: skip
    assert done.returncode == 69
    assert "is not installed; install Open vSwitch (Debian: apt-get install openvswitch-switch)" in done.stderr
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "remote"),
    [
        ("unix:/run/db.sock", "unix:/run/db.sock"),
        ("unix:db.sock", f"unix:{Path.cwd()}/db.sock"),
        ("tcp:127.0.0.1:6640", "tcp:127.0.0.1:6640"),
        ("tcp:[::1]:6640", "tcp:[::1]:6640"),
        ("ssl:1.2.3.4:6640", "ssl:1.2.3.4:6640"),
        ("ssl:[::1]:6640", "ssl:[::1]:6640"),
    ],
)
def test_remotes(text: str, remote: str) -> None:
    assert parse_remote(text) == remote


@pytest.mark.parametrize("text", ["", "unix:", "db.sock", "tcp:1.2.3.4", "tcp:1.2.3.4:0", "tcp:1.2.3.4:65536",
                                  "tcp:host:1", "ssl:1.2.3.4", "ssl:1.2.3.4:0", "ssl:host:1", "ssl:::1:6640", "ssl:",
                                  "ptcp:6640", "pssl:6640", "punix:x"])  # fmt: skip
def test_what_is_no_remote(text: str) -> None:
    with pytest.raises(ValueError, match="expected unix:PATH"):
        parse_remote(text)


# Output


def test_json_of_every_verb_that_has_it(tmp_path: Path, command: Command) -> None:
    rendered = json.loads(command("render", SPEC, "-o", str(tmp_path), "--json")[1])
    assert rendered["files"] == {f.name: f.stat().st_size for f in tmp_path.iterdir()}
    assert json.loads(command("schema")[1])["title"] == "dnsteer spec, version 1"
    assert set(json.loads(command("version", "--json")[1])) == {"dnsteer", "python", "ovs"}
    flows = (tmp_path / "flows.txt").read_text().splitlines()
    cookie = next(line.split(",")[0].removeprefix("cookie=") for line in flows if line.startswith("cookie="))
    assert json.loads(command("explain", SPEC, "--json", "--cookie", cookie)[1])["line"] > 1


@pytest.mark.parametrize("verb", ["schema", "version", "version --json"])
def test_who_does_not_read_to_the_end_is_not_bothered(verb: str) -> None:
    done = shell(f'dnsteer {verb} | true; echo "${{PIPESTATUS[0]}}"')
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_a_broken_pipe_is_no_error_of_the_switch() -> None:
    with pytest.raises(BrokenPipeError), reporting():
        raise BrokenPipeError


def test_no_output_at_all() -> None:
    closed = shell("dnsteer version >&-; echo $?")
    assert (closed.stdout, closed.stderr) == ("0\n", "")


@pytest.mark.parametrize("verb", ["schema", "version", "version --json"])
def test_output_that_cannot_be_written(verb: str) -> None:
    done = shell(f"dnsteer {verb} >/dev/full; echo $?")
    assert (done.stdout, done.stderr) == ("1\n", "dnsteer: output: No space left on device\n")


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
def test_completion_of_a_shell_that_is_named(kind: str, command: Command) -> None:
    code, shown, said = command("--show-completion", kind)
    assert (code, said) == (0, "")
    assert "_DNSTEER_COMPLETE=complete_" + kind in shown


def test_completion_completes(place: Path, command: Command) -> None:
    program = place / "dnsteer"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m dnsteer "$@"\n')
    program.chmod(0o755)
    script = command("--show-completion", "bash")[1]
    words = "COMP_WORDS=(dnsteer ver)\nCOMP_CWORD=1\n_dnsteer_completion dnsteer\necho ${COMPREPLY[@]}"
    done = shell(f"unset -f dnsteer; PATH={place}:$PATH\n{script}\n{words}")
    assert (set(done.stdout.split()), done.stderr) == ({"verify", "version"}, "")


def test_completion_of_an_unknown_shell(command: Command) -> None:
    assert command("--show-completion", "tcsh")[0] == 1


def test_ctrl_c_while_waiting_for_a_switch(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{place}/db.sock")
        server.listen()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = subprocess.Popen(
                [sys.executable, "-m", "dnsteer", "apply", SPEC, "--db", f"unix:{place}/db.sock"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV,
            )  # fmt: skip
            peer, _ = server.accept()
            process.send_signal(number)
            assert process.communicate(timeout=5) == ("", "dnsteer: interrupted\n")
            assert process.returncode == 130
            peer.close()


def test_a_request_to_end_that_was_to_be_ignored_is_ignored(place: Path) -> None:
    """As with nohup."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{place}/db.sock")
        server.listen()
        process = subprocess.Popen(
            [sys.executable, "-m", "dnsteer", "verify", SPEC, "--db", f"unix:{place}/db.sock", "--timeout", "0.5"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
        )  # fmt: skip
        peer, _ = server.accept()
        process.send_signal(signal.SIGHUP)
        assert "does not answer within 0.5 s" in process.communicate(timeout=5)[1]
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
    time.sleep(5)
    return 0
main._run = work
main.run()
"""


@pytest.mark.parametrize("where", ["Thing()", "exec('os.kill(os.getpid(), 2); time.sleep(1)')"])
def test_interrupts_are_not_lost_where_python_loses_or_repeats_them(where: str, tmp_path: Path) -> None:
    """In destructors it only reports them; after one inside of exec() it ends itself by the signal."""
    (tmp_path / "work.py").write_text(WORK.format(where))
    env = {**ENV, "PYTHONPATH": f"{tmp_path}:{ENV['PYTHONPATH']}"}
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "work"], capture_output=True, text=True, check=False, env=env)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "dnsteer: interrupted\n")
    assert time.monotonic() - start < 4
