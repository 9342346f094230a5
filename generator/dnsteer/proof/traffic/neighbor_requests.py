# SPDX-License-Identifier: Apache-2.0
"""ARP requests, neighbour solicitations and echo requests, in usual and unusual forms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from scapy.layers.inet import ICMP, IPOption_Router_Alert
from scapy.layers.inet6 import (
    ICMPv6EchoRequest,
    ICMPv6ND_NS,
    ICMPv6NDOptSrcLLAddr,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrRouting,
    PadN,
)
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet, Raw
from scapy.utils6 import in6_getnsma, in6_getnsmac

from dnsteer.proof.reference import wire
from dnsteer.proof.traffic import craft
from dnsteer.proof.traffic.craft import Headers, address_text, version_of
from dnsteer.proof.traffic.senders import Senders, Vector

BROADCAST = "ff:ff:ff:ff:ff:ff"
_UNKNOWN_MAC = "02:fc:fd:00:00:01"
_NONCE = b"\x0e\x01nonce!"
"""An option, RFC 7527, as Linux sends it."""
_BETWEEN = (
    ("as an atomic fragment", IPv6ExtHdrFragment(id=1)),
    ("as an atomic fragment with a reserved bit", IPv6ExtHdrFragment(id=2, res2=1)),
    ("with destination options", IPv6ExtHdrDestOpt(options=[PadN(optdata=bytes(4))])),
    ("with a routing header", IPv6ExtHdrRouting(addresses=["2001:db8:ffff::99"], segleft=1)),
)


def mac_text(mac: bytes) -> str:
    """Return a packed MAC address as text."""
    return mac.hex(":")


def mac_bytes(text: str) -> bytes:
    """Return a MAC address, packed."""
    return bytes.fromhex(text.replace(":", ""))


def arp(
    senders: Senders,
    port: str,
    address: bytes,
    *,
    to: str = BROADCAST,
    tag: Packet | None = None,
    vlan: int | None = None,
    **fields: object,
) -> bytes:
    """Return an ARP request for *address* by a new asker behind *port*, in *vlan*, or in that where it is asked for."""
    vlan = senders.vlan_asked(port, address) if vlan is None else vlan
    _, asker = senders.clients.next(4)
    mac = senders.neighbor_mac(port)
    if tag is None and not fields:
        frame = bytearray(_usual_arp())
        frame[0:12] = mac_bytes(to) + mac
        frame[22:32], frame[38:42] = mac + asker, address
        return craft.in_vlan(bytes(frame), vlan)
    values = {"op": 1, "hwsrc": mac_text(mac), "psrc": address_text(asker), "pdst": address_text(address), **fields}
    data = bytes(craft.stacked(Ether(dst=to, src=mac_text(mac)), craft.copied(tag), ARP(**values)))
    return data if tag is not None else craft.in_vlan(data, vlan)


@cache
def _usual_arp() -> bytes:
    return bytes(
        Ether(dst=BROADCAST, src=_UNKNOWN_MAC) / ARP(op=1, hwsrc=_UNKNOWN_MAC, psrc="192.0.2.1", pdst="192.0.2.2")
    )


def solicitation(
    senders: Senders,
    port: str,
    address: bytes,
    *,
    option: bool = True,
    unspecified: bool = False,
    to: str | None = None,
    nonce: bytes = b"",
    tag: Packet | None = None,
    between: Packet | None = None,
    message: Packet | None = None,
    vlan: int | None = None,
    **fields: object,
) -> bytes:
    """Return a neighbour solicitation for *address* by a new asker behind *port*.

    It is in *vlan*, or in that where the address is asked for. *option* is that of the asker's MAC address, and *nonce*
    another one behind it, as bytes. *message* stands in for the solicitation.
    """
    vlan = senders.vlan_asked(port, address) if vlan is None else vlan
    _, asker = senders.clients.next(6)
    mac, group = senders.neighbor_mac(port), in6_getnsma(address)
    to = to or in6_getnsmac(group)
    if not (tag or between or message or fields):
        frame = bytearray(_usual_solicitation(option, nonce))
        frame[0:12] = mac_bytes(to) + mac
        frame[22:54] = (bytes(16) if unspecified else asker) + group
        frame[62:78] = address
        if option:
            frame[80:86] = mac
        wire.write_checksums(frame)
        return craft.in_vlan(bytes(frame), vlan)
    header = {"src": "::" if unspecified else address_text(asker), "dst": address_text(group), "hlim": 255}
    data = bytes(
        craft.stacked(
            Ether(dst=to, src=mac_text(mac)),
            craft.copied(tag),
            IPv6(**{**header, **fields}),
            craft.copied(between),
            ICMPv6ND_NS(tgt=address_text(address)) if message is None else message.copy(),
            ICMPv6NDOptSrcLLAddr(lladdr=mac_text(mac)) if option else None,
            Raw(nonce) if nonce else None,
        )
    )
    return data if tag is not None else craft.in_vlan(data, vlan)


@cache
def _usual_solicitation(option: bool, nonce: bytes) -> bytes:
    return bytes(
        craft.stacked(
            Ether(dst=BROADCAST, src=_UNKNOWN_MAC),
            IPv6(src="::", dst="::", hlim=255),
            ICMPv6ND_NS(),
            ICMPv6NDOptSrcLLAddr() if option else None,
            Raw(nonce) if nonce else None,
        )
    )


def echo(
    senders: Senders,
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
    serial, client = senders.clients.next(version_of(address))
    vlan = senders.vlan_asked(port, address)
    headers = Headers(mac, senders.neighbor_mac(port), client, address, 0, 0, serial, vlan)
    kind, payload = tuple((message or {}).items()), craft.filler(serial, length)
    if not (tag or between or fields):
        return _plain_echo(headers.version, kind).frame(headers, payload)
    return craft.layout(headers.version, _echo(headers.version, kind), tag=tag, between=between, **fields).frame(
        headers, payload
    )


def _echo(version: int, fields: tuple[tuple[str, object], ...]) -> Packet:
    return (ICMP if version == 4 else ICMPv6EchoRequest)(**dict(fields))


@cache
def _plain_echo(version: int, fields: tuple[tuple[str, object], ...]) -> craft.Layout:
    return craft.layout(version, _echo(version, fields))


def _asked_at(senders: Senders) -> Iterator[tuple[bytes, str]]:
    """Each address that the switch answers for, and the ports at which to ask."""
    for address in dict.fromkeys(address.packed for vip in senders.spec.vips.values() for address in vip.addresses):
        for port in senders.uplinks if senders.per_service is None else [senders.next_uplink()]:
            yield address, port
    for address in [*senders.gateways, *sorted(senders.reference.topology.probe_addresses)]:
        for port in [*senders.uplinks, *senders.ports]:
            yield address, port


def neighbors(senders: Senders) -> Iterator[Vector]:
    """ARP requests and solicitations for each VIP, gateway and address of probes."""
    seen: set[tuple[int, bool]] = set()
    for address, port in _asked_at(senders):
        label = f"{address_text(address)} at {port}"
        category = len(address), address in senders.gateways
        if len(address) == 4:
            yield Vector(f"ARP request for {label}", port, arp(senders, port, address), "neighbor")
        else:
            with_option = solicitation(senders, port, address)
            yield Vector(f"solicitation for {label}", port, with_option, "neighbor")
            plain = solicitation(senders, port, address, option=False, to=mac_text(senders.mac))
            yield Vector(f"solicitation without option for {label}", port, plain, "neighbor")
            probe = solicitation(senders, port, address, option=False, unspecified=True)
            yield Vector(f"duplicate address detection of {label}", port, probe, "neighbor")
            probe = solicitation(senders, port, address, option=False, unspecified=True, nonce=_NONCE)
            yield Vector(f"duplicate address detection with a nonce of {label}", port, probe, "neighbor")
        if category not in seen:
            seen.add(category)
            yield from _unusual_neighbors(senders, port, address, label)


def _unusual_neighbors(senders: Senders, port: str, address: bytes, label: str) -> Iterator[Vector]:
    tag, priority = Dot1Q(vlan=100, prio=5), Dot1Q(vlan=0, prio=3)
    if len(address) == 4:
        found = {
            "ARP request to another MAC": arp(senders, port, address, to=_UNKNOWN_MAC),
            "tagged ARP request": arp(senders, port, address, tag=tag),
            "ARP request with a priority tag": arp(senders, port, address, tag=priority),
            "ARP request in 802.2 SNAP": craft.in_snap(arp(senders, port, address)),
            "padded ARP request": arp(senders, port, address) + bytes(18),
            "ARP probe": arp(senders, port, address, psrc="0.0.0.0", hwsrc="02:fc:fd:00:00:02"),
        }
    else:
        found = {
            "solicitation in 802.2 SNAP": craft.in_snap(solicitation(senders, port, address)),
            "solicitation to another MAC": solicitation(senders, port, address, to=_UNKNOWN_MAC),
            "tagged solicitation": solicitation(senders, port, address, tag=tag),
            "solicitation with a priority tag": solicitation(senders, port, address, tag=priority),
            "solicitation with traffic class and flow label": solicitation(senders, port, address, tc=0xC0, fl=0xABCDE),
            "unicast solicitation": solicitation(senders, port, address, dst=address_text(address)),
            **{
                f"solicitation {name}": solicitation(senders, port, address, between=header)
                for name, header in _BETWEEN
            },
        }
    for name, data in found.items():
        yield senders.vector(f"{name} for {label}", port, data, "unusual")


def echoes(senders: Senders) -> Iterator[Vector]:
    """Echo requests to each VIP and gateway."""
    seen: set[tuple[int, bool]] = set()
    for address, port in _asked_at(senders):
        mac = senders.gateway_mac if address in senders.gateways else senders.mac
        label = f"{address_text(address)} at {port}"
        vector = senders.vector(f"echo request to {label}", port, echo(senders, port, address, mac), "echo")
        yield vector
        category = len(address), address in senders.gateways
        if vector.kind == "echo" and category not in seen:
            seen.add(category)
            yield from _unusual_echoes(senders, port, address, mac, label)


def _unusual_echoes(senders: Senders, port: str, address: bytes, mac: bytes, label: str) -> Iterator[Vector]:
    found = {
        "tagged echo request": echo(senders, port, address, mac, tag=Dot1Q(vlan=100, prio=5)),
        "echo request with a priority tag": echo(senders, port, address, mac, tag=Dot1Q(vlan=0, prio=3)),
        "echo request in 802.2 SNAP": craft.in_snap(echo(senders, port, address, mac)),
        "large echo request of odd length": echo(senders, port, address, mac, length=1401),
    }
    if len(address) == 4:
        found["echo request of one hop"] = echo(senders, port, address, mac, ttl=1)
        found["echo request of 255 hops and class 0xbb"] = echo(senders, port, address, mac, ttl=255, tos=0xBB)
        found["echo request with IP options"] = echo(senders, port, address, mac, options=[IPOption_Router_Alert()])
    else:
        found["echo request of one hop"] = echo(senders, port, address, mac, hlim=1)
        found["echo request of 255 hops and class 0xbb"] = echo(
            senders, port, address, mac, hlim=255, tc=0xBB, fl=0xABCDE
        )
        for name, header in _BETWEEN:
            found[f"echo request {name}"] = echo(senders, port, address, mac, between=header)
    for name, data in found.items():
        yield senders.vector(f"{name} to {label}", port, data, "unusual")
