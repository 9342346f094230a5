# SPDX-License-Identifier: Apache-2.0
"""Connections that are kept: they stay with their backend when slots move, and new ones follow the slots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from dnsteer.checks.load import load_spec
from dnsteer.plan.build import build_plan
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.reference.packets import Frame
from dnsteer.render.flows import lines_of
from dnsteer.slots.maintenance import Kind, Maintenance, Overlay
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.table_changes import compare_tables
from tests.packet.switches import EXAMPLES

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
