# SPDX-License-Identifier: Apache-2.0
"""`check` on a machine that gives the switch no time: a note, and no failure; a proof that stalled is made again."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dnsteer.checks.load import load_spec
from dnsteer.cli.check import verdict
from dnsteer.plan.build import build_plan
from dnsteer.proof.check import prove
from dnsteer.proof.check_report import CheckReport
from dnsteer.proof.harness import switch
from dnsteer.proof.harness.switch import Harness
from dnsteer.switch import private_switch
from dnsteer.switch.private_switch import is_about_slow_machine
from dnsteer.switch.tools import SwitchError, TimedOutError
from tests.packet.command import run
from tests.packet.switches import EXAMPLES

QUICKSTART = EXAMPLES / "quickstart.yaml"
LOADED = load_spec(QUICKSTART)


def stop_for(switch: Harness, seconds: float) -> None:
    """Stop the private ovs-vswitchd, and let it go on by itself."""
    pid = switch.switch._processes["ovs-vswitchd"].pid
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(seconds, os.kill, (pid, signal.SIGCONT)).start()


def stop_until_it_warns(switch: Harness) -> None:
    """Stop it while it has packets to work at; it does not warn when it slept just then."""
    stat = Path(f"/proc/{switch.switch._processes['ovs-vswitchd'].pid}/stat")
    for nth in range(60):
        if any("Unreasonably long" in line for line in switch.switch.complaints()):
            return
        strangers = [
            f"0{nth % 8}aa{number:08x}" + "00" * 54 for number in range(2, 402, 4)
        ]  # a megaflow each, and dropped
        putting = threading.Thread(
            target=switch.switch.appctl, args=("netdev-dummy/receive", "p0", *strangers), daemon=True
        )
        putting.start()
        until = time.monotonic() + 1
        while stat.read_text().rpartition(")")[2].split()[0] != "R" and time.monotonic() < until:
            pass
        time.sleep(nth % 20 * 0.0005)  # on a busy machine it waits for a core first, and does not warn of that
        stop_for(switch, 1.1)
        putting.join()
        switch._sent += len(strangers)
        switch._settle()
    raise AssertionError("the switch did not warn")


def with_packets(monkeypatch: pytest.MonkeyPatch, do: Callable[[Harness, int], Any]) -> None:
    """Have *do* called with the switch and the number of the time, before each time that packets are put in."""
    put, times = Harness._put, count()

    def first(self: Harness, *args: Any) -> None:
        do(self, next(times))
        put(self, *args)

    monkeypatch.setattr(Harness, "_put", first)


def test_a_switch_that_was_stopped_is_noted_and_the_proof_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    with_packets(monkeypatch, lambda it, nth: stop_until_it_warns(it) if nth == 1 else None)
    report = prove(LOADED)
    assert report.ok and report.complaints == []
    assert any("Unreasonably long" in note for note in report.notes)


def test_a_stalled_switch_is_noted_and_check_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    with_packets(monkeypatch, lambda it, nth: stop_until_it_warns(it) if nth == 1 else None)
    ran = run("check", QUICKSTART)
    assert ran.code == 0
    assert "note: " in ran.out and "Unreasonably long" in ran.out and "FAILED" not in ran.out


def test_a_proof_that_stalled_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_switch, "_ANSWER_TIMEOUT", 2.0)
    with_packets(monkeypatch, lambda it, nth: stop_for(it, 4.0) if nth == 0 else None)
    report = prove(LOADED)
    assert report.ok
    assert report.notes[0].startswith(
        "attempt 1 was given up: netdev-dummy/receive: the private ovs-vswitchd does not answer"
    )
    assert report.packets == prove(LOADED).packets  # of the attempt that counts


def test_a_proof_that_stalls_every_time_is_an_error_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_switch, "_ANSWER_TIMEOUT", 1.0)
    with_packets(monkeypatch, lambda it, _: stop_for(it, 2.0))
    with pytest.raises(SwitchError, match=r"within 1 s; 3 attempts ended so: is the machine too busy\?"):
        prove(LOADED)


def test_packets_that_are_not_processed_in_time_are_a_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switch, "_STUCK", 0.2)
    with Harness(build_plan(LOADED)) as it:
        it._sent = 1  # that never came
        with pytest.raises(TimedOutError, match=r"did not process all packets within 0\.2 s"):
            it.send([])
            it._settle()


def test_a_failure_while_the_switch_had_to_wait_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as fragments that the connection tracker gave up waiting for. Here a batch of packets is lost."""
    send = Harness.send

    def lossy(self: Harness, frames: Any, *args: Any) -> Any:
        out = send(self, frames, *args)
        if not lost:
            lost.append(1)
            stop_until_it_warns(self)
            return out[1:]
        return out

    lost: list[int] = []
    monkeypatch.setattr(Harness, "send", lossy)
    report = prove(LOADED)
    assert report.ok
    assert report.notes[0] == "attempt 1 failed while the switch had to wait, and was repeated:"


def test_a_failure_of_a_switch_that_had_time_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Harness, "send", lambda *_: [])
    tries: list[int] = []
    enter = Harness.__enter__
    monkeypatch.setattr(Harness, "__enter__", lambda self: (tries.append(1), enter(self))[1])
    report = prove(LOADED)
    assert not report.ok and len(tries) == 1


def warned(monkeypatch: pytest.MonkeyPatch) -> CheckReport:
    """A check whose switch has something real to warn of."""

    def add(it: Harness, nth: int) -> None:
        if nth == 0:
            it.switch.vsctl("--no-wait", "add-br", "br9", "--", "set", "Bridge", "br9", "datapath_type=nonexistent")
            deadline = time.monotonic() + 5
            while not it.switch.complaints() and time.monotonic() < deadline:
                time.sleep(0.01)

    with_packets(monkeypatch, add)
    return prove(LOADED)


def test_other_switch_warnings_fail_the_proof_and_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    report = warned(monkeypatch)
    assert not report.ok and report.failed == 0
    assert any("nonexistent" in complaint for complaint in report.complaints)
    found = len(report.complaints)
    assert verdict(report) == f"FAILED: {found} {'warnings' if found > 1 else 'warning'} of the switch"


@pytest.mark.parametrize(
    ("line", "speed"),
    [
        ("|00016|timeval|WARN|Unreasonably long 1301ms poll interval (0ms user, 1ms system)", True),
        ("|00017|timeval(pmd-c00/id:9)|WARN|context switches: 0 voluntary, 2 involuntary", True),
        ("|00003|ovs_rcu(urcu2)|WARN|blocked 1000 ms waiting for main to quiesce", True),
        ("|00009|ofproto_dpif_upcall(revalidator7)|WARN|Spent an unreasonably long 1500ms dumping flows", True),
        ("|00012|reconnect|ERR|unix:db.sock: no response to inactivity probe after 5 seconds, disconnecting", True),
        ("|00020|timeval|WARN|Dropped 3 log messages in last 5 seconds (most recently, 1 seconds ago) due to", True),
        ("|00021|dpif|WARN|Dropped 3 log messages in last 5 seconds (most recently, 1 seconds ago) due to", False),
        ("|00010|ofproto_dpif_upcall(handler1)|WARN|upcall: datapath reached the dynamic limit of 12000 flows.", False),
        ("|00011|dpif|WARN|dummy@ovs-dummy: failed to add flow (Invalid argument)", False),
    ],
)
def test_stall_warnings_are_told_from_others(line: str, speed: bool) -> None:
    assert is_about_slow_machine(f"2026-11-21T15:07:00.123Z{line}") is speed
