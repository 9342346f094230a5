# SPDX-License-Identifier: Apache-2.0
"""Commands as health checks: whatever they do, they end within the time-out, with all that they have started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.agent_probing import LONG, SHORT, probed, target_of

LATE = f"no answer within {SHORT:g} s"


def said_of(*command: str, timeout: float = LONG) -> list[str]:
    return probed(lambda _: target_of("command", 53, timeout, command=list(command)))


@pytest.mark.parametrize(
    ("script", "timeout", "why"),
    [
        ("exit 0", LONG, ""),
        ("echo fine", LONG, ""),
        ("exit 3", LONG, "/bin/sh ended with 3"),
        ("echo 'it is down'; echo more; exit 3", LONG, "/bin/sh ended with 3: it is down"),
        ("echo 'it is down' >&2; exit 3", LONG, "/bin/sh ended with 3: it is down"),
        ("printf 'a\\033[31mb\\377'; exit 3", LONG, "/bin/sh ended with 3: a?[31mb\ufffd"),
        ("head -c 60000 /dev/zero | tr '\\0' x; exit 3", LONG, "/bin/sh ended with 3: " + "x" * 178),
        ("kill -9 $$", LONG, "/bin/sh ended with -9"),
        ("exec sleep 1000", SHORT, LATE),
        ("trap '' TERM INT HUP; while :; do sleep 1000; done", SHORT, LATE),
        ("exec head -c 1000000000 /dev/zero", 1.0, "/bin/sh printed more than 64 KiB"),
        ("exec yes", 1.0, "/bin/sh printed more than 64 KiB"),
        ("[ /dev/stdin -ef /dev/null ] || exit 4; exit 0", LONG, ""),
        ("sleep 1000 & exit 0", LONG, ""),
        ("sleep 1000 & exit 3", LONG, "/bin/sh ended with 3"),
    ],
)
def test_command_checks_are_judged_by_exit_code_and_time(script: str, timeout: float, why: str) -> None:
    assert said_of("/bin/sh", "-c", script, timeout=timeout) == [why, why]


def test_a_command_that_cannot_run_fails_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    assert said_of("/nowhere") == ["/nowhere cannot be run: No such file or directory"] * 2
    assert said_of(str(tmp_path / "plain")) == [f"{tmp_path}/plain cannot be run: Permission denied"] * 2
    assert said_of("/bin/sh\0") == ["/bin/sh? cannot be run: embedded null byte"] * 2


def test_placeholders_in_commands_are_replaced(tmp_path: Path) -> None:
    said = said_of("/bin/sh", "-c", "echo $1; exit 1", "", "{address} {port} {pool} {backend} {other}")
    assert said == ["/bin/sh ended with 1: 127.0.0.1 53 p b {other}"] * 2


@pytest.mark.parametrize("end", ["exit 0", "exit 1", "sleep 1000"])
def test_children_end_with_their_command(end: str, tmp_path: Path) -> None:
    """Children in the background, and theirs, that ignore signals; one has closed the command's output."""
    pids = tmp_path / "pids"
    script = (
        f"(trap '' TERM INT HUP; (sleep 1000 & echo $! >>{pids}; wait) & echo $! >>{pids}; wait) & echo $! >>{pids}\n"
        f"sleep 1000 >/dev/null 2>&1 & echo $! >>{pids}\n"
        f"while [ $(wc -l <{pids}) -lt 4 ]; do sleep 0.01; done; {end}"
    )
    probed(lambda _: target_of("command", 53, 2.0, command=["/bin/sh", "-c", script]), times=1)
    known = [int(pid) for pid in pids.read_text().split()]
    assert len(known) == 4
    deadline = time.monotonic() + 10
    while running := [pid for pid in known if _runs(pid)]:
        assert time.monotonic() < deadline, running
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z" and os.getpgid(pid) != os.getpgid(0)


def test_ended_commands_are_reaped() -> None:
    said_of("/bin/sh", "-c", "sleep 1000", timeout=SHORT)
    time.sleep(0.2)
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    states = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in children]
    assert "Z" not in states


def test_the_agent_may_open_as_many_files_as_it_can() -> None:
    script = (
        "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (64, 4096)); from dnsteer.cli.agent import allow_files; "
        "allow_files(); print(r.getrlimit(r.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "(4096, 4096)\n", done.stderr


def test_hangup_never_ends_the_agent() -> None:
    """From the moment on in which its verb begins; a library that is loaded then would take a while."""
    script = (
        "import os, signal, dnsteer.agent.run as run\n"
        "loaded = run.Agent.__init__\n"
        "def slow(*args): os.kill(os.getpid(), signal.SIGHUP); loaded(*args)\n"
        "run.Agent.__init__ = slow\n"
        "from dnsteer.cli.main import run; run()"
    )
    argv = [sys.executable, "-c", script, "agent", "--db", "unix:/nonexistent/db.sock"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert process.stderr.readline().startswith("the switch stays as it is: ")
            for _ in range(3):
                process.send_signal(signal.SIGHUP)
            process.terminate()
            assert process.stderr.read() == "ends; the switch stays as it is\n"
        finally:
            process.kill()
            process.communicate()
    assert process.returncode == 0


@pytest.mark.parametrize(("option", "what"), [("--metrics", "metrics"), ("--console", "console and no metrics")])
def test_the_agent_works_without_what_only_metrics_need(option: str, what: str) -> None:
    """The unit asks for metrics, and a host may lack the packages after an upgrade; health checks go on all the same."""
    script = "import sys; sys.modules['prometheus_client'] = None; from dnsteer.cli.main import run; run()"
    argv = [sys.executable, "-c", script, "agent", option, "127.0.0.1:9853", "--db", "unix:/nonexistent/db.sock"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = [process.stderr.readline(), process.stderr.readline()]
        finally:
            process.terminate()
            process.communicate()
    assert said[0] == f"no {what}: the package prometheus_client is missing; pip install 'dnsteer[agent]'\n"
    assert said[1].startswith("the switch stays as it is: ")
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("option", "serve", "what"),
    [
        ("--metrics", "dnsteer.metrics.server.serve_metrics", "metrics"),
        ("--console", "dnsteer.console.serve.serve_console", "console"),
        ("--push", "dnsteer.agent.balance.pushed_metric.serve_push", "loads of backends"),
    ],
)
def test_a_listener_that_fails_is_named_and_tried_again(option: str, serve: str, what: str) -> None:
    script = (
        "import unittest.mock as m\n"
        f"with m.patch({serve!r}, side_effect=OSError('gone')):\n    from dnsteer.cli.main import run; run()"
    )
    argv = [sys.executable, "-c", script, "agent", option, "127.0.0.1:0", "--db", "unix:/nonexistent/db.sock"]
    text = f"a defect in {what}, which is tried again while all else goes on: OSError: gone ("
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert any(line.startswith(text) for line in iter(process.stderr.readline, ""))
        finally:
            process.terminate()
            process.communicate()
    assert process.returncode == 0
