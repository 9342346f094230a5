# SPDX-License-Identifier: Apache-2.0
"""Real servers in VLAN 200 and queries in VLAN 100, over one uplink to a switch with access ports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dnsteer import lab
from dnsteer.checks.load import check_document
from dnsteer.lab import names, traffic
from dnsteer.lab.command import netns_exec, run
from dnsteer.lab.openvswitch import appctl
from dnsteer.lab.zone import LARGE, WHOAMI
from dnsteer.spec.read import parse_document
from tests.system.front_switch import add_cable, front_switch, remove_cable
from tests.system.lab_specs import apply_in_lab, drift_in_lab

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces and raw sockets")]
VIPS = {"nat": ("198.51.100.1", "2001:db8:1::1"), "dsr": ("198.51.100.2", "2001:db8:1::2")}
UPLINK, PORTS = "    p0: {next_hop: 02:00:00:00:00:fe}\n", "  ports:\n    vf0:\n    vf1:\n"
SPEC = f"""
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-vlan
  mac: 02:00:00:00:00:53
  gateways: [10.53.0.1, "2001:db8:53::1"]
  uplinks:
{UPLINK}{PORTS}pools:
  natted:
    slots: 16
    backends: [{{name: a, ipv4: 10.53.0.11, ipv6: "2001:db8:53::11", mac: 02:00:00:00:05:01, port: vf0}}]
  direct:
    slots: 16
    backends: [{{name: b, ipv4: 10.53.0.12, ipv6: "2001:db8:53::12", mac: 02:00:00:00:05:02, port: vf1}}]
vips:
  nat: {{addresses: [198.51.100.1, "2001:db8:1::1"], services: [dns], pool: natted, forwarding: nat}}
  dsr: {{addresses: [198.51.100.2, "2001:db8:1::2"], services: [dns], pool: direct}}
"""
UNTAGGED = check_document(parse_document("spec.yaml", SPEC))
TAGGED = check_document(
    parse_document(
        "spec.yaml",
        SPEC.replace(UPLINK, "    m0: {vlan: 100, next_hop: 02:00:00:00:00:fe}\n")
        .replace(PORTS, "")
        .replace("port: vf0", "vlan: 200")
        .replace("port: vf1", "vlan: 200"),
    )
)
ROUTER = ("10.53.0.254", "2001:db8:53::fe")
"""The clients' router in the VLAN of the backends, by which those with direct server return answer."""


@pytest.fixture(scope="module")
def state(no_lab: None) -> Iterator[lab.LabState]:
    try:
        lab.up(UNTAGGED.spec)
        apply_in_lab(UNTAGGED)
        found = lab.status()
        assert found is not None
        with tagged_network(found):
            yield found
    finally:
        lab.down()


@contextmanager
def tagged_network(state: lab.LabState) -> Iterator[None]:
    """All ports of the balancer but one become access ports of the switch in front."""
    add_cable("m0", "q0")
    apply_in_lab(TAGGED)
    _add_router(state)
    access = [
        f"add-port front {port} tag={tag}" for port, tag in (("p0", 100), ("vf0", 200), ("vf1", 200), ("r0", 200))
    ]
    with front_switch("add-port front q0 trunks=100,200", *access):
        yield
    remove_cable("m0")


def _add_router(state: lab.LabState) -> None:
    """The client is a router of the backends' network too, and server b answers by it."""
    client, server = state.client(), next(s for s in state.servers if s.name.endswith("b"))
    run(
        [
            "ip",
            "-n",
            names.SWITCH_NAMESPACE,
            "link",
            "add",
            "r0",
            "type",
            "veth",
            "peer",
            "name",
            "eth1",
            "netns",
            client.namespace,
        ]
    )
    run(["ip", "-n", names.SWITCH_NAMESPACE, "link", "set", "r0", "up"])
    run(netns_exec(client.namespace, ["ethtool", "-K", "eth1", "tx", "off", "tso", "off", "gso", "off", "gro", "off"]))
    run(["ip", "-n", client.namespace, "link", "set", "eth1", "up"])
    for own, bits in zip(ROUTER, (24, 64), strict=True):
        nodad = ["nodad"] if ":" in own else []
        run(["ip", "-n", client.namespace, "addr", "add", f"{own}/{bits}", "dev", "eth1", *nodad])
        local = next(a for a in client.addresses if (":" in a) == (":" in own))
        run(["ip", "-n", server.namespace, "route", "replace", local, "via", own, "dev", "eth0", "onlink"])


@pytest.mark.parametrize("way", VIPS)
@pytest.mark.parametrize("family", [0, 1], ids=["IPv4", "IPv6"])
def test_answers_come_through_both_vlans(state: lab.LabState, way: str, family: int) -> None:
    vip = VIPS[way][family]
    for name, transport, size, least in (
        (WHOAMI, "udp", 1232, 40),
        (WHOAMI, "tcp", 1232, 40),
        (LARGE, "tcp", 1232, 3000),
        (LARGE, "udp", 4096, 3000),  # in fragments
    ):
        answer = traffic.ask(state, vip, name, "TXT", transport=transport, bufsize=size)
        assert answer is not None, (name, transport)
        assert "tc" not in answer.flags and answer.size > least
    flows = appctl("dpctl/dump-flows")
    assert "vlan(vid=100" in flows and "vlan(vid=200" in flows
    assert [d for d in drift_in_lab(TAGGED) if not d.warns] == []
