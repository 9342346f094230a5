"""Frames that must not get through."""

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
from dnsteer.proof.reference.services import Service
from dnsteer.proof.traffic import craft
from dnsteer.proof.traffic.craft import address_text, version_of
from dnsteer.proof.traffic.neighbor_requests import BROADCAST, arp, echo, mac_text, solicitation
from dnsteer.proof.traffic.senders import PROTOCOLS, Post, Scene, Vector, port_of
from dnsteer.spec.model.spec import Forwarding

_STRANGER = bytes.fromhex("02fcfd000001")
_SCTP, _UDP_LITE = 132, 136
_LARGE_QUERY = 1601


def frames(scene: Scene) -> Iterator[Vector]:
    """Yield everything that must be dropped."""
    for name, port, data in _all(scene):
        yield Vector(name, port, data, "drop")


Refused = Iterator[tuple[str, str, bytes]]


def _all(scene: Scene) -> Refused:
    for service in scene.reference.services.values():
        for name, number in (("another port", scene.unused_port), ("a like port", scene.like_port(service.port))):
            uplink = scene.uplink()
            talk = replace(scene.asks(service, uplink), dport=number)
            yield (
                f"{PROTOCOLS[service.protocol]} query to {name} of {service.label} by {uplink}",
                uplink,
                craft.query(talk, service.protocol),
            )
    for service in scene.reference.dark.values():
        uplink = scene.uplink()
        data = craft.query(scene.asks(service, uplink), service.protocol)
        yield f"query for {service.label}, which nobody is left for, by {uplink}", uplink, data
    for service in scene.examples():
        yield from _queries(scene, service)
    for post in scene.example_posts():
        if post.vip.forwarding is Forwarding.NAT:
            yield from _answers(scene, post)
        yield from _any_answers(scene, post)
    yield from _neighbors(scene)
    yield from _echoes(scene)
    yield from _not_ip(scene)


def _queries(scene: Scene, service: Service) -> Refused:
    """Queries that are none."""
    protocol, label = service.protocol, service.label
    uplink = scene.uplink()

    def ask(**changes: object) -> bytes:
        return craft.query(replace(scene.asks(service, uplink), **changes), protocol)  # type: ignore[arg-type]

    found = {
        "to another MAC": ask(to_mac=_STRANGER),
        "to all stations": ask(to_mac=b"\xff" * 6),
        "to a group of stations": ask(to_mac=bytes.fromhex("01005e000001")),
        "to the gateways' MAC": ask(to_mac=scene.gateway_mac),
        "to an address that is no VIP": ask(destination=scene.clients.unknown(version_of(service.address))),
        "with its ports swapped": ask(sport=service.port, dport=scene.unused_port),
    }
    for number in (_SCTP, _UDP_LITE, 47):
        talk = scene.asks(service, uplink)
        ports = talk.sport.to_bytes(2, "big") + talk.dport.to_bytes(2, "big")
        found[f"in protocol {number}"] = _datagram(talk, number, Raw(ports + craft.noise(talk.serial, 40)))
    pieces = craft.in_pieces(scene.asks(service, uplink), protocol, _LARGE_QUERY)
    found.update({f"in fragments, {nth}": piece for nth, piece in enumerate(pieces, 1)})
    for name, data in found.items():
        yield f"query {name} for {label} by {uplink}", uplink, data
    for port in scene.ports:
        data = craft.query(replace(scene.asks(service, uplink), from_mac=scene.neighbor_mac(port)), protocol)
        yield f"query for {label} at backend port {port}", port, data


def _datagram(talk: craft.Talk, protocol: int, payload: Packet) -> bytes:
    """A packet of any IP protocol."""
    number = {"proto": protocol} if talk.version == 4 else {"nh": protocol}
    return craft.special(talk, payload, **number)


def _answers(scene: Scene, post: Post) -> Refused:
    """What a NAT backend sends that is no answer."""
    where = f"for {post.label} from {post.backend.name}"
    for protocol in (wire.UDP, wire.TCP):
        sport = port_of(post, protocol)
        if sport is None:
            continue
        port = scene.ingress(post)
        wrong = craft.query(scene.answers(post, scene.unused_port), protocol)
        yield f"{PROTOCOLS[protocol]} answer from a wrong port {where} by {port}", port, wrong
        data = craft.query(replace(scene.answers(post, sport), to_mac=scene.mac), protocol)
        yield f"{PROTOCOLS[protocol]} answer to the VIPs' MAC {where} by {port}", port, data
    pieces = craft.in_pieces(scene.answers(post, port_of(post, wire.TCP) or scene.unused_port), wire.TCP, _LARGE_QUERY)
    port = scene.ingress(post)
    # Later fragments of IPv6 tell no protocol and pass.
    for nth, piece in enumerate(pieces if post.version == 4 else pieces[:1], 1):
        yield f"TCP fragment {nth} {where} by {port}", port, piece


def _any_answers(scene: Scene, post: Post) -> Refused:
    """What a backend sends that is no answer, whatever the forwarding."""
    where = f"for {post.label} from {post.backend.name}"
    port = scene.ingress(post)
    protocol = wire.UDP if port_of(post, wire.UDP) is not None else wire.TCP
    sport = port_of(post, protocol) or 0
    for name, to_mac in (("another MAC", _STRANGER), ("all stations", b"\xff" * 6)):
        data = craft.query(replace(scene.answers(post, sport), to_mac=to_mac), protocol)
        yield f"answer to {name} {where} by {port}", port, data
    unknown = scene.clients.unknown(post.version)
    data = craft.query(replace(scene.answers(post, sport), source=unknown), protocol)
    yield f"answer from an unknown address {where} by {port}", port, data
    talk = replace(scene.answers(post, sport), source=unknown)
    for nth, piece in enumerate(craft.in_pieces(talk, wire.UDP, _LARGE_QUERY), 1):
        yield f"fragment {nth} from an unknown address {where} by {port}", port, piece
    talk = scene.answers(post, sport)
    data = _datagram(talk, _SCTP, Raw(sport.to_bytes(2, "big") + craft.noise(talk.serial, 40)))
    yield f"answer in protocol {_SCTP} {where} by {port}", port, data
    talk = scene.answers(post, sport)
    error = ICMP(type=3, code=3) if post.version == 4 else ICMPv6DestUnreach(code=4)
    inside = IP if post.version == 4 else IPv6
    data = craft.special(talk, error / Raw(bytes(inside() / UDP(sport=talk.dport, dport=sport))))
    yield f"ICMP error {where} by {port}", port, data


def _first_addresses(scene: Scene) -> dict[int, bytes]:
    """The first VIP address of each width."""
    first: dict[int, bytes] = {}
    for service in scene.reference.services.values():
        first.setdefault(len(service.address), service.address)
    return first


def _neighbors(scene: Scene) -> Refused:
    """ARP and neighbour discovery that the switch has no answer to."""
    uplink = scene.uplink()
    first = _first_addresses(scene)
    unknown4, unknown6 = scene.clients.unknown(4), scene.clients.unknown(6)
    yield "ARP request for an unknown address", uplink, arp(scene, uplink, unknown4)
    yield "solicitation for an unknown address", uplink, solicitation(scene, uplink, unknown6)
    yield (
        "solicitation to the VIPs' MAC for an unknown address",
        uplink,
        solicitation(scene, uplink, unknown6, to=mac_text(scene.mac)),
    )
    for port in scene.ports:
        if 4 in first:
            yield f"ARP request for a VIP at backend port {port}", port, arp(scene, port, first[4])
        if 16 in first:
            yield f"solicitation for a VIP at backend port {port}", port, solicitation(scene, port, first[16])
    if 4 in first:
        for number, name in ((2, "reply"), (3, "reverse request")):
            yield f"ARP {name}", uplink, arp(scene, uplink, first[4], op=number)
        yield "ARP of another protocol", uplink, arp(scene, uplink, first[4], ptype=0x86DD)
        reverse = bytearray(arp(scene, uplink, first[4]))
        reverse[12:14] = b"\x80\x35"
        yield "reverse ARP", uplink, bytes(reverse)
    if 16 in first:
        target = first[16]
        yield "solicitation of hop limit 254", uplink, solicitation(scene, uplink, target, hlim=254)
        plain = address_text(target)
        for name, message in {
            "solicitation of code 1": ICMPv6ND_NS(tgt=plain, code=1),
            "neighbour advertisement": ICMPv6ND_NA(tgt=plain),
            "router solicitation": ICMPv6ND_RS(),
            "router advertisement": ICMPv6ND_RA(),
        }.items():
            yield name, uplink, solicitation(scene, uplink, target, message=message)


def _echoes(scene: Scene) -> Refused:
    """Echo requests at wrong places, and other ICMP."""
    for address in _first_addresses(scene).values():
        uplink, name, mac = scene.uplink(), address_text(address), scene.mac
        yield (
            f"echo request to VIP {name} at the gateways' MAC",
            uplink,
            echo(scene, uplink, address, scene.gateway_mac),
        )
        yield f"echo request to VIP {name} at another MAC", uplink, echo(scene, uplink, address, _STRANGER)
        for port in scene.ports:
            yield f"echo request to VIP {name} at backend port {port}", port, echo(scene, port, address, mac)
        unknown = scene.clients.unknown(version_of(address))
        yield f"echo request to {address_text(unknown)}", uplink, echo(scene, uplink, unknown, mac)
        for words, fields in (
            ("echo reply", {"type": 0 if len(address) == 4 else 129}),
            ("echo of code 1", {"code": 1}),
        ):
            yield f"{words} to VIP {name}", uplink, echo(scene, uplink, address, mac, message=fields)
    for address in scene.gateways:
        for port in [*scene.uplinks, *scene.ports]:
            name = f"{address_text(address)} at {port}"
            yield f"echo request to gateway {name} at the VIPs' MAC", port, echo(scene, port, address, scene.mac)


def _not_ip(scene: Scene) -> Refused:
    """Frames of other protocols."""
    for port in [*scene.uplinks, *scene.ports]:
        mac, from_mac = mac_text(scene.mac), mac_text(scene.neighbor_mac(port))
        for ethertype in (0x88B5, 0x8847, 0x8864):
            data = bytes(Ether(dst=mac, src=from_mac, type=ethertype) / Raw(craft.noise(ethertype, 46)))
            yield f"ethertype {ethertype:#06x} at {port}", port, data
        yield f"LLC at {port}", port, bytes(Dot3(dst=mac, src=from_mac) / LLC() / Raw(bytes(43)))
        other = Ether(dst=BROADCAST, src=from_mac, type=0x88B5) / Raw(craft.noise(1, 46))
        yield f"broadcast of ethertype 0x88b5 at {port}", port, bytes(other)
