"""Frames that the extension does not take, though the switch hands it their like; and frames that come from its ports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dnsteer.proof.reference import wire
from dnsteer.proof.reference.services import Service
from dnsteer.proof.traffic import craft
from dnsteer.proof.traffic.craft import Talk, address_text
from dnsteer.proof.traffic.neighbor_requests import arp, echo, solicitation
from dnsteer.proof.traffic.senders import PROTOCOLS, Scene, Vector, port_of
from dnsteer.spec.model.spec import Forwarding

_STRANGER = bytes.fromhex("02fcfd000001")
_OTHER_PREFIX = bytes.fromhex("0064ff9b0001") + bytes(6)
"""64:ff9b:1::/96, of the network for local use beside that of the translation (RFC 8215)."""


def frames(scene: Scene) -> Iterator[Vector]:
    """Yield such frames, where the spec has an extension."""
    for service in scene.examples():
        if service.extended:
            yield from _queries(scene, service)
            yield from _from_beyond(scene, service)
    yield from _answers(scene)


def _patched(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


def _damaged(talk: Talk, protocol: int) -> Iterator[tuple[str, bytes]]:
    """Packets whose headers do not fit them."""
    data = craft.query(talk, protocol)
    packet = wire.parse(data)
    if talk.version == 4:
        yield "with a wrong header checksum", _patched(data, packet.l3 + 10, bytes((data[24] ^ 1,)))
    if protocol == wire.UDP:
        length = packet.end - packet.l4
        for number in (length + 1, 7):
            yield f"of UDP length {number}", _patched(data, packet.l4 + 4, number.to_bytes(2, "big"))
    else:
        for words in (15, 4):  # a query is shorter than 15 words would be, and a header never has 4
            short = craft.segment(talk, protocol, b"")
            yield f"of a TCP header of {words} words", _patched(short, packet.l4 + 12, bytes((words << 4,)))


def _queries(scene: Scene, service: Service) -> Iterator[Vector]:
    uplink = scene.uplink()
    for name, data in _damaged(scene.asks(service, uplink), service.protocol):
        yield scene.judged(f"query {name} for {service.label} by {uplink}", uplink, data, "odd")


def _answers(scene: Scene) -> Iterator[Vector]:
    """Answers of a backend of each translated VIP that are not translated."""
    for post in scene.example_posts():
        if post.vip.forwarding is not Forwarding.SIIT:
            continue
        for protocol in (wire.UDP, wire.TCP):
            sport = port_of(post, protocol)
            if sport is None:
                continue
            port = scene.ingress(post)
            where = f"for {post.label} from {post.backend.name} by {port}"
            found = dict(_damaged(scene.answers(post, sport), protocol))
            if protocol == wire.UDP:
                found["without checksum"] = craft.without_checksum(craft.query(scene.answers(post, sport), protocol))
            client = scene.clients.take(4)[1]
            talk = replace(scene.answers(post, sport), destination=_OTHER_PREFIX + client)
            found["to another prefix"] = craft.query(talk, protocol)
            talk = replace(scene.answers(post, sport), destination=scene.clients.take(6)[1])
            found["to a client over IPv6"] = craft.query(talk, protocol)
            for name, data in found.items():
                yield scene.judged(f"{PROTOCOLS[protocol]} answer {name} {where}", port, data, "odd")


def _from_beyond(scene: Scene, service: Service) -> Iterator[Vector]:
    """What the extension would never send, from its ports."""
    for port in scene.reference.beyond.ports:
        talk = scene.asks(service, port)
        where = f"for {service.label} from {port}"
        found = {
            f"query {where}": craft.query(talk, service.protocol),
            f"query to the gateways' MAC {where}": craft.query(
                replace(scene.asks(service, port), to_mac=scene.gateway_mac), service.protocol
            ),
            f"query to another MAC {where}": craft.query(
                replace(scene.asks(service, port), to_mac=_STRANGER), service.protocol
            ),
            f"echo request to {address_text(service.address)} {where}": echo(scene, port, service.address, scene.mac),
        }
        ask = arp if talk.version == 4 else solicitation
        found[f"neighbour request {where}"] = ask(scene, port, service.address)
        for name, data in found.items():
            yield scene.judged(name, port, data, "odd")
