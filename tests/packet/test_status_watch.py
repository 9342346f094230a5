"""`status --watch`: on a terminal and for programs, while the switch goes away and comes back, until Ctrl-C."""

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


def test_a_terminal_is_left_as_it_was(switch: Switch) -> None:
    deployed(switch)
    switch.expected += GONE
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    before = termios.tcgetattr(theirs)
    shown = b""

    def until(what: bytes) -> None:
        nonlocal shown
        deadline, seen = time.monotonic() + PATIENCE, len(shown)
        while what not in shown[seen:]:
            assert time.monotonic() < deadline, shown[-3000:]
            if select.select([ours], [], [], 0.2)[0]:
                shown += os.read(ours, 1 << 16)

    with watching(
        switch.database, stdin=theirs, stdout=theirs, stderr=theirs,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as process:  # fmt: skip
        until(b"as recorded")
        until(b"2001:db8:1::54")
        switch.kill_switch()
        until(b"cannot be reached")
        os.kill(switch._processes["ovsdb-server"].pid, signal.SIGKILL)
        until(b"unreachable since the last refresh")
        os.write(ours, b"\x03")
        until(b"dnsteer: interrupted")
        process.wait(PATIENCE)
        assert process.returncode == 130
    assert (
        shown.index(b"\x1b[?1049h") < shown.rindex(SHOW_CURSOR) < shown.rindex(MAIN_SCREEN) < shown.rindex(b"dnsteer:")
    )
    assert b"Traceback" not in shown
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


def test_watch_fails_if_the_first_reading_fails(switch: Switch) -> None:
    with watching(f"unix:{switch.dir}/nobody.sock", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 69
        assert b"no such socket" in said
