# SPDX-License-Identifier: Apache-2.0
"""Traffic of backends' own, and what resembles it: by each backend, in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scapy.layers.inet import ICMP
from scapy.layers.inet6 import ICMPv6DestUnreach, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6PacketTooBig
from scapy.packet import Packet, Raw

from dnsteer.proof.reference import wire
from dnsteer.proof.reference.service import PROTOCOLS
from dnsteer.proof.traffic import craft
from dnsteer.proof.traffic.coverage import evenly_spaced
from dnsteer.proof.traffic.craft import Headers, address_text, version_of
from dnsteer.proof.traffic.senders import Senders, Vector

_LARGE = 3601
_PORTS = (0x0035, 0x1035, 0xF001)
"""Ports of their own: the last is as resolvers use them, the others have bits in common with a service's."""
_SCTP = 132
_UNKNOWN_MAC = b"\x02\xfc\xfe\xff\xff\xff"


def frames(senders: Senders) -> Iterator[Vector]:
    """Yield packets of each backend, and for it from each uplink."""
    own = senders.reference.own_traffic
    for number, address in enumerate(evenly_spaced(list(own.addresses), senders.per_service)):
        port, vlan, mac = own.place(address)
        serial, remote = senders.clients.next(version_of(address))
        at = port or senders.next_uplink()
        out = Headers(senders.gateway_mac, mac or _UNKNOWN_MAC, address, remote, 0, 0, serial, vlan)
        yield from _both_ways(senders, f"of {address_text(address)} by {at}", at, out, number)
        for uplink in senders.uplinks:
            serial, remote = senders.clients.next(version_of(address))
            router = senders.neighbor_mac(uplink)
            back = Headers(senders.gateway_mac, router, remote, address, 0, 0, serial, senders.vlans.own(uplink))
            yield from _both_ways(senders, f"for {address_text(address)} by {uplink}", uplink, back, number)
            forged = replace(_next(senders, out), from_mac=router, vlan=back.vlan, sport=40006, dport=53)
            yield senders.vector(
                f"of {address_text(address)} from the router of {uplink}", uplink, craft.query(forged, wire.UDP), "own"
            )
            if not number:
                yield from _beside(senders, uplink, back)


def _both_ways(senders: Senders, about: str, port: str, headers: Headers, number: int) -> Iterator[Vector]:
    """Yield packets that differ in what the ports of one direction are in the other."""
    inward = headers.destination in senders.reference.own_traffic.addresses
    served = sorted({p for _, p in senders.reference.own_traffic.served})
    beside = (p ^ bit for p in served for bit in (1, 0x10, 0x100, 0x1000))
    ports = list(dict.fromkeys((*_PORTS, *beside, *served)))
    for protocol in (wire.UDP, wire.TCP):
        for own_port in ports if not number else ports[:3]:
            far = 1024 + headers.serial % 64000
            these = (
                replace(headers, sport=far, dport=own_port) if inward else replace(headers, sport=own_port, dport=53)
            )
            name = f"{PROTOCOLS[protocol]} {about}, port {own_port}"
            yield senders.vector(name, port, craft.query(_next(senders, these), protocol), "own")
        these = replace(_next(senders, headers), sport=40001, dport=40002)
        pieces = craft.fragments(these, protocol, _LARGE)
        # Of what backends send, IPv4 fragments may be for the tracker, which waits for all of them.
        for nth, piece in enumerate(pieces if inward else [], 1):
            yield senders.vector(f"{PROTOCOLS[protocol]} {about}, fragment {nth}", port, piece, "own")
    for what, message in _messages(headers.version).items():
        data = craft.scapy_frame(_next(senders, headers), message / Raw(craft.filler(headers.serial, 40)))
        yield senders.vector(f"ICMP {about}, {what}", port, data, "own")
    these = _next(senders, headers)
    number_of = {"proto": _SCTP} if headers.version == 4 else {"nh": _SCTP}
    data = craft.scapy_frame(these, Raw(craft.filler(these.serial, 40)), **number_of)
    yield senders.vector(f"protocol {_SCTP} {about}", port, data, "own")
    if not inward:
        forged = replace(_next(senders, headers), source=senders.clients.unused_address(headers.version), sport=40003)
        yield senders.vector(f"from another address {about}", port, craft.query(forged, wire.UDP), "own")


def _beside(senders: Senders, uplink: str, headers: Headers) -> Iterator[Vector]:
    """Yield packets from outside that are for no backend, and for one at the VIPs' MAC address."""
    at = senders.reference.own_traffic.addresses
    for bit in range(0, 64 if headers.version == 6 else 16, 3):
        other = (int.from_bytes(headers.destination, "big") ^ 1 << bit).to_bytes(len(headers.destination), "big")
        if other not in at:
            these = replace(_next(senders, headers), destination=other, sport=53, dport=40004)
            yield senders.vector(
                f"beside a backend in bit {bit} by {uplink}", uplink, craft.query(these, wire.UDP), "own"
            )
    these = replace(_next(senders, headers), to_mac=senders.mac, sport=53, dport=40005)
    yield senders.vector(f"for a backend at the VIPs' MAC by {uplink}", uplink, craft.query(these, wire.UDP), "own")


def _next(senders: Senders, headers: Headers) -> Headers:
    """The same with another serial number."""
    return replace(headers, serial=senders.clients.next(headers.version)[0])


def _messages(version: int) -> dict[str, Packet]:
    if version == 4:
        found = {"echo request": (8, 0), "echo reply": (0, 0), "port unreachable": (3, 3), "too big": (3, 4)}
        found |= {"time exceeded": (11, 0), "redirect": (5, 1), "timestamp": (13, 0), "echo of code 1": (8, 1)}
        return {what: ICMP(type=kind, code=code) for what, (kind, code) in found.items()}
    return {
        "echo request": ICMPv6EchoRequest(),
        "echo reply": ICMPv6EchoReply(),
        "port unreachable": ICMPv6DestUnreach(code=4),
        "too big": ICMPv6PacketTooBig(mtu=1280),
        "echo of code 1": ICMPv6EchoRequest(code=1),
    }
