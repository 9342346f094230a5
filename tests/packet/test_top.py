# SPDX-License-Identifier: Apache-2.0
"""`top` on a real switch under real packets: one frame for programs and pipes, and a terminal that is left as it was."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path

import pytest

from dnsteer.cli.output import Exit
from tests.packet.command import SLOW, on, run, spec_file
from tests.packet.status_cases import GONE, load
from tests.packet.switches import LARGE, ROOT, Running, Switch, cli, unexpected

SPEC = LARGE.replace("mac: '02:00:00:00:03:03', port: vf2}", "mac: '02:00:00:00:03:03', port: vf2, weight: 3}")
ENV = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
ENV |= {"PYTHONPATH": str(ROOT / "generator"), "TERM": "xterm-256color"}
PATIENCE = 30.0


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A switch with queries for one VIP, and a backend of the other one drained."""
    with Running() as private:
        private.expected = [*SLOW, "Connection reset by peer", "Broken pipe"]
        spec = spec_file(tmp_path_factory.mktemp("top"), SPEC)
        assert on(private)("apply", spec, "--yes").code == 0
        assert on(private)("drain", "hashed/a", "--note", "CHG 4711", "--yes").code == 0
        with load(private, "198.51.100.54", udp=400, tcp=100):
            yield private
        assert unexpected(private) == []


def test_once_prints_one_json_object(busy: Running) -> None:
    done = on(busy)("top", "--once", "--json", "--interval", "1s")
    assert done.code == Exit.OK, done.err
    found = done.json
    assert found["interval"] >= 1
    (first, second) = found["vips"]
    assert (first["name"], second["name"]) == ("straight", "nat")  # the busiest first
    assert 60 < first["queries_per_second"] < 800
    assert first["packets_per_second"] == pytest.approx(1.25 * first["queries_per_second"], rel=0.3)
    assert second["packets_per_second"] == 0
    here = {f"{b['pool']}/{b['name']}": b for b in found["backends"]}
    assert here["direct/c"]["weight_share"] == here["direct/c"]["slots_share"] == 0.75
    assert here["direct/a"]["share"] + here["direct/c"]["share"] == pytest.approx(1, abs=0.001)
    sent = here["direct/a"]["packets_per_second"] + here["direct/c"]["packets_per_second"]
    assert sent == pytest.approx(first["packets_per_second"], rel=0.3)
    assert (here["hashed/a"]["state"], here["hashed/a"]["slots_share"], here["hashed/a"]["share"]) == (
        "drained",
        0,
        None,
    )
    alone, entry = found["attention"]
    assert (alone["level"], alone["title"]) == ("note", "Pool hashed: one backend is left in service")
    assert (entry["level"], entry["title"]) == ("note", "hashed/a is drained") and entry["detail"].endswith(
        ": CHG 4711"
    )
    assert entry["decision"] == on(busy)("status", "--json", "--no-rates").json["overlay"][0]["decision"]
    assert found["datapath"]["reason"] is None and found["datapath"]["megaflows"] >= 2
    assert found["datapath"]["hits_per_second"] > 60


def test_a_pipe_gets_one_frame_of_the_asked_size(busy: Running) -> None:
    done = cli("top", "--interval", "0.5s", "--db", busy.database, env={"COLUMNS": "80", "LINES": "24"})
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    row = next(line for line in lines if line.startswith("straight"))
    assert re.search(r"straight +198\.51\.100\.54 \+1 +direct +\d+ +\d+", row)
    assert "\x1b" not in done.stdout


def test_a_filter_for_one_frame(busy: Running) -> None:
    done = on(busy)("top", "--once", "--json", "--interval", "0.5s", "--filter", "STRAIGHT")
    assert [vip["name"] for vip in done.json["vips"]] == ["straight"]
    assert {b["pool"] for b in done.json["backends"]} == {"direct"}


def test_json_prints_one_object_each_interval(busy: Running) -> None:
    argv = [sys.executable, "-m", "dnsteer", "top", "--json", "--interval", "0.5s", "--db", busy.database]
    with subprocess.Popen(argv, env=ENV, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout
            times = [json.loads(process.stdout.readline())["time"] for _ in range(2)]
            assert times[0] < times[1]
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 130
        finally:
            process.kill()


Until = Callable[[str], str]


@contextmanager
def terminal(switch: Switch, *args: str) -> Iterator[tuple[subprocess.Popen[bytes], int, Until]]:
    """The verb in a terminal of 80x24: its process, our end, and what waits for it to show a text."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before, shown = termios.tcgetattr(theirs), b""

    def until(text: str) -> str:
        nonlocal shown
        deadline, seen = time.monotonic() + PATIENCE, len(shown)
        while text.encode() not in shown[seen:]:
            assert time.monotonic() < deadline, shown[-3000:]
            if select.select([ours], [], [], 0.2)[0]:
                shown += os.read(ours, 1 << 16)
        return shown[seen:].decode()

    argv = [sys.executable, "-m", "dnsteer", "top", "--interval", "0.5s", "--db", switch.database, *args]
    process = subprocess.Popen(
        argv,
        env=ENV,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: ioctl(0, termios.TIOCSCTTY, 0),
    )
    try:
        yield process, ours, until
        assert termios.tcgetattr(theirs) == before
        assert b"\x1b[?1049h" in shown and shown.rindex(b"\x1b[?1049l") < shown.rindex(b"\x1b[?25h") + 20
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)


def test_keys_change_the_view_on_a_terminal(busy: Running) -> None:
    with terminal(busy) as (process, ours, until):
        until("over ")  # it has rates
        os.write(ours, b"n")
        until("by name")
        os.write(ours, b"s")
        until("by state")
        os.write(ours, b"/strai")
        until("filter: strai_")
        os.write(ours, b"\r")
        assert "nat " not in until("with 'strai'").rpartition("VIP")[2]
        os.write(ours, b"q")
        until("\x1b[?1049l")
        assert process.wait(PATIENCE) == 0


def test_ctrl_c_ends_top_and_a_lost_switch_does_not(switch: Switch, tmp_path: Path) -> None:
    switch.expected += GONE
    assert on(switch)("apply", spec_file(tmp_path, SPEC), "--yes").code == 0
    with terminal(switch, "--sort", "difference") as (process, ours, until):
        until("by difference")
        switch.kill_switch()
        until("cannot be reached")
        os.write(ours, b"\x03")
        until("dnsteer: interrupted")
        assert process.wait(PATIENCE) == 130


def test_wrong_usage_of_top_is_named(busy: Running, tmp_path: Path) -> None:
    done = on(busy)("top", "--sort", "weight")
    assert done.code == 64 and "expected one of rate, name, state, difference" in " ".join(
        done.err.replace("│", "").split()
    )
    done = run("top", "--db", f"unix:{tmp_path}/nobody.sock")
    assert (done.code, done.out) == (69, "") and "no such socket" in done.err
