# SPDX-License-Identifier: Apache-2.0
"""What is known of a switch after a look that failed, and while its OpenFlow is silent."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from dnsteer.agent.health import Result
from dnsteer.agent.held_switch import SwitchMemory
from dnsteer.switch.silent_bridge import SilentBridge, silent_bridge
from dnsteer.switch.state import DamagedError
from dnsteer.switch.tools import SwitchError, UnavailableError, UnwrittenError


@pytest.mark.parametrize("kind", [UnavailableError, UnwrittenError, DamagedError, PermissionError])
def test_errors_not_about_the_tables_cause_no_withdrawal(kind: type[Exception]) -> None:
    memory = SwitchMemory()
    for before in (None, "", "2 differences from the record"):
        memory.fault = before
        memory.note_failed_look(kind("no room in OVSDB"))
        assert memory.fault == before


def test_tables_that_cannot_be_repaired() -> None:
    memory = SwitchMemory()
    memory.note_failed_look(SwitchError("the switch refused the changes"))
    assert memory.fault == "its tables cannot be made as they were applied: the switch refused the changes"


FORWARDS, DEAD, FAR = (
    SilentBridge(polled=frozenset({"p0"})),
    SilentBridge("dead", frozenset()),
    SilentBridge("far", asked=False),
)


def probing(port: str = "probe0") -> SwitchMemory:
    """The memory of an agent that probes through the bridge by a port."""
    memory = SwitchMemory()
    spec = SimpleNamespace(switch=SimpleNamespace(probe=SimpleNamespace(port=port)))
    wanted: Any = SimpleNamespace(loaded=SimpleNamespace(spec=spec))
    memory.wanted, memory.fault = wanted, ""
    return memory


def result(why: str = "no answer", ago: float = 0.0, took: float = 0.0) -> Result:
    return Result(time.monotonic() - ago, why, took)


def test_a_silent_but_forwarding_switch_is_no_fault() -> None:
    memory = probing()
    memory.note_silence("it did not finish", FORWARDS)
    assert (memory.fault, "the switch forwards" in memory.silence) == ("", True)
    events = memory.events
    memory.note_answer()
    assert (memory.silence, memory.events) == ("", events + 1)  # it is looked at
    memory.note_silence("it did not finish", DEAD)
    assert (memory.fault, memory.silence) == ("ovs-vswitchd does not answer: it did not finish; dead", "")


@pytest.mark.parametrize(("ago", "fault"), [(1.0, ""), (60.0, "ovs-vswitchd does not answer: it did not finish; far")])
def test_on_a_remote_switch_probes_tell_whether_it_forwards(ago: float, fault: str) -> None:
    memory = probing()
    memory.accept_result(result("", ago))
    memory.note_silence("it did not finish", FAR)
    assert memory.fault == fault


def test_an_answer_to_a_probe_does_not_make_a_dead_switch_forward() -> None:
    memory = probing()
    memory.accept_result(result(""))
    memory.note_silence("it did not finish", DEAD)
    assert memory.fault


def test_probes_by_an_unpolled_port_do_not_judge_backends() -> None:
    memory = probing()
    memory.note_slow_answer(FORWARDS)
    assert memory.accept_result(result())  # ovs-vswitchd is only busy
    memory.database_lost = True
    memory.note_slow_answer(FORWARDS)
    memory.database_lost = False  # it is there again, and ovs-vswitchd has not noticed yet
    memory.note_slow_answer(FORWARDS)
    assert not memory.accept_result(result())
    assert memory.accept_result(result(""))
    memory.note_answer()
    assert not memory.accept_result(result(took=0.5))  # it was sent before
    assert memory.accept_result(result(took=0.0))
    memory.database_lost = True
    for found in (DEAD, FAR, SilentBridge(), SilentBridge(polled=frozenset({"p0", "probe0"}))):
        memory.note_slow_answer(found)
        assert memory.accept_result(result()), found


class Control:
    """A control socket that answers as ovs-vswitchd does."""

    def __init__(self, shown: str, polled: str = "") -> None:
        self.said = {"dpif/show": shown, "dpif-netdev/pmd-rxq-show": polled}

    def run(self, command: str, *args: str) -> str:
        return self.said[command]


SHOWN = """\
{0}: hit:17 missed:5
  br-ex:
    br-ex 65534/1: (tap)
    dpdk9 1/7: (dpdk: configured_rx_queues=1)
  br-dns:
    br-dns 65534/2: (tap)
    p0 1/3: (dpdk: configured_rx_queues=1)
    probe0 2/4: (tap)
"""
POLLED = """\
pmd thread numa_id 0 core_id 2:
  isolated : false
  port: p0                queue-id:  0 (enabled)   pmd usage: 12 %
  port: dpdk9             queue-id:  0 (enabled)   pmd usage:  0 %
  port: p1                queue-id:  0 (disabled)  pmd usage:  0 %
"""


def test_which_ports_are_polled() -> None:
    dpdk = SHOWN.format("netdev@ovs-netdev")
    assert silent_bridge(Control(dpdk, POLLED), "br-dns") == SilentBridge(polled=frozenset({"p0"}))
    assert silent_bridge(Control(SHOWN.format("system@ovs-system")), "br-dns") == SilentBridge()
    assert silent_bridge(Control(dpdk, POLLED.replace("p0 ", "p9 ")), "br-dns").fault
    assert "has no bridge br-1" in silent_bridge(Control(dpdk, POLLED), "br-1").fault
