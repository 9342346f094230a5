# SPDX-License-Identifier: Apache-2.0
"""Fragments and checksums among the vectors: complete, of the sizes that matter, and right coming and going."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from ipaddress import ip_address

import pytest
from scapy.compat import raw
from scapy.config import conf
from scapy.layers.dns import DNS
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, ICMPv6ND_NS, IPv6, IPv6ExtHdrFragment
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from dnsteer.proof.reference.modes.nat import SMALLEST_FRAGMENT
from dnsteer.proof.reference.wire import ARP, ICMPV6, IPV6, Fragment, MalformedError, parse
from dnsteer.spec.derived import endpoints
from dnsteer.spec.model.spec import Forwarding, Protocol, Vip
from tests.unit.vector_cases import Checked, as_served, checked, every_spec, of_kind, spec_of


@pytest.fixture(scope="module", autouse=True)
def dns_is_payload() -> Iterator[None]:
    """Have scapy take messages of DNS for bytes: to take them apart is most of its time, and they have no checksum."""
    conf.layers.filter([layer for layer in conf.layers if layer is not DNS])
    yield
    conf.layers.unfilter()


@pytest.fixture(scope="module", autouse=True)
def drop_vectors() -> Iterator[None]:
    """Drop the vectors after these tests: they take 100 MB, which each process that is forked later would copy."""
    yield
    checked.cache_clear()


def ip_of(data: bytes) -> Packet:
    packet = Ether(data)
    while not isinstance(packet, (IP, IPv6)):
        packet = packet.payload
    return packet


def checksums_right(data: bytes) -> bool:
    """Whether scapy computes the same checksums as the packet has."""
    packet = ip_of(data[: parse(data).end])  # over IPv6 scapy takes the padding for payload
    before = raw(packet)
    if isinstance(packet, IP):
        del packet.chksum
    for kind, field in (
        (UDP, "chksum"),
        (TCP, "chksum"),
        (ICMP, "chksum"),
        (ICMPv6EchoRequest, "cksum"),
        (ICMPv6ND_NS, "cksum"),
    ):
        if kind in packet and (kind is not UDP or packet[kind].chksum):
            delattr(packet[kind], field)
            packet[kind].payload = Raw(raw(packet[kind].payload))
    return raw(packet) == before


@every_spec
def test_checksums_are_right_coming_and_going(name: str) -> None:
    alike = list(of_kind(name, "query", "answer"))[::4]  # they differ in addresses and ports; scapy is slow
    for vector, expectation in [*alike, *of_kind(name, "unusual", "echo", "neighbor")]:
        options = sorted(expectation.options, key=lambda frame: frame.data)
        leaving = [as_served(frame.data) for frame in {*options[:1], *options[-1:]}]
        packet = parse(vector.data)
        if packet.fragment_header or (packet.ethertype == IPV6 and packet.l4 > packet.l3 + 40):
            # One with a right checksum is always as good as one that Open vSwitch may leave wrong. Its own answers to what
            # came by a routing header have none.
            wrong = packet.fragment is not Fragment.NONE or (packet.last and packet.protocol == ICMPV6)
            assert not leaving or wrong or any(map(checksums_right, leaving)), vector.name
            leaving = []
        for data in (vector.data, *leaving):
            fragment = parse(data).fragment is not Fragment.NONE  # the rest of it is elsewhere
            assert fragment or parse(data).ethertype == ARP or checksums_right(data), vector.name


def fragments(name: str) -> dict[tuple[int, bytes, bytes], Checked]:
    """Fragment vectors by datagram."""
    found: dict[tuple[int, bytes, bytes], Checked] = defaultdict(list)
    for vector, expectation in checked(name):
        try:
            packet = parse(vector.data)
        except MalformedError:
            continue
        if packet.fragment is not Fragment.NONE and "reserved bit" not in vector.name:
            layer = ip_of(vector.data)
            ident = layer[IPv6ExtHdrFragment].id if IPv6ExtHdrFragment in layer else layer.id
            found[ident, packet.source, packet.destination].append((vector, expectation))
    return found


@every_spec
def test_ipv4_fragments_come_in_complete_sets(name: str) -> None:
    for sets in fragments(name).values():
        pieces = [ip_of(vector.data) for vector, _ in sets]
        if isinstance(pieces[0], IPv6):
            continue
        assert len({vector.port for vector, _ in sets}) == 1
        pieces.sort(key=lambda piece: int(piece.frag))
        ends = [0, *(int(piece.frag) * 8 + piece.len - 20 for piece in pieces)]
        assert [int(piece.frag) * 8 for piece in pieces] == ends[:-1]
        assert all(piece.len <= 1500 for piece in pieces)
        more = [bool(piece.flags.MF) for piece in pieces]
        if all(more):  # the last one would wait for those that are too short, which are lost
            assert max(piece.len for piece in pieces) < SMALLEST_FRAGMENT
            assert not any(expectation.options for _, expectation in sets)
        else:
            assert more == [True] * (len(pieces) - 1) + [False]


def test_translated_ipv4_fragments_are_of_sizes_around_those_that_open_vswitch_takes() -> None:
    """1,200 bytes is its least by default, and 400 the least that it can be told."""
    passing, lost = set[int](), set[int]()
    for sets in fragments("one-armed-nat").values():
        for vector, expectation in sets:
            piece = ip_of(vector.data)
            if isinstance(piece, IP) and piece.flags.MF and piece.dst.startswith("198.18."):
                (passing if expectation.options else lost).add(piece.len)
    assert {404, 572, 1196, 1204, 1500} <= passing
    assert min(passing) >= SMALLEST_FRAGMENT
    assert {84, 396} <= lost


def restores_fragments(vip: Vip) -> bool:
    """Whether fragments of its answers become the VIP's."""
    translated = vip.forwarding in (Forwarding.NAT, Forwarding.CT_NAT) and vip.fragments == "restore"
    return translated and any(e.protocol is Protocol.UDP for e in endpoints(vip))


@every_spec
def test_translated_fragments_make_up_a_datagram_with_a_right_checksum(name: str) -> None:
    seen = 0
    for sets in fragments(name).values():
        frames = [frame.data for _, expectation in sets for frame in expectation.options]
        if len(frames) != len(sets) or not any(parse(frame).fragment is Fragment.FIRST for frame in frames):
            continue
        parts = sorted((place(frame), parse(frame)) for frame in frames)
        first = parts[0][1]
        body = b"".join(packet.data[packet.l4 : packet.end] for _, packet in parts)
        six = first.ethertype == IPV6
        header = (IPv6 if six else IP)(src=str(ip_address(first.source)), dst=str(ip_address(first.destination)))
        again = header / UDP(sport=first.sport, dport=first.dport) / Raw(body[8:])
        assert raw(again)[40 if six else 20 :] == body
        seen += 1
    assert seen or not any(map(restores_fragments, spec_of(name).vips.values()))


def place(data: bytes) -> int:
    layer = ip_of(data)
    return int(layer[IPv6ExtHdrFragment].offset if IPv6ExtHdrFragment in layer else layer.frag)


@pytest.mark.parametrize("name", ["one-armed-nat", "two-uplinks", "own-ports"])
def test_every_backend_sends_fragments_and_answers_without_checksum(name: str) -> None:
    spec = spec_of(name)
    nat = [vip for vip in spec.vips.values() if vip.forwarding.value == "nat"]
    wanted = {b.ipv4.packed for vip in nat for b in spec.pools[vip.pool].backends if b.ipv4}
    wanted6 = {b.ipv6.packed for vip in nat for b in spec.pools[vip.pool].backends if b.ipv6}
    assert wanted | wanted6 <= {parse(v.data).source for v, _ in of_kind(name, "fragment")}
    bare = [p for p in (parse(v.data) for v, _ in of_kind(name, "answer")) if p.data[p.l4 + 6 : p.l4 + 8] == b"\0\0"]
    assert {packet.source for packet in bare if packet.protocol == 17} == wanted
