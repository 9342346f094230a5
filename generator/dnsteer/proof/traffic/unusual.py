"""Queries and answers that look unusual: most are forwarded like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from scapy.layers.inet import TCP, UDP, IPOption_Router_Alert
from scapy.layers.inet6 import IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, PadN
from scapy.layers.l2 import Dot1Q
from scapy.packet import Packet, Raw

from dnsteer.proof.reference import wire
from dnsteer.proof.reference.services import Service
from dnsteer.proof.traffic import craft
from dnsteer.proof.traffic.craft import Talk
from dnsteer.proof.traffic.senders import PROTOCOLS, Post, Scene, Vector, port_of
from dnsteer.spec.model.spec import Forwarding

_SHORTEST = 60
"""Bytes of the shortest Ethernet frame, without its checksum: shorter packets are padded."""
_FRAGMENTS = (1184, 1176, 552, 384, 376, 64)
"""Bytes of payload of fragments. With an IPv4 header some of them are just not shorter, and some shorter, than what
Open vSwitch takes by default (1,200) and at the least (400)."""
_SYN_OPTIONS = [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (1, 0)), ("NOP", None), ("WScale", 7)]

Build = Callable[[Talk], bytes]


def _transport(talk: Talk, protocol: int, payload: bytes | None = None, **fields: object) -> Packet:
    if payload is None:
        payload = craft.dns(talk.serial, protocol)
    ports = {"sport": talk.sport, "dport": talk.dport}
    if protocol == wire.UDP:
        return UDP(**ports, **fields) / Raw(payload)
    return TCP(**{"seq": talk.serial, "flags": "PA", **ports, **fields}) / Raw(payload)


def _ip_sorts(version: int, protocol: int) -> dict[str, Build]:
    """Frames with unusual Ethernet and IP headers."""

    def with_header(**fields: object) -> Build:
        return lambda talk: craft.special(talk, _transport(talk, protocol), **fields)

    found = {
        "with a VLAN tag": with_header(tag=Dot1Q(vlan=100, prio=5)),
        "with a priority tag": with_header(tag=Dot1Q(vlan=0, prio=3)),
        "with two VLAN tags": with_header(tag=Dot1Q(vlan=0, prio=3) / Dot1Q(vlan=100)),
    }
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
        found.update(
            (name, with_header(between=IPv6ExtHdrFragment(**bits)))
            for name, bits in {
                "as an atomic fragment": {"id": 1},
                "as an atomic fragment with a reserved bit": {"id": 2, "res2": 1},
            }.items()
        )
    return found


def _transport_sorts(version: int, protocol: int) -> dict[str, Build]:
    """Frames with unusual transport headers and payloads."""

    def with_payload(payload: Callable[[Talk], bytes], **fields: object) -> Build:
        return lambda talk: craft.special(talk, _transport(talk, protocol, payload(talk), **fields))

    def from_port(port: int) -> Build:
        return lambda talk: craft.query(replace(talk, sport=port), protocol)

    large = with_payload(lambda talk: craft.noise(talk.serial, 1397))
    empty = with_payload(lambda talk: b"")
    found: dict[str, Build] = {
        "of 1397 bytes": large,
        "of no bytes": empty,
        "of no bytes, padded": lambda talk: empty(talk).ljust(_SHORTEST, b"\0"),
        "from port 1": from_port(1),
        "from port 53": from_port(53),
        "from port 65534": from_port(65534),
        "from port 65535": from_port(65535),
    }
    if protocol == wire.TCP:
        found["with SYN"] = with_payload(lambda talk: b"", flags="S", options=_SYN_OPTIONS)
        found["with FIN and ACK"] = with_payload(lambda talk: b"", flags="FA", ack=1)
        found["with RST"] = with_payload(lambda talk: b"", flags="R")
    elif version == 4:
        found["without checksum"] = lambda talk: craft.without_checksum(craft.query(talk, protocol))
    return found


def queries(scene: Scene) -> Iterator[Vector]:
    """Unusual queries for one service of each sort."""
    for service in scene.examples():
        version = craft.version_of(service.address)
        sorts = {**_ip_sorts(version, service.protocol), **_transport_sorts(version, service.protocol)}
        for name, build in sorts.items():
            uplink = scene.uplink()
            data = build(scene.asks(service, uplink))
            yield scene.judged(f"query {name} for {service.label} by {uplink}", uplink, data, "odd")
        if service.protocol == wire.UDP:
            uplink = scene.uplink()
            data = _summing_to_zero(scene, service, uplink)
            name = f"query whose checksum comes to zero for {service.label} by {uplink}"
            yield Vector(name, uplink, data, "odd")


def _summing_to_zero(scene: Scene, service: Service, uplink: str) -> bytes:
    """A query whose checksum is 0 when it leaves, which UDP writes as 0xffff: zero would mean that there is none."""
    talk = scene.asks(service, uplink)
    data = bytearray(craft.query(talk, wire.UDP))
    frames = scene.reference.expect(uplink, bytes(data)).options
    first = min(frames, key=lambda frame: (frame.port, frame.data))
    leaves = wire.parse(bytes(data) if service.mode is Forwarding.IPIP else first.data)
    left = int.from_bytes(leaves.data[leaves.l4 + 6 : leaves.l4 + 8], "big")
    at = wire.parse(bytes(data)).l4 + 8  # the DNS message's id: adding the checksum to it leaves nothing to correct
    ident = int.from_bytes(data[at : at + 2], "big") + left
    data[at : at + 2] = (ident % 0xFFFF).to_bytes(2, "big")
    wire.seal(data)
    return bytes(data)


def answers(scene: Scene) -> Iterator[Vector]:
    """Unusual answers of one backend of each sort."""
    for post in scene.example_posts():
        for protocol in (wire.UDP, wire.TCP):
            sport = port_of(post, protocol)
            if sport is None:
                continue
            for name, build in _ip_sorts(post.version, protocol).items():
                port = scene.ingress(post)
                data = build(scene.answers(post, sport))
                name = f"{PROTOCOLS[protocol]} answer {name} for {post.label} from {post.backend.name} by {port}"
                yield scene.judged(name, port, data, "odd")
        yield from _in_small_fragments(scene, post)


def _in_small_fragments(scene: Scene, post: Post) -> Iterator[Vector]:
    """Answers of three fragments of each size. Where one is too short, the last one, which waits for it, is left out."""
    sport = port_of(post, wire.UDP)
    for size in _FRAGMENTS if sport is not None else ():
        talk, port = scene.answers(post, sport or 0), scene.ingress(post)
        what = f"in fragments of {size} bytes for {post.label} from {post.backend.name} by {port}"
        found = [
            scene.judged(f"udp answer {what}, {nth} of 3", port, piece, "fragment")
            for nth, piece in enumerate(craft.in_pieces(talk, wire.UDP, 3 * size - 13, size), 1)
        ]
        yield from found[:-1] if found[0].kind == "drop" != found[-1].kind else found
