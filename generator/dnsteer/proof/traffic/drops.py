# SPDX-License-Identifier: Apache-2.0
"""Frames that the switch must drop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6ND_RA,
    ICMPv6ND_RS,
    IPv6,
)
from scapy.layers.l2 import LLC, Dot3, Ether
from scapy.packet import Packet, Raw

from dnsteer.proof.reference import wire
from dnsteer.proof.reference.service import PROTOCOLS, AddressService
from dnsteer.proof.traffic import craft
from dnsteer.proof.traffic.craft import address_text, version_of
from dnsteer.proof.traffic.neighbor_requests import BROADCAST, arp, echo, mac_text, solicitation
from dnsteer.proof.traffic.senders import Responder, Senders, Vector

_UNKNOWN_MAC = bytes.fromhex("02fcfd000001")
_SCTP, _UDP_LITE = 132, 136
_LARGE_QUERY = 1601


def frames(senders: Senders) -> Iterator[Vector]:
    """Yield everything that must be dropped."""
    for name, port, data in _all(senders):
        data = _in_its_vlan(senders, port, data)
        if not (senders.reference.own_traffic.addresses and senders.reference.expect(port, data).options):
            yield Vector(name, port, data, "drop")  # else it is traffic of a backend's own


def _in_its_vlan(senders: Senders, port: str, data: bytes) -> bytes:
    """The frame as it is sent: without its tag it would be dropped for its VLAN, where there are VLANs."""
    return data if data[12:14] == b"\x81\x00" else craft.in_vlan(data, senders.vlan_asked(port, mac=data[0:6]))


def _passes(senders: Senders, port: str, data: bytes) -> bool:
    return bool(senders.reference.expect(port, _in_its_vlan(senders, port, data)).options)


NamedFrames = Iterator[tuple[str, str, bytes]]
"""A name, the port to send into, and the frame."""


def _all(senders: Senders) -> NamedFrames:
    for service in senders.reference.services.values():
        for name, number in (
            ("another port", senders.unused_port),
            ("a similar port", senders.similar_port(service.port)),
        ):
            uplink = senders.next_uplink()
            headers = replace(senders.query_headers(service, uplink), dport=number)
            yield (
                f"{PROTOCOLS[service.protocol]} query to {name} of {service.label} by {uplink}",
                uplink,
                craft.query(headers, service.protocol),
            )
    for service in senders.reference.unserved.values():
        uplink = senders.next_uplink()
        data = craft.query(senders.query_headers(service, uplink), service.protocol)
        yield f"query for {service.label}, which has no backend left, by {uplink}", uplink, data
    for service in senders.example_services():
        yield from _queries(senders, service)
    for responder in senders.example_responders():
        if responder.mode.rewrites_answers and not responder.mode.by_extension:
            yield from _answers(senders, responder)
        yield from _any_answers(senders, responder)
    yield from _beyond_workers(senders)
    yield from _neighbors(senders)
    yield from _echoes(senders)
    yield from _not_ip(senders)


def _queries(senders: Senders, service: AddressService) -> NamedFrames:
    """Packets that resemble queries for the service, but that the switch must drop."""
    protocol, label = service.protocol, service.label
    uplink = senders.next_uplink()

    def ask(**changes: object) -> bytes:
        return craft.query(replace(senders.query_headers(service, uplink), **changes), protocol)  # type: ignore[arg-type]

    found = {
        "to another MAC": ask(to_mac=_UNKNOWN_MAC),
        "to all stations": ask(to_mac=b"\xff" * 6),
        "to a group of stations": ask(to_mac=bytes.fromhex("01005e000001")),
        "to the gateways' MAC": ask(to_mac=senders.gateway_mac),
        "to an address that is no VIP": ask(destination=senders.clients.unused_address(service.version)),
        "with its ports swapped": ask(sport=service.port, dport=senders.unused_port),
        "to another port with the low bits of its port": ask(dport=senders.port_of_same_low_bits(service.port)),
    }
    for bit, address in senders.addresses_beside(service.address):
        found[f"to an address that differs in bit {bit}"] = ask(destination=address)
    for number in (_SCTP, _UDP_LITE, 47):
        headers = senders.query_headers(service, uplink)
        ports = headers.sport.to_bytes(2, "big") + headers.dport.to_bytes(2, "big")
        found[f"in protocol {number}"] = _datagram(headers, number, Raw(ports + craft.filler(headers.serial, 40)))
    fragments = craft.fragments(senders.query_headers(service, uplink), protocol, _LARGE_QUERY)
    found.update({f"in fragments, {nth}": fragment for nth, fragment in enumerate(fragments, 1)})
    for name, data in found.items():
        yield f"query {name} for {label} by {uplink}", uplink, data
    for port in senders.ports:
        data = craft.query(
            replace(senders.query_headers(service, uplink), from_mac=senders.neighbor_mac(port)), protocol
        )
        yield f"query for {label} at backend port {port}", port, data


def _datagram(headers: craft.Headers, protocol: int, payload: Packet) -> bytes:
    """Return a frame with *payload* in a packet of any IP protocol."""
    number = {"proto": protocol} if headers.version == 4 else {"nh": protocol}
    return craft.scapy_frame(headers, payload, **number)


def _answers(senders: Senders, responder: Responder) -> NamedFrames:
    """Packets that are no answers, from a backend whose answers the switch rewrites."""
    label = f"for {responder.label} from {responder.backend.name}"
    for protocol in (wire.UDP, wire.TCP):
        sport = responder.answer_port(protocol)
        if sport is None:
            continue
        port = senders.ingress(responder)
        wrong = craft.query(senders.answer_headers(responder, senders.unused_port), protocol)
        yield f"{PROTOCOLS[protocol]} answer from a wrong port {label} by {port}", port, wrong
        data = craft.query(replace(senders.answer_headers(responder, sport), to_mac=senders.mac), protocol)
        yield f"{PROTOCOLS[protocol]} answer to the VIPs' MAC {label} by {port}", port, data
    sport = responder.answer_port(wire.TCP) or senders.unused_port
    fragments = craft.fragments(senders.answer_headers(responder, sport), wire.TCP, _LARGE_QUERY)
    port = senders.ingress(responder)
    # IPv6 fragments after the first do not reveal their protocol, and pass.
    for nth, fragment in enumerate(fragments if responder.version == 4 else fragments[:1], 1):
        yield f"TCP fragment {nth} {label} by {port}", port, fragment


def _beyond_workers(senders: Senders) -> NamedFrames:
    """What comes from the port behind that of the last worker of each host, where no other service has it."""
    last: dict[tuple[str, bytes, bytes], Responder] = {}
    for responder in senders.responders():
        last[responder.vip_name, responder.address, responder.backend.address] = responder
    for responder in last.values():
        for protocol in (wire.UDP, wire.TCP) if responder.backend.worker else ():
            sport = responder.answer_port(protocol)
            if sport is None or sport == 0xFFFF:
                continue
            port = senders.ingress(responder)
            data = craft.query(senders.answer_headers(responder, sport + 1), protocol)
            if not _passes(senders, port, data):
                about = f"for {responder.label} from the host of {responder.backend.name}"
                yield f"{PROTOCOLS[protocol]} answer from port {sport + 1} {about} by {port}", port, data


def _any_answers(senders: Senders, responder: Responder) -> NamedFrames:
    """Packets from a backend that are no answers in any forwarding mode."""
    label = f"for {responder.label} from {responder.backend.name}"
    port = senders.ingress(responder)
    protocol = wire.UDP if responder.answer_port(wire.UDP) is not None else wire.TCP
    sport = responder.answer_port(protocol) or 0
    for name, to_mac in (("another MAC", _UNKNOWN_MAC), ("all stations", b"\xff" * 6)):
        data = craft.query(replace(senders.answer_headers(responder, sport), to_mac=to_mac), protocol)
        yield f"answer to {name} {label} by {port}", port, data
    for uplink in senders.uplinks:
        data = craft.query(
            replace(senders.answer_headers(responder, sport), from_mac=senders.neighbor_mac(uplink)), protocol
        )
        if not _passes(senders, uplink, data):
            yield f"answer {label} from the router of {uplink}", uplink, data
    unknown = senders.clients.unused_address(responder.version)
    data = craft.query(replace(senders.answer_headers(responder, sport), source=unknown), protocol)
    yield f"answer from an unknown address {label} by {port}", port, data
    headers = replace(senders.answer_headers(responder, sport), source=unknown)
    for nth, fragment in enumerate(craft.fragments(headers, wire.UDP, _LARGE_QUERY), 1):
        yield f"fragment {nth} from an unknown address {label} by {port}", port, fragment
    headers = senders.answer_headers(responder, sport)
    data = _datagram(headers, _SCTP, Raw(sport.to_bytes(2, "big") + craft.filler(headers.serial, 40)))
    yield f"answer in protocol {_SCTP} {label} by {port}", port, data
    headers = senders.answer_headers(responder, sport)
    error = ICMP(type=3, code=3) if responder.version == 4 else ICMPv6DestUnreach(code=4)
    original = IP if responder.version == 4 else IPv6
    query = original(src=address_text(headers.destination), dst=address_text(headers.source))
    data = craft.scapy_frame(headers, error / Raw(bytes(query / UDP(sport=headers.dport, dport=sport))))
    yield f"ICMP error {label} by {port}", port, data


def _first_addresses(senders: Senders) -> dict[int, bytes]:
    """The first VIP address of each length in bytes."""
    first: dict[int, bytes] = {}
    for service in senders.reference.services.values():
        first.setdefault(len(service.address), service.address)
    return first


def _neighbors(senders: Senders) -> NamedFrames:
    """ARP and neighbour discovery packets that the switch does not answer."""
    uplink = senders.next_uplink()
    first = _first_addresses(senders)
    unknown4, unknown6 = senders.clients.unused_address(4), senders.clients.unused_address(6)
    yield "ARP request for an unknown address", uplink, arp(senders, uplink, unknown4)
    yield "solicitation for an unknown address", uplink, solicitation(senders, uplink, unknown6)
    yield (
        "solicitation to the VIPs' MAC for an unknown address",
        uplink,
        solicitation(senders, uplink, unknown6, to=mac_text(senders.mac)),
    )
    for port in senders.ports:
        if 4 in first:
            yield f"ARP request for a VIP at backend port {port}", port, arp(senders, port, first[4])
        if 16 in first:
            yield f"solicitation for a VIP at backend port {port}", port, solicitation(senders, port, first[16])
    if 4 in first:
        for number, name in ((2, "reply"), (3, "reverse request")):
            yield f"ARP {name}", uplink, arp(senders, uplink, first[4], op=number)
        yield "ARP of another protocol", uplink, arp(senders, uplink, first[4], ptype=0x86DD)
        reverse = bytearray(arp(senders, uplink, first[4]))
        reverse[12:14] = b"\x80\x35"
        yield "reverse ARP", uplink, bytes(reverse)
    if 16 in first:
        target = first[16]
        yield "solicitation of hop limit 254", uplink, solicitation(senders, uplink, target, hlim=254)
        plain = address_text(target)
        for name, message in {
            "solicitation of code 1": ICMPv6ND_NS(tgt=plain, code=1),
            "neighbour advertisement": ICMPv6ND_NA(tgt=plain),
            "router solicitation": ICMPv6ND_RS(),
            "router advertisement": ICMPv6ND_RA(),
        }.items():
            yield name, uplink, solicitation(senders, uplink, target, message=message)


def _echoes(senders: Senders) -> NamedFrames:
    """Echo requests that the switch must not answer, and other ICMP."""
    for address in _first_addresses(senders).values():
        uplink, name, mac = senders.next_uplink(), address_text(address), senders.mac
        yield (
            f"echo request to VIP {name} at the gateways' MAC",
            uplink,
            echo(senders, uplink, address, senders.gateway_mac),
        )
        yield f"echo request to VIP {name} at another MAC", uplink, echo(senders, uplink, address, _UNKNOWN_MAC)
        for port in senders.ports:
            yield f"echo request to VIP {name} at backend port {port}", port, echo(senders, port, address, mac)
        unknown = senders.clients.unused_address(version_of(address))
        yield f"echo request to {address_text(unknown)}", uplink, echo(senders, uplink, unknown, mac)
        for words, fields in (
            ("echo reply", {"type": 0 if len(address) == 4 else 129}),
            ("echo of code 1", {"code": 1}),
        ):
            yield f"{words} to VIP {name}", uplink, echo(senders, uplink, address, mac, message=fields)
    for address in senders.gateways:
        for port in [*senders.uplinks, *senders.ports]:
            name = f"{address_text(address)} at {port}"
            yield f"echo request to gateway {name} at the VIPs' MAC", port, echo(senders, port, address, senders.mac)


def _not_ip(senders: Senders) -> NamedFrames:
    for port in [*senders.uplinks, *senders.ports]:
        mac, from_mac = mac_text(senders.mac), mac_text(senders.neighbor_mac(port))
        for ethertype in (0x88B5, 0x8847, 0x8864):
            data = bytes(Ether(dst=mac, src=from_mac, type=ethertype) / Raw(craft.filler(ethertype, 46)))
            yield f"ethertype {ethertype:#06x} at {port}", port, data
        for name, header in (
            ("SNAP of another organisation", b"\xaa\xaa\x03\x00\x00\x0c\x08\x00"),
            ("SNAP of a type below 0x600", b"\xaa\xaa\x03\x00\x00\x00\x05\xdd"),
            ("SNAP that is cut off", b"\xaa\xaa\x03\x00\x00\x00"),
        ):
            payload = b"" if "cut off" in name else _ip_packet(senders)
            yield f"{name} at {port}", port, bytes(Dot3(dst=mac, src=from_mac) / Raw(header + payload))
        yield f"LLC at {port}", port, bytes(Dot3(dst=mac, src=from_mac) / LLC() / Raw(bytes(43)))
        other = Ether(dst=BROADCAST, src=from_mac, type=0x88B5) / Raw(craft.filler(1, 46))
        yield f"broadcast of ethertype 0x88b5 at {port}", port, bytes(other)


def _ip_packet(senders: Senders) -> bytes:
    """An IP packet with a query that would be served in a frame of its type."""
    service = next(iter(senders.reference.services.values()), None)
    if service is None:
        return craft.filler(2, 46)
    headers = senders.query_headers(service, senders.uplinks[0])
    return craft.query(replace(headers, vlan=0), service.protocol)[14:]
