# SPDX-License-Identifier: Apache-2.0
"""NSD behind a link with a small MTU: the fragments of its answers pass NAT from 400 bytes on, if the tracker is told so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dnsteer import lab
from dnsteer.checks.load import check_document
from dnsteer.lab import names, traffic
from dnsteer.lab.command import netns_exec, run
from dnsteer.lab.zone import LARGE
from dnsteer.plan.min_fragment import DEFAULT, SMALLEST
from dnsteer.spec.read import parse_document
from dnsteer.switch.fragment_limit import Tracker
from tests.system.lab_specs import apply_in_lab, drift_in_lab

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces and raw sockets")]
VIP = "198.51.100.3"
SPEC = f"""
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-small
  mac: 02:00:00:00:00:53
  gateways: [10.53.0.1]
  uplinks:
    p0: {{next_hop: 02:00:00:00:00:fe}}
  ports:
    vf0:
pools:
  behind: {{backends: [{{name: s, ipv4: 10.53.0.21, mac: 02:00:00:00:05:03, port: vf0}}]}}
vips:
  nat: {{addresses: [{VIP}], services: [dns], pool: behind, forwarding: nat}}
"""
LOADED = check_document(parse_document("spec.yaml", SPEC))


@pytest.fixture(scope="module")
def state(no_lab: None) -> Iterator[lab.LabState]:
    try:
        lab.up(LOADED.spec)
        apply_in_lab(LOADED)
        found = lab.status()
        assert found is not None
        yield found
    finally:
        lab.down()


def arrives(state: lab.LabState, mtu: int) -> bool:
    """Whether an answer of more than 3000 bytes arrives whole, in fragments of at most that many bytes."""
    (server,) = state.servers
    run(netns_exec(server.namespace, ["ip", "link", "set", "eth0", "mtu", str(mtu)]))
    answer = traffic.ask(state, VIP, LARGE, "TXT", bufsize=4096)
    assert answer is None or ("tc" not in answer.flags and answer.size > 3000)
    return answer is not None


# Fragments carry multiples of 8 bytes behind 20 of header: of 1196 and 1204, 572, and 396 and 404 bytes.
@pytest.mark.parametrize(
    ("size", "passing", "lost"),
    [(SMALLEST, (1500, 1204, 1196, 576, 404), (396,)), (DEFAULT, (1500, 1204), (1196, 576, 404))],
    ids=["as an apply sets it", "Open vSwitch's default"],
)
def test_large_answers_in_small_fragments(
    size: int, passing: tuple[int, ...], lost: tuple[int, ...], state: lab.LabState
) -> None:
    tracker = Tracker(names.db_target(), 5)
    assert tracker.read() == SMALLEST
    assert drift_in_lab(LOADED) == []
    try:
        tracker.set(size)
        assert {mtu: arrives(state, mtu) for mtu in (*passing, *lost)} == dict.fromkeys(passing, True) | dict.fromkeys(
            lost, False
        )
        assert [d.kind for d in drift_in_lab(LOADED)] == (["setting"] if size == DEFAULT else [])
    finally:
        tracker.set(SMALLEST)
