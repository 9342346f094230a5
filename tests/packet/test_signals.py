# SPDX-License-Identifier: Apache-2.0
"""`apply` and `check` that are asked to end at any moment: all is undone or all is done, and nothing is left behind."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dnsteer.deploy.overlay_change import change_overlay
from dnsteer.deploy.overlay_edits import take_out
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.status.verify import find_drift
from dnsteer.switch.openflow import OpenFlow, RejectedError
from dnsteer.switch.session import Session
from dnsteer.switch.tools import find_program
from tests.packet.apply_spec import apply
from tests.packet.switches import LARGE, ROOT, SMALL, Switch, cli, processes_naming, spec_of
from tests.packet.test_interrupted import MOMENTS, ONE, ONE_TEXT, PARTING, before, ports_of, switch_has

BEFORE = [name for name in MOMENTS if name not in ("before the bundle", "before the record")]
WRITTEN = {"before it is written down": before("begin", Session), "before it is confirmed": before("commit", Session)}


@pytest.mark.parametrize("when", [*MOMENTS, *WRITTEN])
def test_an_interrupt_leaves_no_pending_change(when: str, switch: Switch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the bundle all is undone, afterwards all is done, and the record knows of nothing that is under way."""
    small, large = spec_of(PARTING), spec_of(LARGE)
    apply(small, switch.database)
    tables, ports = switch.tables(), ports_of(switch)
    with monkeypatch.context() as patch:
        {**MOMENTS, **WRITTEN}[when](patch, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt) as error:
            apply(large, switch.database)
    if when in (*BEFORE, "before it is written down"):
        assert str(error.value) == ("nothing was changed" if when != BEFORE[0] else "")
        assert (switch.tables(), ports_of(switch)) == (tables, ports)
        assert find_drift(small, switch.database) == []
    else:
        assert str(error.value) == "the change was already made"
        assert find_drift(large, switch.database) == []
        assert not apply(large, switch.database).changed


# A terminal sends Ctrl-C to children too.
NUDGER = """#!/bin/sh
case " $* " in *" bundle "*) kill -INT $PPID $$; sleep 0.2 ;; esac
exec {real} "$@"
"""


def test_ctrl_c_in_a_terminal_does_not_cut_the_bundle(
    switch: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large, nudger = spec_of(SMALL), spec_of(LARGE), tmp_path / "ovs-ofctl"
    apply(small, switch.database)
    nudger.write_text(NUDGER.format(real=find_program("ovs-ofctl")))
    nudger.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        with pytest.raises(KeyboardInterrupt, match="the change was already made"):
            apply(large, switch.database)
        assert find_drift(large, switch.database) == []
        with pytest.raises(KeyboardInterrupt):
            change_overlay(TargetSwitch(switch.database), None, take_out("direct/c", "down"))
    with Session(switch.database) as session:
        record = session.record_of(None)
    assert (record.pending, [a.name for a in record.overlay]) == (None, ["direct/c"])
    assert find_drift(large, switch.database) == []


def test_an_interrupt_during_a_bundle_that_is_refused(switch: Switch, monkeypatch: pytest.MonkeyPatch) -> None:
    def bundle(self: OpenFlow, lines: list[str]) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        raise RejectedError("no more room", "")

    apply(spec_of(SMALL), switch.database)
    with monkeypatch.context() as patch:
        patch.setattr(OpenFlow, "bundle", bundle)
        with pytest.raises(KeyboardInterrupt, match="refused the changes: no more room: ; nothing was changed"):
            apply(spec_of(LARGE), switch.database)
    assert ports_of(switch) == ["p0"]
    assert find_drift(spec_of(SMALL), switch.database) == []


class Run:
    """A `dnsteer` process whose temporary files are in a directory of its own."""

    def __init__(self, folder: Path, *args: object) -> None:
        self.folder = folder
        env = {**os.environ, "PYTHONPATH": str(ROOT / "generator"), "TMPDIR": str(folder)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dnsteer", *map(str, args)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
            start_new_session=True,
        )

    def wait_until_it_listens(self) -> None:
        """Until its handlers of signals are there: the interpreter's own start is not ours to clean up."""
        status = Path(f"/proc/{self.process.pid}/status")
        while not int(status.read_text().split("SigCgt:")[1].split()[0], 16) >> (signal.SIGTERM - 1) & 1:
            assert self.process.poll() is None
            time.sleep(0.002)

    def end(self, number: signal.Signals, *, group: bool) -> tuple[int, str]:
        """Send the signal, to the whole process group as a terminal does or to the process; exit code and messages."""
        (os.killpg if group else os.kill)(self.process.pid, number)
        _, said = self.process.communicate(timeout=20)
        return self.process.returncode, said


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty directory with a short name, for sockets."""
    path = Path(tempfile.mkdtemp(prefix="t-"))
    yield path
    shutil.rmtree(path)


WAYS = [(signal.SIGINT, False), (signal.SIGINT, True), (signal.SIGTERM, False), (signal.SIGHUP, True)]


def test_check_asked_to_end_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(LARGE)
    start = time.monotonic()
    run = Run(folder, "check", spec)
    run.wait_until_it_listens()
    ready = time.monotonic()
    assert run.process.wait(60) == 0
    whole = time.monotonic() - ready
    assert ready - start < 5
    draw, ended = random.Random(53), 0
    for i in range(8):
        run = Run(folder, "check", spec)
        run.wait_until_it_listens()
        time.sleep(draw.uniform(0, 0.8) * whole)
        code, said = run.end(WAYS[i % 4][0], group=WAYS[i % 4][1])
        assert (code, said) in ((130, "dnsteer: interrupted\n"), (0, "")), i
        ended += code == 130
        assert list(folder.iterdir()) == []
        assert processes_naming(f"{folder}/") == []
    assert ended >= 3


LONG = {
    "lint": [],
    "capacity": ["--hardware", "bluefield-3"],
    "explain": ["--client", "198.51.100.7:40001", "--vip", "198.51.100.53:53/udp"],
}


@pytest.mark.parametrize("verb", LONG)
def test_verbs_with_a_private_switch_that_are_asked_to_end_say_so(verb: str, folder: Path, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(LARGE)
    run = Run(folder, verb, spec, *LONG[verb])
    deadline = time.monotonic() + 20
    while not list(folder.glob("dnsteer-*/db.sock")) and time.monotonic() < deadline:  # the switch is being started
        assert run.process.poll() is None
        time.sleep(0.002)
    assert run.end(signal.SIGINT, group=True) == (130, "dnsteer: interrupted\n")
    assert list(folder.iterdir()) == []


def test_an_interrupted_gradual_drain_says_that_it_continues(switch: Switch, folder: Path, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(SMALL)
    assert cli("apply", spec, "--db", switch.database).returncode == 0
    run = Run(folder, "drain", "farm/ns1", "--over", "100s", "--db", switch.database)
    deadline = time.monotonic() + 20
    while (
        "dnsteer-overlay" not in switch.vsctl("get", "Bridge", "br-dns", "external_ids") and time.monotonic() < deadline
    ):
        assert run.process.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)  # the drain is on its way
    code, said = run.end(signal.SIGINT, group=False)
    last = said.splitlines()[-1]
    assert (code, last) == (
        130,
        "dnsteer: interrupted; farm/ns1 stays as far drained as it is; `reconcile` goes on with it",
    )


def test_apply_asked_to_end_changes_all_or_nothing(switch: Switch, folder: Path, tmp_path: Path) -> None:
    switch.expected = ["Connection reset by peer", "Broken pipe"]
    spec = tmp_path / "spec.yaml"
    spec.write_text(ONE_TEXT)
    lasted = []
    for _ in range(2):
        if switch_has(switch, "br-dns"):
            switch.vsctl("del-br", "br-dns")
        run = Run(folder, "apply", spec, "--db", switch.database)
        run.wait_until_it_listens()
        start = time.monotonic()
        assert run.process.wait(60) == 0
        lasted.append(time.monotonic() - start)
    whole, held = min(lasted), switch.tables()
    draw, ended = random.Random(54), 0
    for i in range(8):
        switch.vsctl("del-br", "br-dns")
        run = Run(folder, "apply", spec, "--db", switch.database)
        run.wait_until_it_listens()
        time.sleep(draw.uniform(0.3, 1) * whole)
        code, said = run.end(WAYS[i % 4][0], group=WAYS[i % 4][1])
        assert code in (130, 0), said
        whole *= 1.1 if code == 130 else 0.8  # others use the machine too, now more and now less
        if code == 130:
            ended += 1
            last = said.splitlines()[-1]
            assert last.startswith("dnsteer: interrupted"), said
            assert "Traceback" not in said
            with Session(switch.database) as session:
                record = session.record("br-dns")
            assert record is None or record.pending is None, said
            if "removed again" in last:
                assert switch.bridges() == []
            elif switch.bridges():  # the bundle was under way, or all was done
                assert last in (f"dnsteer: interrupted{end}" for end in ("", "; the change was already made"))
                assert switch.tables() == held
                assert find_drift(ONE, switch.database) == []
            else:
                # Ended by the terminal, a program may have said so before it was stopped.
                assert last == "dnsteer: interrupted" or "terminating with signal" in last, said
        assert list(folder.iterdir()) == []
        apply(ONE, switch.database)
        assert find_drift(ONE, switch.database) == []
    assert ended >= 2


def test_check_killed_leaves_no_daemon(folder: Path, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(LARGE)
    run = Run(folder, "check", spec)
    while len(processes_naming(f"{folder}/")) < 2:
        time.sleep(0.01)
    run.process.kill()
    run.process.communicate()
    deadline = time.monotonic() + 5
    while processes_naming(f"{folder}/"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
