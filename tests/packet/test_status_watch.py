# SPDX-License-Identifier: Apache-2.0
"""`status --watch`: `top` on a terminal; in a pipe and for programs the status again and again, until Ctrl-C."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.packet.status_cases import GONE, deployed, load
from tests.packet.switches import ROOT, Switch

ARGV = [sys.executable, "-m", "dnsteer", "status", "--watch", "--interval", "0.5s", "--db"]
ENV = {**os.environ, "PYTHONPATH": str(ROOT / "generator"), "TERM": "xterm-256color"}
ENV.pop("COLUMNS", None)
ENV.pop("LINES", None)
PATIENCE = 30.0
SHOW_CURSOR, MAIN_SCREEN = b"\x1b[?25h", b"\x1b[?1049l"


@contextmanager
def watching(*args: str, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([*ARGV, *args], env=ENV, start_new_session=True, **more) as process:
        try:
            yield process
        finally:
            process.kill()


def test_watch_prints_one_json_line_each_interval_through_an_outage(switch: Switch) -> None:
    deployed(switch)
    switch.expected += GONE

    def until(process: subprocess.Popen[bytes], what: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        assert process.stdout
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found: dict[str, Any] = json.loads(process.stdout.readline())
            if what(found):
                return found
        raise AssertionError("not seen")

    with watching(switch.database, "--json", stdout=subprocess.PIPE) as process:
        assert until(process, lambda f: bool(f["ok"]))["tables"] == "recorded"
        with load(switch, "198.51.100.54", udp=400, tcp=0):
            until(process, lambda f: f["vips"][1]["queries_per_second"] > 30)
        switch.kill_switch()
        assert until(process, lambda f: not f["reachable"])["state"]["state"] == 1
        switch.start_switch()
        back = until(process, lambda f: bool(f["reachable"]))
        assert (back["tables"], back["drift_count"] > 100) == ("other", True)
        deployed(switch)
        mended = until(process, lambda f: f["tables"] == "recorded" and not f["interrupted"])
        assert mended["drift_count"] == 0  # what was found before was looked for again at once
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
        assert process.returncode == 130


def test_a_pipe_gets_the_whole_status_again_and_again(switch: Switch) -> None:
    deployed(switch)
    switch.expected += GONE
    with watching(switch.database, "nat", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout

        def lines_until(end: bytes) -> bytes:
            found = b""
            while end not in found:
                line = process.stdout.readline()  # type: ignore[union-attr]
                assert line, found
                found += line
            return found

        for _ in range(2):
            text = lines_until(b": as recorded")
            assert text.startswith(b"bridge ") and b"hashed" in text and b"straight" not in text
        os.kill(switch._processes["ovsdb-server"].pid, signal.SIGKILL)
        lines_until(b"unreachable: ")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert process.stderr and b"dnsteer top" not in process.stderr.read()


def test_a_terminal_shows_top_and_is_left_as_it_was(switch: Switch) -> None:
    deployed(switch)
    switch.expected += GONE
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    before = termios.tcgetattr(theirs)
    shown = b""

    def until(what: bytes) -> bytes:
        nonlocal shown
        deadline, seen = time.monotonic() + PATIENCE, len(shown)
        while what not in shown[seen:]:
            assert time.monotonic() < deadline, shown[-3000:]
            if select.select([ours], [], [], 0.2)[0]:
                shown += os.read(ours, 1 << 16)
        return shown[seen:]

    with watching(
        switch.database,
        "nat",
        "direct",
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as process:
        text = until(b"with 'nat,direct'")
        assert text.startswith(b"note: status --watch is dnsteer top")
        assert b"198.51.100.53" in text and b"direct/a" in text
        os.kill(switch._processes["ovsdb-server"].pid, signal.SIGKILL)
        until(b"unreachable since the last refresh")
        os.write(ours, b"q")
        until(MAIN_SCREEN)
        assert process.wait(PATIENCE) == 0
    assert shown.index(b"note: ") < shown.index(b"\x1b[?1049h") < shown.rindex(SHOW_CURSOR)
    assert b"Traceback" not in shown
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


def test_watch_fails_if_the_first_reading_fails(switch: Switch) -> None:
    with watching(f"unix:{switch.dir}/nobody.sock", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 69
        assert b"no such socket" in said
