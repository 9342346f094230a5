# SPDX-License-Identifier: Apache-2.0
"""Connections that are kept: they stay with their backend when slots move, and new ones follow the slots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

import dnsteer.tables.keep
from dnsteer.checks.load import load_spec
from dnsteer.plan.build import build_plan
from dnsteer.proof.check import prove
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.reference.packets import Frame
from dnsteer.render.flows import lines_of
from dnsteer.slots.maintenance import Kind, Maintenance, Overlay
from dnsteer.slots.membership import Member, Membership
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.table_changes import compare_tables
from dnsteer.tables.order import PIPELINE
from tests.packet.command import on, spec_file
from tests.packet.switches import BRIDGE, EXAMPLES, Switch, spec_of

MIXED = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  gateways: [10.53.0.1, '2001:db8:53::1']
  probe: {addresses: [10.53.0.200/24, '2001:db8:53::200/64']}
  uplinks:
    p1: {next_hop: '02:00:00:00:00:fd'}
    p0: {next_hop: '02:00:00:00:00:fe'}
  ports:
    vf0:
pools:
  direct:
    slots: 16
    backends:
      - {name: a, ipv4: 10.53.0.21, ipv6: '2001:db8:53::21', mac: '02:00:00:00:04:11'}
      - {name: b, ipv4: 10.53.0.22, ipv6: '2001:db8:53::22', mac: '02:00:00:00:04:12', port: vf0}
      - {name: c, ipv4: 10.53.0.23, mac: '02:00:00:00:04:13', state: down}
  twice:
    passes: 2
    slots: 16
    backends:
      - {name: r1, ipv4: 10.53.0.11, ipv6: '2001:db8:53::11', mac: '02:00:00:00:04:01'}
      - {name: r2, ipv4: 10.53.0.12, ipv6: '2001:db8:53::12', mac: '02:00:00:00:04:02'}
  workers:
    slots: 16
    backends:
      - {name: w1, ipv4: 10.53.0.31, ipv6: '2001:db8:53::31', mac: '02:00:00:00:04:21', workers: 2}
      - {name: w2, ipv4: 10.53.0.32, ipv6: '2001:db8:53::32', mac: '02:00:00:00:04:22', workers: 2}
  hashed:
    selection: dp-hash
    slots: 16
    backends:
      - {name: h1, ipv4: 10.53.0.51, ipv6: '2001:db8:53::51', mac: '02:00:00:00:04:41'}
      - {name: h2, ipv4: 10.53.0.52, ipv6: '2001:db8:53::52', mac: '02:00:00:00:04:42'}
  sticky:
    selection: source-address
    slots: 16
    on_all_down: drop
    backends:
      - {name: s1, ipv4: 10.53.0.41, ipv6: '2001:db8:53::41', mac: '02:00:00:00:04:31'}
      - {name: s2, ipv4: 10.53.0.42, mac: '02:00:00:00:04:32', port: vf0}
vips:
  d1: {addresses: [198.51.100.1, '2001:db8:1::1'], services: [dns, doq], pool: direct, keep: connections}
  n1:
    addresses: [198.51.100.11, '2001:db8:1::11']
    services: [{protocol: udp, port: 53, target_port: 5300}, {protocol: tcp, port: 53, target_port: 5300}]
    pool: twice
    forwarding: nat
    fragments: drop
    keep: connections
  n2:
    addresses: [198.51.100.12, '2001:db8:1::12']
    services: [{protocol: tcp, port: 53, target_port: 5400}]
    pool: twice
    forwarding: nat
    fragments: drop
    keep: connections
  n3:
    addresses: [198.51.100.13, '2001:db8:1::13']
    services: [{protocol: tcp, port: 53, target_port: 5500}]
    pool: twice
    forwarding: nat
    fragments: drop
  w1:
    addresses: [198.51.100.21, '2001:db8:1::21']
    services: [{protocol: udp, port: 53, target_port: 5500}, {protocol: tcp, port: 53, target_port: 5600}]
    pool: workers
    forwarding: nat
    keep: connections
  h1: {addresses: [198.51.100.31], services: [dns], pool: hashed, keep: connections}
  s1:
    addresses: [198.51.100.41, '2001:db8:1::41']
    services: [dns, dot]
    pool: sticky
    limits: {tcp_syn: 100/s, queries: 1000/s, per: service, clients: {rate: 100/s}}
    access: {deny: [203.0.113.0/24]}
    keep: connections
  s2: {addresses: [198.51.100.42, '2001:db8:1::42'], services: [dns, doh], pool: sticky}
"""
"""All sorts of pools, with probes, two uplinks, limits and lists, and VIPs beside that keep nothing."""
CLIENT, CLIENT_6, ROUTER = "203.0.113.9", "2001:db8:9::9", "02:00:00:00:00:fe"
BACKENDS = {
    "02:00:00:00:01:01": "ns1",
    "02:00:00:00:01:02": "ns2",
    "02:00:00:00:04:01": "r1",
    "02:00:00:00:04:02": "r2",
}
SERVICES = (("192.0.2.53", 53), ("2001:db8:0:53::53", 53), ("198.51.100.53", 853), ("2001:db8:1::53", 443))
SOURCES = range(40_000, 40_032, 2)
"""Source ports of connections, one for each slot."""


def segment(service: tuple[str, int], source: int, flags: str) -> Frame:
    address, port = service
    ip: Packet = IPv6(src=CLIENT_6, dst=address) if ":" in address else IP(src=CLIENT, dst=address)
    packet = Ether(src=ROUTER, dst="02:00:00:00:00:53") / ip / TCP(sport=source, dport=port, flags=flags)
    return Frame("p0", bytes(packet if "S" in flags else packet / Raw(b"query")))


class Connections:
    """A private switch with a spec, to which connections are made."""

    def __init__(self, harness: Harness, loaded: Loaded) -> None:
        self.harness, self.loaded = harness, loaded

    def backend(self, service: tuple[str, int], source: int, flags: str) -> str:
        """The backend that gets a segment; it must be rewritten as that of any other packet."""
        (out,) = self.harness.send([segment(service, source, flags)])
        packet = Ether(out.data)
        name = BACKENDS[packet.dst]
        if name.startswith("r"):
            last = int(name[1:])
            assert packet[1].dst == (f"2001:db8:53::1{last}" if ":" in service[0] else f"10.53.0.1{last}")
            assert packet[TCP].dport == {853: 8853, 443: 8443}[service[1]]
        else:
            assert (packet[1].dst, packet[TCP].dport) == service
        return name

    def all(self, flags: str, sources: Sequence[int] = SOURCES) -> dict[tuple[str, int, int], str]:
        """The backend of one segment each of all connections."""
        return {(*s, source): self.backend(s, source, flags) for s in SERVICES for source in sources}

    def take_out(self, kind: Kind, *names: str) -> None:
        """Have backends (`POOL/BACKEND`) drained or down."""
        pairs = [name.split("/") for name in names]
        entries = tuple(Maintenance(p, b, kind, "2026-01-01T00:00:00+00:00", "test") for p, b in pairs)
        lines = dict.fromkeys(lines_of(build_plan(self.loaded, Overlay(entries))))
        openflow = self.harness.openflow
        openflow.bundle(compare_tables(lines, [], openflow.dump(lines)).bundle())
        self.harness.forget_megaflows()


@pytest.fixture
def connections() -> Iterator[Connections]:
    loaded = load_spec(EXAMPLES / "keep.yaml")
    with Harness(build_plan(loaded)) as harness:
        yield Connections(harness, loaded)


def test_a_drain_takes_new_connections_only(connections: Connections) -> None:
    began = connections.all("S")
    assert set(began.values()) == set(BACKENDS.values())
    connections.take_out("drain", "authoritative/ns1", "resolvers/r1")
    assert connections.all("A") == began
    others = {(*s, source + 64): "r2" if s[1] != 53 else "ns2" for s in SERVICES for source in SOURCES}
    assert connections.all("S", [source + 64 for source in SOURCES]) == others
    assert connections.all("A", [source + 64 for source in SOURCES]) == others
    assert connections.all("A") == began


def test_check_proves_all_sorts_of_pools() -> None:
    report = prove(spec_of(MIXED))
    assert report.ok, report.failures[:1]
    assert report.packets["connection"] > 1_000


Keeping = Callable[[Membership, Sequence[Maintenance]], tuple[Member, ...]]


@pytest.mark.parametrize(
    ("keeping", "failed"),
    [
        (lambda members, _: (), "A of a connection to d1"),
        (lambda members, _: members.members if members.keeps else (), "A of a connection to d1"),
        (lambda members, _: tuple(m._replace(number=m.number ^ 1) for m in members.members), "A of a connection to d1"),
    ],
    ids=["nobody", "those that are down too", "by another mark"],
)
def test_check_sees_wrong_marks(keeping: Keeping, failed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dnsteer.tables.keep, "keeping", keeping)
    small = MIXED[: MIXED.index("  n1:")].replace("  probe:", "  # probe:")
    report = prove(spec_of(small))
    assert failed in str(report.failures[0].vector)


def test_what_a_down_backend_served_goes_by_its_slot(connections: Connections) -> None:
    began = connections.all("S")
    connections.take_out("down", "authoritative/ns1", "resolvers/r1")
    others = {key: {"ns1": "ns2", "r1": "r2"}.get(name, name) for key, name in began.items()}
    assert connections.all("A") == others
    connections.take_out("drain")
    assert connections.all("A") == began, "a backend that is up again has its connections, for as long as clients try"


def test_connections_beyond_the_limit_go_by_their_slots(connections: Connections) -> None:
    connections.harness.switch.appctl("dpctl/ct-set-limits", "dummy@ovs-dummy", "zone=53000,limit=1")
    service = SERVICES[0]
    began = {source: connections.backend(service, source, "S") for source in SOURCES}
    assert {source: connections.backend(service, source, "A") for source in SOURCES} == began
    connections.take_out("drain", f"authoritative/{began[SOURCES[0]]}")
    after = {source: connections.backend(service, source, "A") for source in SOURCES}
    assert after.pop(SOURCES[0]) == began[SOURCES[0]]
    assert began[SOURCES[0]] not in after.values(), "they were not remembered"


def marks(switch: Switch) -> int:
    """How many backends keep their connections, by the flows of the switch."""
    table = f"table={PIPELINE.holding('connections').number}"
    return sum("ct_mark=" in flow for flow in switch.ofctl("dump-flows", table, bridge=BRIDGE).splitlines())


def test_quick_verbs_bring_the_marks(shared: Switch, tmp_path: Path) -> None:
    """The tables are as the record says after each, by the way without a plan."""
    text = (EXAMPLES / "keep.yaml").read_text()
    file, do = spec_file(tmp_path, text), on(shared)
    assert do("apply", file, "--yes", "--grace", "0").code == 0
    assert marks(shared) == 4
    for verb, left in (("drain", 4), ("undrain", 4), ("down", 3), ("up", 4)):
        done = do(verb, "authoritative/ns1", "--yes") if verb in ("drain", "down") else do(verb, "authoritative/ns1")
        assert (done.code, marks(shared)) == (0, left), verb
        assert "not as recorded" not in done.err
        assert do("verify", file).code == 0, verb
    assert do("weight", "authoritative/ns1", "0", "--yes").code == 0
    assert (marks(shared), do("verify", file).code) == (4, 0)
    shared.ofctl("del-flows", f"table={PIPELINE.holding('connections').number},ct_mark=0/0x1")
    assert "not as recorded" in do("weight", "authoritative/ns1", "1", "--yes").err
    assert (marks(shared), do("verify", file).code) == (4, 0)
