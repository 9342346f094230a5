# SPDX-License-Identifier: Apache-2.0
"""`ct-nat`: connections stay with their backend, and what the tracker does not know is translated all the same."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from dnsteer.plan.build import build_plan
from dnsteer.plan.tracked_zone import zone_settings
from dnsteer.proof.check import prove
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.reference.packets import Frame
from dnsteer.slots.maintenance import Kind, Maintenance, Overlay
from dnsteer.spec.loaded import Loaded
from dnsteer.tables.return_ import NatReturnRow
from tests.packet.switches import EXAMPLES, spec_of

TEXT = (EXAMPLES / "ct-nat.yaml").read_text()
SERVICES = [("198.51.100.53", 53), ("2001:db8:1::53", 853)]
TARGET = {53: 53, 853: 8853}
PORTS = TEXT.replace("      - dot\n", "      - {protocol: tcp, port: 853, target_port: 8853}\n")
CLIENTS = {4: "203.0.113.9", 6: "2001:db8:9::9"}
MAC, ROUTER = "02:00:00:00:00:53", "02:00:00:00:00:fe"
SOURCES = range(40_000, 40_064, 2)
"""Source ports of connections, one for each slot."""


def nat(text: str) -> str:
    """The spec with `nat` in its place, and no tracking."""
    before, after = text.split("  tracking:\n")
    return before + after[after.index("\npools:") :].replace("forwarding: ct-nat", "forwarding: nat")


def frame(
    source: tuple[str, int], destination: tuple[str, int], macs: tuple[str, str], flags: str, numbers: tuple[int, int]
) -> bytes:
    ip: type[Packet] = IPv6 if ":" in source[0] else IP
    seq, ack = numbers
    tcp = TCP(sport=source[1], dport=destination[1], flags=flags, seq=seq, ack=ack)
    return bytes(Ether(src=macs[0], dst=macs[1]) / ip(src=source[0], dst=destination[0]) / tcp)


class Translated:
    """A private switch whose connections are made and answered as clients and backends do."""

    def __init__(self, harness: Harness, loaded: Loaded) -> None:
        self.harness, self.loaded = harness, loaded

    def query(self, service: tuple[str, int], port: int, flags: str, numbers: tuple[int, int] = (2, 101)) -> str:
        """The address of the backend that gets a segment of a client."""
        client = CLIENTS[ip_address(service[0]).version]
        (out,) = self.harness.send([Frame("p0", frame((client, port), service, (ROUTER, MAC), flags, numbers))])
        packet = Ether(out.data)
        assert (packet[1].src, packet[TCP].sport, packet[TCP].dport) == (client, port, TARGET[service[1]])
        assert packet.dst == f"02:00:00:00:04:0{packet[1].dst[-1]}"
        return str(packet[1].dst)

    def answer(
        self, service: tuple[str, int], port: int, backend: str, flags: str, numbers: tuple[int, int] = (101, 2)
    ) -> None:
        """A segment of a backend reaches the client as one of the VIP."""
        client = CLIENTS[ip_address(service[0]).version]
        macs = f"02:00:00:00:04:0{backend[-1]}", "02:00:00:00:00:52"
        data = frame((backend, TARGET[service[1]]), (client, port), macs, flags, numbers)
        (out,) = self.harness.send([Frame("p0", data)])
        packet = Ether(out.data)
        assert (packet[1].src, packet[TCP].sport) == service
        assert (packet[1].dst, packet[TCP].dport, packet.dst) == (client, port, ROUTER)
        assert packet[TCP].flags == flags

    def open(self, service: tuple[str, int], port: int, begin: int = 1) -> str:
        """Open a connection; the address of its backend."""
        backend = self.query(service, port, "S", (begin, 0))
        self.answer(service, port, backend, "SA", (100, begin + 1))
        assert self.query(service, port, "A", (begin + 1, 101)) == backend
        return backend

    def all(self, flags: str) -> dict[tuple[str, int], str]:
        """The backends of one segment of each connection; each backend answers."""
        found = {}
        for service in SERVICES:
            for port in SOURCES:
                backend = self.open(service, port) if flags == "S" else self.query(service, port, flags)
                self.answer(service, port, backend, "A")
                found[service[0], port] = backend
        return found

    def state(self, service: tuple[str, int], port: int) -> str:
        """What the tracker has a connection as; empty if it does not know it."""
        client, vip = ip_address(CLIENTS[ip_address(service[0]).version]), ip_address(service[0])
        return self.harness.connections().get((client.packed, port, vip.packed, service[1]), "")

    def take_out(self, kind: Kind, *names: str) -> None:
        since = "2026-01-01T00:00:00+00:00"
        entries = tuple(Maintenance("resolvers", name, kind, since, "test") for name in names)
        self.harness.change(build_plan(self.loaded, Overlay(entries)))


@pytest.fixture
def translated() -> Iterator[Translated]:
    loaded = spec_of(PORTS)
    with Harness(build_plan(loaded)) as harness:
        yield Translated(harness, loaded)


def test_a_drain_takes_new_connections_only(translated: Translated) -> None:
    began = translated.all("S")
    assert {backend[-1] for backend in began.values()} == {"1", "2", "3"}
    translated.take_out("drain", "r1")
    assert translated.all("A") == began
    for service in SERVICES:
        assert all(translated.open(service, port + 64)[-1] != "1" for port in SOURCES)
    assert {translated.state(s, port) for s in SERVICES for port in SOURCES} == {"ESTABLISHED"}


def test_a_down_backend_leaves_its_connections_to_others_which_reset_them(translated: Translated) -> None:
    began = translated.all("S")
    translated.take_out("down", "r1")
    for service in SERVICES:
        port = next(port for port in SOURCES if began[service[0], port][-1] == "1")
        other = translated.query(service, port, "A")
        assert other[-1] != "1"
        translated.answer(service, port, other, "R")
        assert translated.state(service, port) == "TIME_WAIT", "a reset ends the entry too"


def test_a_client_keeps_its_port_when_it_uses_it_again(translated: Translated) -> None:
    """The tracker's own translation takes another port then: `query` and `answer` would see it."""
    for service in SERVICES:
        backend = translated.open(service, 40_000)
        translated.answer(service, 40_000, backend, "FA")
        translated.query(service, 40_000, "FA", (2, 102))
        translated.answer(service, 40_000, backend, "A", (102, 3))
        assert translated.state(service, 40_000) == "TIME_WAIT"
        translated.open(service, 40_000, begin=9_000)
        assert translated.state(service, 40_000) == "ESTABLISHED"


@pytest.mark.parametrize("how", ["forgotten", "full"])
def test_what_the_tracker_does_not_know_goes_by_its_slot(translated: Translated, how: str) -> None:
    """As after a restart of ovs-vswitchd, which forgets all, and beyond the limit. Both directions are translated."""
    switch = translated.harness.switch
    if how == "full":
        switch.appctl("dpctl/ct-set-limits", "dummy@ovs-dummy", "zone=53000,limit=1")
    began = translated.all("S")
    if how == "forgotten":
        switch.appctl("dpctl/flush-conntrack", "zone=53000")
    assert translated.all("A") == began
    assert len(translated.harness.connections()) == (1 if how == "full" else 0)


def test_back_to_nat_and_to_ct_nat_with_open_connections(translated: Translated) -> None:
    """Those of slots that never moved go on both ways; others do until it is `nat`, which knows slots alone."""
    began = translated.all("S")
    translated.harness.change(build_plan(spec_of(nat(PORTS))))
    assert translated.all("A") == began
    translated.take_out("drain", "r1")
    assert translated.all("A") == began, "the tracker knew them still"
    drained = Overlay((Maintenance("resolvers", "r1", "drain", "2026-01-01T00:00:00+00:00", "test"),))
    translated.harness.change(build_plan(spec_of(nat(PORTS)), drained))
    moved = translated.all("A")
    assert {key for key in began if moved[key] != began[key]} == {key for key in began if began[key][-1] == "1"}


def test_check_sees_answers_that_the_tracker_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert prove(spec_of(TEXT)).ok
    new = NatReturnRow.__new__
    monkeypatch.setattr(NatReturnRow, "__new__", lambda cls, *values: new(cls, *values[:-1], 0))
    report = prove(spec_of(TEXT))
    assert "the tracker should have seen its answer, and has it as SYN_SENT" in report.failures[0].problem


def test_the_idle_time_is_that_of_the_states_in_which_connections_are() -> None:
    other = "  other: {addresses: [192.0.2.99], services: [dot], pool: resolvers, keep: connections}\n"
    both = TEXT.replace("vips:\n", "vips:\n" + other)
    names = [sorted(found.timeouts) for text in (TEXT, both) if (found := zone_settings(spec_of(text).spec))]
    assert names == [
        ["tcp_established", "tcp_fin_wait"],
        ["tcp_established", "tcp_fin_wait", "tcp_syn_recv", "tcp_syn_sent"],
    ]
    assert zone_settings(spec_of(nat(TEXT)).spec) is None
