# SPDX-License-Identifier: Apache-2.0
"""What a spec or plan may be read from: files, standard input and pipes; everything else is refused at once."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dnsteer.cli.output import Exit
from dnsteer.spec import source
from dnsteer.spec.source import STDIN, UnreadableError, read_whole
from tests.unit.commands import ENV, SPEC, Command

TEXT = Path(SPEC).read_text()
READERS = {
    "spec": lambda file: ["check", str(file)],
    "plan": lambda file: ["apply", "--plan", str(file)],
}


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def listening(folder: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket"))
    return folder / "socket"


NO_FILES: dict[str, Callable[[Path], Path]] = {
    "a directory": lambda folder: folder,
    "a socket": listening,
    "a device": lambda _: Path("/dev/zero"),
    "a pipe that nobody writes to (0.2 s waited)": pipe,
}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "PATIENCE", 0.2)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("what", NO_FILES)
def test_anything_but_a_file_is_refused(what: str, reader: str, place: Path, command: Command) -> None:
    file = NO_FILES[what](place)
    code, shown, said = command(*READERS[reader](file))
    assert (code, shown) == (Exit.ERROR, "")
    assert f"{file}: found {what}; expected a" in said
    assert "Traceback" not in said


def test_a_pipe_without_writer_ends_for_real(place: Path) -> None:
    """As a process, which would else wait for ever."""
    argv = [sys.executable, "-m", "dnsteer", "render", str(pipe(place)), "-o", str(place / "out")]
    start = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=ENV, timeout=60)
    assert done.returncode == Exit.ERROR
    assert "found a pipe that nobody writes to (5 s waited)" in done.stderr
    assert time.monotonic() - start > source.PATIENCE
    assert not (place / "out").exists()


def written(file: Path, *parts: str, first: float = 0.0, pause: float = 0.0) -> threading.Thread:
    """Write *parts* to a pipe, in a thread: *first* seconds before it is opened, *pause* seconds before each part."""

    def work() -> None:
        time.sleep(first)
        with file.open("w") as stream:
            for part in parts:
                time.sleep(pause)
                stream.write(part)
                stream.flush()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(("first", "pause"), [(0.0, 0.0), (0.3, 0.0), (0.0, 0.4), (0.3, 0.4)])
def test_a_pipe_with_a_writer_is_read_to_its_end(first: float, pause: float, place: Path) -> None:
    file = pipe(place)
    thread = written(file, TEXT, "# more\n" * 20_000, first=first, pause=pause)
    assert read_whole(file, 1 << 20) == (TEXT + "# more\n" * 20_000).encode()
    thread.join(30)


@pytest.mark.usefixtures("impatient")
def test_a_writer_that_is_slow_is_waited_for(place: Path) -> None:
    file = pipe(place)
    written(file, "text", pause=0.6)  # longer than anybody is waited for to come
    assert read_whole(file, 100) == b"text"


def test_a_pipe_closed_without_data_is_an_empty_file(place: Path) -> None:
    file = pipe(place)
    written(file)
    assert read_whole(file, 100) == b""


def test_reading_stops_at_the_limit(place: Path) -> None:
    (place / "file").write_text("x" * 1000)
    assert read_whole(place / "file", 10) == b"x" * 11
    file = pipe(place)
    written(file, "y" * 1000)
    assert read_whole(file, 10) == b"y" * 11


def test_the_shell_gives_the_output_of_a_command(tmp_path: Path) -> None:
    script = f"{sys.executable} -m dnsteer render <(sleep 0.2; cat {SPEC}) -o {tmp_path}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, env=ENV, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "flows.txt").exists()


# Standard input.


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def give(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return give


CLIENT = ["--client", "198.51.100.7:40001", "--vip"]
VERBS = {
    "render": ["-o", "OUT"],
    "bringup": ["-o", "OUT"],
    "check": ["--sample", "1"],
    "explain": [*CLIENT, "192.0.2.53:53/udp"],
    "lint": ["--flavor", "ovs-doca"],
    "capacity": ["--hardware", "bluefield-3"],
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_dash_is_standard_input(verb: str, tmp_path: Path, stdin: Callable[[str], None], command: Command) -> None:
    text = (Path(SPEC).parent / "quickstart.yaml").read_text()
    (tmp_path / "spec.yaml").write_text(text)
    options = [str(tmp_path / "out") if o == "OUT" else o for o in VERBS[verb]]
    by_name = command(verb, str(tmp_path / "spec.yaml"), *options, "--json")
    stdin(text)
    by_stdin = command(verb, "-", *options, "--json")
    assert (by_stdin[0], by_stdin[2]) == (by_name[0], by_name[2])
    own = json.loads(by_stdin[1]), json.loads(by_name[1].replace(str(tmp_path / "spec.yaml"), "<stdin>"))
    for value in own:
        for changing in ("seconds", "files", "changed", "flows", "findings"):
            value.pop(changing, None)
    assert own[0] == own[1]


@pytest.mark.parametrize("verb", [*VERBS, "plan", "apply", "verify", "lab up", "lab demo", "lab failover"])
def test_mistakes_in_standard_input_have_its_name(verb: str, stdin: Callable[[str], None], command: Command) -> None:
    stdin(TEXT.replace("bridge: br-dns", "bridge: br-dns\n  colour: red"))
    line = TEXT.splitlines().index("  bridge: br-dns") + 2
    options = [o if o != "OUT" else "/nonexistent/out" for o in VERBS.get(verb, [])]
    code, shown, said = command(*verb.split(), "-", *options)
    assert (code, shown) == (Exit.ERROR, "")
    assert said.startswith(f'<stdin>:{line}: $.switch.colour: found the unknown key "colour"')
    assert said.endswith("1 error in <stdin>; nothing was changed\n")


def test_a_plan_from_standard_input(stdin: Callable[[str], None], command: Command) -> None:
    stdin("no plan")
    assert command("apply", "--plan", "-") == (
        Exit.ERROR,
        "",
        "dnsteer: <stdin>: not a plan file (not JSON); make one with: dnsteer plan SPEC -o FILE\n",
    )


def test_standard_input_that_is_closed() -> None:
    script = f"{sys.executable} -m dnsteer check - <&-"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, env=ENV, timeout=60)
    assert done.returncode == Exit.ERROR
    assert "<stdin>: found a standard input that is closed" in done.stderr


def test_a_file_named_dash_is_read_by_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stdin: Callable[[str], None]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("-").write_text("file")
    stdin("stdin")
    assert read_whole(STDIN, 10) == b"stdin"
    assert read_whole(Path.cwd() / "-", 10) == b"file"
    with pytest.raises(UnreadableError, match="a directory"):
        read_whole(Path(), 10)
