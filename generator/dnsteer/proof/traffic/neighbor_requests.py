"""Frames that ask who is where: ARP requests, neighbour solicitations and echo requests, the plain and the odd."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scapy.layers.inet import ICMP, IPOption_Router_Alert
from scapy.layers.inet6 import (
    ICMPv6EchoRequest,
    ICMPv6ND_NS,
    ICMPv6NDOptSrcLLAddr,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    PadN,
)
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet, Raw
from scapy.utils6 import in6_getnsma, in6_getnsmac

from dnsteer.proof.traffic import craft
from dnsteer.proof.traffic.craft import Talk, address_text, version_of
from dnsteer.proof.traffic.senders import Scene, Vector

BROADCAST = "ff:ff:ff:ff:ff:ff"
_STRANGE = "02:fc:fd:00:00:01"
_BETWEEN = (
    ("as an atomic fragment", IPv6ExtHdrFragment(id=1)),
    ("as an atomic fragment with a reserved bit", IPv6ExtHdrFragment(id=2, res2=1)),
    ("with destination options", IPv6ExtHdrDestOpt(options=[PadN(optdata=bytes(4))])),
)


def mac_text(mac: bytes) -> str:
    """Spell a packed MAC address."""
    return mac.hex(":")


def arp(
    scene: Scene, port: str, address: bytes, *, to: str = BROADCAST, tag: Packet | None = None, **fields: object
) -> bytes:
    """Return an ARP request for *address* by a new asker behind *port*."""
    _, asker = scene.clients.take(4)
    mac = mac_text(scene.neighbor_mac(port))
    frame = Ether(dst=to, src=mac)
    if tag is not None:
        frame /= tag
    told = {"op": 1, "hwsrc": mac, "psrc": address_text(asker), "pdst": address_text(address), **fields}
    return bytes(frame / ARP(**told))


def solicitation(
    scene: Scene,
    port: str,
    address: bytes,
    *,
    option: bool = True,
    unspecified: bool = False,
    to: str | None = None,
    tag: Packet | None = None,
    between: Packet | None = None,
    message: Packet | None = None,
    **fields: object,
) -> bytes:
    """Return a neighbour solicitation for *address* by a new asker behind *port*; *message* stands in for it."""
    _, asker = scene.clients.take(6)
    mac = mac_text(scene.neighbor_mac(port))
    group = in6_getnsma(address)
    frame = Ether(dst=to or in6_getnsmac(group), src=mac)
    if tag is not None:
        frame /= tag
    header = {"src": "::" if unspecified else address_text(asker), "dst": address_text(group), "hlim": 255}
    frame /= IPv6(**{**header, **fields})
    if between is not None:
        frame /= between
    frame /= ICMPv6ND_NS(tgt=address_text(address)) if message is None else message
    return bytes(frame / ICMPv6NDOptSrcLLAddr(lladdr=mac) if option else frame)


def echo(
    scene: Scene,
    port: str,
    address: bytes,
    mac: bytes,
    *,
    tag: Packet | None = None,
    between: Packet | None = None,
    length: int = 56,
    message: Mapping[str, object] | None = None,
    **fields: object,
) -> bytes:
    """Return an echo request for *address* at *mac* by a new client behind *port*."""
    serial, client = scene.clients.take(version_of(address))
    talk = Talk(mac, scene.neighbor_mac(port), client, address, 0, 0, serial)
    kind = ICMP if talk.version == 4 else ICMPv6EchoRequest
    body = {"id": serial & 0xFFFF, "seq": serial >> 16, **(message or {})}
    return craft.special(talk, kind(**body) / Raw(craft.noise(serial, length)), tag=tag, between=between, **fields)


def _places(scene: Scene) -> Iterator[tuple[bytes, str]]:
    """Each address that the switch tells, and the ports at which to ask for it."""
    for address in dict.fromkeys(address.packed for vip in scene.spec.vips.values() for address in vip.addresses):
        for port in scene.uplinks if scene.per_service is None else [scene.uplink()]:
            yield address, port
    for address in scene.gateways:
        for port in [*scene.uplinks, *scene.ports]:
            yield address, port


def neighbors(scene: Scene) -> Iterator[Vector]:
    """Who has each VIP and gateway?"""
    seen: set[tuple[int, bool]] = set()
    for address, port in _places(scene):
        where = f"{address_text(address)} at {port}"
        sort = len(address), address in scene.gateways
        if len(address) == 4:
            yield Vector(f"ARP request for {where}", port, arp(scene, port, address), "neighbor")
        else:
            with_option = solicitation(scene, port, address)
            yield Vector(f"solicitation for {where}", port, with_option, "neighbor")
            plain = solicitation(scene, port, address, option=False, to=mac_text(scene.mac))
            yield Vector(f"solicitation without option for {where}", port, plain, "neighbor")
            probe = solicitation(scene, port, address, option=False, unspecified=True)
            yield Vector(f"duplicate address detection of {where}", port, probe, "neighbor")
            nonce = ICMPv6ND_NS(tgt=address_text(address)) / Raw(b"\x0e\x01nonce!")  # RFC 7527, as Linux sends it
            probe = solicitation(scene, port, address, option=False, unspecified=True, message=nonce)
            yield Vector(f"duplicate address detection with a nonce of {where}", port, probe, "neighbor")
        if sort not in seen:
            seen.add(sort)
            yield from _odd_neighbors(scene, port, address, where)


def _odd_neighbors(scene: Scene, port: str, address: bytes, where: str) -> Iterator[Vector]:
    tag, priority = Dot1Q(vlan=100, prio=5), Dot1Q(vlan=0, prio=3)
    if len(address) == 4:
        found = {
            "ARP request to another MAC": arp(scene, port, address, to=_STRANGE),
            "tagged ARP request": arp(scene, port, address, tag=tag),
            "ARP request with a priority tag": arp(scene, port, address, tag=priority),
            "padded ARP request": arp(scene, port, address) + bytes(18),
            "ARP probe": arp(scene, port, address, psrc="0.0.0.0", hwsrc="02:fc:fd:00:00:02"),
        }
    else:
        found = {
            "solicitation to another MAC": solicitation(scene, port, address, to=_STRANGE),
            "tagged solicitation": solicitation(scene, port, address, tag=tag),
            "solicitation with a priority tag": solicitation(scene, port, address, tag=priority),
            "solicitation with traffic class and flow label": solicitation(scene, port, address, tc=0xC0, fl=0xABCDE),
            "unicast solicitation": solicitation(scene, port, address, dst=address_text(address)),
            **{f"solicitation {name}": solicitation(scene, port, address, between=header) for name, header in _BETWEEN},
        }
    for name, data in found.items():
        yield scene.judged(f"{name} for {where}", port, data, "odd")


def echoes(scene: Scene) -> Iterator[Vector]:
    """Echo requests to each VIP and gateway."""
    seen: set[tuple[int, bool]] = set()
    for address, port in _places(scene):
        mac = scene.gateway_mac if address in scene.gateways else scene.mac
        where = f"{address_text(address)} at {port}"
        vector = scene.judged(f"echo request to {where}", port, echo(scene, port, address, mac), "echo")
        yield vector
        sort = len(address), address in scene.gateways
        if vector.kind == "echo" and sort not in seen:
            seen.add(sort)
            yield from _odd_echoes(scene, port, address, mac, where)


def _odd_echoes(scene: Scene, port: str, address: bytes, mac: bytes, where: str) -> Iterator[Vector]:
    found = {
        "tagged echo request": echo(scene, port, address, mac, tag=Dot1Q(vlan=100, prio=5)),
        "echo request with a priority tag": echo(scene, port, address, mac, tag=Dot1Q(vlan=0, prio=3)),
        "large odd echo request": echo(scene, port, address, mac, length=1401),
    }
    if len(address) == 4:
        found["echo request of one hop"] = echo(scene, port, address, mac, ttl=1)
        found["echo request of 255 hops and class 0xbb"] = echo(scene, port, address, mac, ttl=255, tos=0xBB)
        found["echo request with IP options"] = echo(scene, port, address, mac, options=[IPOption_Router_Alert()])
    else:
        found["echo request of one hop"] = echo(scene, port, address, mac, hlim=1)
        found["echo request of 255 hops and class 0xbb"] = echo(
            scene, port, address, mac, hlim=255, tc=0xBB, fl=0xABCDE
        )
        for name, header in _BETWEEN:
            found[f"echo request {name}"] = echo(scene, port, address, mac, between=header)
    for name, data in found.items():
        yield scene.judged(f"{name} to {where}", port, data, "odd")
