# SPDX-License-Identifier: Apache-2.0
"""Queries and answers with unusual headers, sizes or flags: most are forwarded like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache

from scapy.layers.inet import TCP, UDP, IPOption_Router_Alert
from scapy.layers.inet6 import (
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    IPv6ExtHdrSegmentRouting,
    PadN,
)
from scapy.layers.l2 import Dot1Q
from scapy.packet import Packet

from dnsteer.proof.reference import wire
from dnsteer.proof.reference.service import PROTOCOLS, AddressService
from dnsteer.proof.traffic import craft
from dnsteer.proof.traffic.craft import Headers
from dnsteer.proof.traffic.senders import Responder, Senders, Vector

_SHORTEST = 60
"""Bytes of the shortest Ethernet frame, without its checksum: shorter packets are padded."""
_FRAGMENTS = (1184, 1176, 552, 384, 376, 64)
"""Bytes of payload of fragments. With an IPv4 header, some just reach and some fall below the minimum fragment size of
Open vSwitch: its default (1,200) and its lowest setting (400)."""
_WAY = "2001:db8:ffff::99"
"""An address in a routing header."""
_SYN_OPTIONS = [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (1, 0)), ("NOP", None), ("WScale", 7)]

Build = Callable[[Headers], bytes]


def _transport(protocol: int, **fields: object) -> Packet:
    return UDP(**fields) if protocol == wire.UDP else TCP(**{"flags": "PA", **fields})


@cache
def _ip_variants(version: int, protocol: int) -> Mapping[str, Build]:
    """Frames with unusual Ethernet and IP headers."""

    def with_header(**fields: object) -> Build:
        layout = craft.layout(version, _transport(protocol), **fields)
        return lambda headers: layout.frame(headers, craft.dns_message(headers.serial, protocol))

    found = {
        "with a VLAN tag": with_header(tag=Dot1Q(vlan=100, prio=5)),
        "with a priority tag": with_header(tag=Dot1Q(vlan=0, prio=3)),
        "with two VLAN tags": with_header(tag=Dot1Q(vlan=0, prio=3) / Dot1Q(vlan=100)),
    }
    plain, tagged = with_header(), with_header(tag=Dot1Q(vlan=0, prio=3))
    found["in 802.2 SNAP"] = lambda headers: craft.in_snap(plain(headers))
    found["in 802.2 SNAP with a priority tag"] = lambda headers: craft.in_snap(tagged(headers))
    if version == 4:
        found["of one hop"] = with_header(ttl=1)
        found["of class 0xbb"] = with_header(tos=0xBB)
        found["not to be fragmented"] = with_header(flags="DF")
        found["with IP options"] = with_header(options=[IPOption_Router_Alert()])
    else:
        found["of one hop"] = with_header(hlim=1)
        found["of class 0xbb with a flow label"] = with_header(tc=0xBB, fl=0xABCDE)
        padding = {"options": [PadN(optdata=bytes(4))]}
        found["with hop-by-hop options"] = with_header(between=IPv6ExtHdrHopByHop(**padding))
        found["with destination options"] = with_header(between=IPv6ExtHdrDestOpt(**padding))
        found["with a routing header"] = with_header(between=IPv6ExtHdrRouting(addresses=[_WAY], segleft=1))
        found["with a segment routing header"] = with_header(
            between=IPv6ExtHdrSegmentRouting(addresses=[_WAY, _WAY], segleft=1, lastentry=1)
        )
        found["with a routing header that is done"] = with_header(
            between=IPv6ExtHdrRouting(addresses=[_WAY], segleft=0)
        )
        found.update(
            (name, with_header(between=IPv6ExtHdrFragment(**bits)))
            for name, bits in {
                "as an atomic fragment": {"id": 1},
                "as an atomic fragment with a reserved bit": {"id": 2, "res2": 1},
            }.items()
        )
    return found


@cache
def _transport_variants(version: int, protocol: int) -> Mapping[str, Build]:
    """Frames with unusual transport headers and payloads."""

    def with_payload(payload: Callable[[Headers], bytes], **fields: object) -> Build:
        layout = craft.layout(version, _transport(protocol, **fields))
        return lambda headers: layout.frame(headers, payload(headers))

    def from_port(port: int) -> Build:
        return lambda headers: craft.query(replace(headers, sport=port), protocol)

    large = with_payload(lambda headers: craft.filler(headers.serial, 1397))
    empty = with_payload(lambda headers: b"")
    found: dict[str, Build] = {
        "of 1397 bytes": large,
        "of no bytes": empty,
        "of no bytes, padded": lambda headers: empty(headers).ljust(_SHORTEST, b"\0"),
        "from port 1": from_port(1),
        "from port 53": from_port(53),
        "from port 65534": from_port(65534),
        "from port 65535": from_port(65535),
    }
    if protocol == wire.TCP:
        found["with SYN"] = with_payload(lambda headers: b"", flags="S", options=_SYN_OPTIONS)
        found["with FIN and ACK"] = with_payload(lambda headers: b"", flags="FA", ack=1)
        found["with RST"] = with_payload(lambda headers: b"", flags="R")
    elif version == 4:
        found["without checksum"] = lambda headers: craft.without_checksum(craft.query(headers, protocol))
    return found


def queries(senders: Senders) -> Iterator[Vector]:
    """Unusual queries for one service of each category."""
    for service in senders.example_services():
        kind = service.version, service.protocol
        variants = {**_ip_variants(*kind), **_transport_variants(*kind)}
        for name, build in variants.items():
            uplink = senders.next_uplink()
            data = build(senders.query_headers(service, uplink))
            yield senders.vector(f"query {name} for {service.label} by {uplink}", uplink, data, "unusual")
        if service.protocol == wire.UDP:
            uplink = senders.next_uplink()
            data = _summing_to_zero(senders, service, uplink)
            name = f"query whose checksum comes to zero for {service.label} by {uplink}"
            yield senders.vector(name, uplink, data, "unusual")


def _summing_to_zero(senders: Senders, service: AddressService, uplink: str) -> bytes:
    """A query whose checksum is 0 when it leaves, which UDP sends as 0xffff, since zero means that there is no checksum."""
    headers = senders.query_headers(service, uplink)
    data = bytearray(craft.query(headers, wire.UDP))
    frames = senders.reference.expect(uplink, bytes(data)).options
    if not frames:
        return bytes(data)  # no client may ask
    first = min(frames, key=lambda frame: (frame.port, frame.data))
    leaves = wire.parse(service.mode.as_served(first.data, bytes(data)))
    left = int.from_bytes(leaves.data[leaves.l4 + 6 : leaves.l4 + 8], "big")
    at = wire.parse(bytes(data)).l4 + 8  # the DNS message's id: adding the checksum to it leaves nothing to correct
    ident = int.from_bytes(data[at : at + 2], "big") + left
    data[at : at + 2] = (ident % 0xFFFF).to_bytes(2, "big")
    wire.write_checksums(data)
    return bytes(data)


def answers(senders: Senders) -> Iterator[Vector]:
    """Unusual answers of one backend of each category."""
    for responder in senders.example_responders():
        for protocol in (wire.UDP, wire.TCP):
            sport = responder.answer_port(protocol)
            if sport is None:
                continue
            for name, build in _ip_variants(responder.version, protocol).items():
                port = senders.ingress(responder)
                data = build(senders.answer_headers(responder, sport))
                name = (
                    f"{PROTOCOLS[protocol]} answer {name} for {responder.label} from {responder.backend.name} by {port}"
                )
                yield senders.vector(name, port, data, "unusual")
        yield from _in_small_fragments(senders, responder)


def _in_small_fragments(senders: Senders, responder: Responder) -> Iterator[Vector]:
    """Answers of three fragments of each size. Where one is too short, the last one, which waits for it, is left out."""
    sport = responder.answer_port(wire.UDP)
    for size, snap in [*((size, False) for size in _FRAGMENTS), (_FRAGMENTS[0], True)] if sport is not None else ():
        headers, port = senders.answer_headers(responder, sport or 0), senders.ingress(responder)
        what = f"in fragments of {size} bytes{' in 802.2 SNAP' if snap else ''}"
        name = f"udp answer {what} for {responder.label} from {responder.backend.name} by {port}"
        pieces = craft.fragments(headers, wire.UDP, 3 * size - 13, size)
        found = [
            senders.vector(f"{name}, {nth} of 3", port, craft.in_snap(piece) if snap else piece, "fragment")
            for nth, piece in enumerate(pieces, 1)
        ]
        yield from found[:-1] if found[0].kind == "drop" != found[-1].kind else found
