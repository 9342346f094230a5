# SPDX-License-Identifier: Apache-2.0
"""Bonds of both kinds under load, their partner a bridge of the lab's switch: what a link that fails costs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from dnsteer import lab
from dnsteer.checks.load import check_document
from dnsteer.lab import names
from dnsteer.lab.command import LabProgram
from dnsteer.lab.openvswitch import appctl
from dnsteer.spec.read import parse_document
from tests.system.front_switch import Stream, add_cable, front_switch, remove_cable, set_link
from tests.system.lab_specs import apply_in_lab, drift_in_lab

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces and raw sockets")]
VIP = "198.51.100.1"
RATE = 2000
"""Queries a second."""
UPLINK = "    p0: {next_hop: 02:00:00:00:00:fe}\n"
SPEC = f"""
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-bond
  mac: 02:00:00:00:00:53
  gateways: [10.53.0.1, "2001:db8:53::1"]
  uplinks:
{UPLINK}  ports:
    vf0:
    vf1:
pools:
  farm:
    slots: 64
    backends:
      - {{name: a, ipv4: 10.53.0.11, ipv6: "2001:db8:53::11", mac: 02:00:00:00:05:01, port: vf0}}
      - {{name: b, ipv4: 10.53.0.12, ipv6: "2001:db8:53::12", mac: 02:00:00:00:05:02, port: vf1}}
vips:
  dns: {{addresses: [{VIP}, "2001:db8:1::1"], services: [dns], pool: farm, forwarding: nat}}
"""
ALONE = check_document(parse_document("spec.yaml", SPEC))
PORTS = ("add-port front q0", "add-port front q1")
LAG = ("add-bond front lag q0 q1 lacp=active bond_mode=balance-tcp other_config:lacp-time=fast",)
STEP = 1.5
"""Seconds between two changes of a link."""
MOST_SECONDS = 1.0
"""Of what is asked, at most so long a time may be lost when a link fails; measured: docs/bonds.md."""


@pytest.fixture(scope="module")
def state(no_lab: None) -> Iterator[lab.LabState]:
    try:
        lab.up(ALONE.spec)
        apply_in_lab(ALONE)
        found = lab.status()
        assert found is not None
        yield found
    finally:
        lab.down()


def lost_between(queries: list[tuple[float, bool]], begin: float, end: float) -> int:
    """Queries without an answer that were sent in a time."""
    return sum(not answered for sent, answered in queries if begin <= sent < end)


@pytest.mark.parametrize("told", ["by an agent", "by LACP", pytest.param("by its own port", marks=pytest.mark.slow)])
def test_a_link_that_fails_under_load(state: lab.LabState, told: str) -> None:
    """*told*: how the switch in front gets to know that the VIPs are behind the other link now."""
    mode, ports = ("lacp", LAG) if told == "by LACP" else ("active-backup", PORTS)
    bond = f"    bond0: {{members: {{m0: {{}}, m1: {{}}}}, mode: {mode}, next_hop: 02:00:00:00:00:fe}}\n"
    loaded = check_document(parse_document("spec.yaml", SPEC.replace(UPLINK, bond)))
    add_cable("m0", "q0")
    add_cable("m1", "q1")
    try:
        apply_in_lab(loaded)
        with ExitStack() as stack:
            stack.enter_context(front_switch("add-port front p0", *ports))
            if told == "by an agent":
                words = [sys.executable, "-m", "dnsteer", "agent", "--db", state.db]
                agent = stack.enter_context(LabProgram(names.SWITCH_NAMESPACE, words))
                assert agent.wait_for_line(lambda said: "control socket" in said, 20, 0.0) is not None, agent.lines
            deadline = time.monotonic() + 10
            while mode == "lacp" and appctl("bond/show").count("may_enable: true") < 4:
                assert time.monotonic() < deadline, appctl("lacp/show")
                time.sleep(0.1)
            assert [d for d in drift_in_lab(loaded) if not d.warns] == []
            stream = Stream(state, VIP, RATE)
            time.sleep(STEP)
            times = []
            for port, link in (("q0", "down"), ("q0", "up"), ("q1", "down")):
                times.append(time.monotonic())
                set_link(port, link)
                if told == "by its own port" and link == "down":
                    appctl("fdb/flush", "front")  # as switches do with addresses behind a port without a link
                time.sleep(STEP)
            queries = stream.end()
            set_link("q1", "up")
        lost = [lost_between(queries, at - 0.1, at + STEP - 0.1) for at in times]
        print(f"FIGURES {told}: {len(queries)} queries, lost {lost}, before {lost_between(queries, 0, times[0] - 0.1)}")
        assert len(queries) > RATE * STEP * 3
        assert lost_between(queries, 0, times[0] - 0.1) <= 2
        assert max(lost) <= RATE * MOST_SECONDS
    finally:
        apply_in_lab(ALONE)
        remove_cable("m0")
        remove_cable("m1")
