# SPDX-License-Identifier: Apache-2.0
"""VLANs of uplinks and backends on a real switch: every packet, and the tags that the tables are for."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

import pytest

from dnsteer.checks.load import load_spec
from dnsteer.lint.masks.bound import mask_bound
from dnsteer.plan.build import build_plan
from dnsteer.proof.check import prove
from dnsteer.proof.explain import explain_query
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.reference.packets import Frame
from dnsteer.proof.traffic.craft import in_vlan
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Protocol
from tests.mask_attack import attack
from tests.packet.command import fresh, on, spec_file
from tests.packet.switches import EXAMPLES, Switch
from tests.unit.spec_text import changed, load

EXAMPLE = (EXAMPLES / "vlans.yaml").read_text(encoding="utf-8")
TEXT = EXAMPLE.replace(", vlan: 200}", "}").replace("\npools:", "\ndefaults:\n  backends: {vlan: 200}\n\npools:", 1)
"""The example with the VLAN of its backends in one place."""
SEVERAL = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  gateways: [10.53.0.1, '2001:db8:53::1', 10.54.0.1]
  probe: {addresses: [10.53.0.9/24, '2001:db8:53::9/64', 192.0.2.9/24, 10.54.0.9/24], watch: true}
  uplinks:
    p0: {next_hop: {ipv4: 192.0.2.1, ipv6: 'fe80::1'}, vlan: 100}
    p1: {next_hop: '02:00:00:00:00:fd', vlan: 101}
    p2: {}
  ports:
    vf0: {vlan: 300}
    vf1:
pools:
  resolvers:
    slots: 8
    backends:
      - {name: r1, ipv4: 10.53.0.11, ipv6: '2001:db8:53::11', mac: auto, vlan: 200}
      - {name: r2, ipv4: 10.53.0.12, ipv6: '2001:db8:53::12', mac: '02:00:00:00:04:02', vlan: untagged}
      - {name: r3, ipv4: 10.53.0.13, ipv6: '2001:db8:53::13', mac: '02:00:00:00:04:03', vlan: 100}
      - {name: r4, ipv4: 10.53.0.14, ipv6: '2001:db8:53::14', mac: '02:00:00:00:04:04', port: p1}
      - {name: r5, ipv4: 10.54.0.15, mac: '02:00:00:00:04:05', port: vf0}
      - {name: r6, ipv4: 10.54.0.16, mac: '02:00:00:00:04:06', port: vf0, vlan: 301}
      - {name: r7, ipv4: 10.54.0.17, mac: '02:00:00:00:04:07', port: vf1}
  direct:
    slots: 8
    passes: 2
    backends:
      - {name: d1, ipv4: 10.53.0.21, ipv6: '2001:db8:53::21', mac: '02:00:00:00:05:01', vlan: 200}
      - {name: d2, ipv4: 10.53.0.22, mac: '02:00:00:00:05:02', port: vf0, vlan: untagged}
  hashed:
    slots: 16
    selection: dp-hash
    backends:
      - {name: h1, ipv4: 10.53.0.31, ipv6: '2001:db8:53::31', mac: '02:00:00:00:06:01', vlan: 200}
      - {name: h2, ipv4: 10.53.0.32, ipv6: '2001:db8:53::32', mac: '02:00:00:00:06:02', port: vf1}
vips:
  dns:
    addresses: [198.51.100.53, '2001:db8:1::53']
    services: [dns]
    pool: resolvers
    forwarding: nat
  straight:
    addresses: [198.51.100.54, '2001:db8:1::54']
    services: [dns]
    pool: direct
  hashed:
    addresses: [198.51.100.55, '2001:db8:1::55']
    services: [dns]
    pool: hashed
    forwarding: nat
"""


@pytest.mark.parametrize(
    "text",
    [
        SEVERAL,
        changed(("{vlan: 200}", "{vlan: 100}"), text=TEXT),
        changed(("{vlan: 200}", "{vlan: untagged}"), text=TEXT),
        changed(("vlan: 100, ", ""), text=TEXT),
        changed(("    forwarding: nat\n", ""), text=TEXT),
    ],
    ids=[
        "several uplinks and VLANs, probes and neighbours",
        "one VLAN",
        "untagged backends",
        "untagged queries",
        "dsr",
    ],
)
def test_every_packet_is_as_the_spec_says(text: str) -> None:
    report = prove(load(text))
    assert report.ok, report.failures[:3]


def query(loaded: Loaded, vlan: int, priority: int) -> Frame:
    """A query with a tag of the VLAN and priority, as bytes that no code of ours made."""
    from scapy.layers.dns import DNS, DNSQR
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether

    head = Ether(dst=loaded.spec.switch.mac, src="02:00:00:00:00:fe")
    ask = DNS(qd=DNSQR(qname="example.net"))
    data = bytes(head / IP(src="192.0.2.7", dst="198.51.100.53") / UDP(sport=20000, dport=53) / ask)
    return Frame("p0", in_vlan(data, vlan | priority << 13))


@pytest.mark.parametrize(("vlan", "priority", "left"), [(100, 0, 200), (100, 5, 5 << 13 | 200), (0, 0, 0), (200, 0, 0)])
def test_a_query_leaves_in_the_backends_vlan_with_its_priority(vlan: int, priority: int, left: int) -> None:
    loaded = load_spec(EXAMPLES / "vlans.yaml")
    with Harness(build_plan(loaded)) as harness:
        found = harness.send([query(loaded, vlan, priority)])
    assert [(f.port, f.data[12:14], f.data[14:16]) for f in found] == (
        [("p0", b"\x81\x00", left.to_bytes(2, "big"))] if left else []
    )


def test_a_priority_makes_a_mask_and_a_flow_only_where_the_tag_changes() -> None:
    """Computed as the attack makes them."""
    plain = mask_bound(build_plan(load(changed(("{vlan: 200}", "{vlan: 100}"), text=TEXT)))).total
    plan = build_plan(load(TEXT))
    bound, found = mask_bound(plan), attack(plan, 20.0, 53, 20_000)
    assert [mask for mask in found.masks if not bound.allows(mask)] == []
    assert any(("vlan_pcp", 7) in mask for mask in found.masks)
    assert found.subtables <= bound.total == plain + 6


def test_a_query_is_explained_with_its_tags() -> None:
    loaded = load_spec(EXAMPLES / "vlans.yaml")
    client, vip = ip_address("192.0.2.7"), ip_address("198.51.100.53")
    path = explain_query(loaded, client, 20000, vip, 53, Protocol.UDP, "p0")
    assert path.as_expected
    assert " VLAN 100, " in path.query and [" VLAN 200, " in text for _, text in path.out] == [True]


def test_status_says_the_vlan_of_each_backend(shared: Switch, tmp_path: Path) -> None:
    fresh(shared)
    tagged = TEXT.replace("p0: {vlan", "p0: {type: dummy, vlan")
    some = tagged.replace("mac: 02:00:00:00:04:03}", "mac: 02:00:00:00:04:03, vlan: 201}")
    assert on(shared)("apply", spec_file(tmp_path, some), "--yes").code == 0
    (pool,) = on(shared)("status", "--no-rates", "--json").json["pools"]
    assert [(b["name"], b["vlan"]) for b in pool["backends"]] == [("r1", 200), ("r2", 200), ("r3", 201)]
    lines = on(shared)("status", "--no-rates").out.splitlines()
    head = next(line for line in lines if line.startswith("pool, backend"))
    row = next(line for line in lines if line.startswith("  r3 "))
    assert row[: head.index("VLAN") + 4].endswith(" 201")
