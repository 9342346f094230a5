# SPDX-License-Identifier: Apache-2.0
"""ICMP errors of routers to VIPs: those that say that a packet was too big, as routers send them, and others."""

from __future__ import annotations

from collections.abc import Iterator

from scapy.layers.inet import ICMP, IP, IPOption_Router_Alert, fragment
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6PacketTooBig,
    ICMPv6ParamProblem,
    ICMPv6TimeExceeded,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    PadN,
)
from scapy.layers.l2 import Dot1Q
from scapy.packet import Packet, Raw

from dnsteer.proof.reference import wire
from dnsteer.proof.traffic import craft
from dnsteer.proof.traffic.craft import Headers, address_text, version_of
from dnsteer.proof.traffic.senders import Senders, Vector

_MTU = 1280
_QUOTED = (8, 28, 548)
"""Bytes of the segment that was too big: the least (RFC 792), and as much as gives 576 bytes and less than that."""
_ETHERNET, _PIECE = 14, 32
"""Bytes of an Ethernet header, and of a fragment's payload."""
_UNKNOWN_MAC = bytes.fromhex("02fcfd000001")
_UNREACHABLE_CODES = (0, 1, 3, 5, 13)


def frames(senders: Senders) -> Iterator[Vector]:
    """Errors to each address of VIPs, and for one of each family what else resembles them."""
    seen: set[tuple[int, bool]] = set()
    for address in dict.fromkeys(a.packed for vip in senders.spec.vips.values() for a in vip.addresses):
        uplinks = senders.uplinks if senders.per_service is None else [senders.next_uplink()]
        name, copied = address_text(address), False
        for uplink, quoted in ((uplink, quoted) for uplink in uplinks for quoted in _QUOTED):
            data = _error(senders, uplink, address, quoted=quoted)
            vector = senders.vector(f"ICMP error with {quoted} bytes to {name} by {uplink}", uplink, data, "error")
            copied = vector.kind == "error"
            yield vector
        category = len(address), copied
        if category not in seen:
            seen.add(category)
            for what, port, data in _unusual(senders, address):
                yield senders.vector(f"ICMP error {what} to {name} by {port}", port, data, "error")


def about(senders: Senders, uplink: str, query: Headers) -> bytes:
    """The error of a router about an answer to a client's *query* over TCP, with the least that routers quote of it.

    Over IPv6 they quote as much as they can (RFC 4443, 2.4); by less than a header of TCP the tracker knows no connection.
    """
    version, quoted = version_of(query.source), _QUOTED[0] if len(query.source) == 4 else _QUOTED[1]
    segment = query.dport.to_bytes(2, "big") + query.sport.to_bytes(2, "big") + craft.filler(query.serial, quoted)
    packet = _header(version, query.destination, query.source) + segment[:quoted]
    message = ICMP(type=3, code=4, nexthopmtu=_MTU) if version == 4 else ICMPv6PacketTooBig(mtu=_MTU)
    vlan = senders.vlan_asked(uplink, query.destination)
    headers = Headers(
        senders.mac, senders.neighbor_mac(uplink), query.source, query.destination, 0, 0, query.serial, vlan
    )
    return craft.scapy_frame(headers, message / Raw(packet))


def _header(version: int, source: bytes, client: bytes) -> bytes:
    """The header of IP of a segment that is too big."""
    if version == 4:
        return wire.ipv4_header(0, 4000, wire.TCP, source, client, wire.DONT_FRAGMENT)
    return wire.ipv6_header(0, 4000, wire.TCP, source, client)


def _unusual(senders: Senders, address: bytes) -> Iterator[tuple[str, str, bytes]]:
    uplink = senders.next_uplink()
    vlan = senders.vlan_asked(uplink, address)
    found = {
        "about a packet of somebody else": _error(senders, uplink, address, of=senders.clients.unused_address(4)),
        "with nothing of the packet": _error(senders, uplink, address, quoted=-1),
        "with a part of the packet's header": _error(senders, uplink, address, quoted=-10),
        "with a wrong checksum": _error(
            senders, uplink, address, message={"chksum" if len(address) == 4 else "cksum": 0x5353}
        ),
        "with a VLAN tag": _error(senders, uplink, address, tag=Dot1Q(vlan=100, prio=5)),
        "with a priority tag": _error(senders, uplink, address, tag=Dot1Q(vlan=0, prio=3)),
        "in 802.2 SNAP": craft.in_vlan(craft.in_snap(_error(senders, uplink, address, vlan=0)), vlan),
        "to the gateways' MAC": _error(senders, uplink, address, mac=senders.gateway_mac),
        "to another MAC": _error(senders, uplink, address, mac=_UNKNOWN_MAC),
    }
    if len(address) == 4:
        found["with IP options"] = _error(senders, uplink, address, options=[IPOption_Router_Alert()])
        whole = IP(_error(senders, uplink, address, quoted=_QUOTED[1], vlan=0, flags=0)[_ETHERNET:])
        to, of = senders.mac, senders.neighbor_mac(uplink)
        for nth, piece in enumerate(fragment(whole, fragsize=_PIECE), 1):
            found[f"in fragment {nth}"] = craft.in_vlan(to + of + b"\x08\x00" + bytes(piece), vlan)
        for code in _UNREACHABLE_CODES:
            found[f"of code {code}"] = _error(senders, uplink, address, message={"code": code})
        for kind in (0, 4, 5, 11, 12):
            found[f"of type {kind}"] = _error(senders, uplink, address, message={"type": kind})
    else:
        found["of code 1"] = _error(senders, uplink, address, message={"code": 1})
        found["with destination options"] = _error(
            senders, uplink, address, between=IPv6ExtHdrDestOpt(options=[PadN(optdata=bytes(4))])
        )
        found["as an atomic fragment"] = _error(senders, uplink, address, between=IPv6ExtHdrFragment(id=1))
        found["in a first fragment"] = _error(senders, uplink, address, between=IPv6ExtHdrFragment(id=2, m=1))
        for other in (ICMPv6DestUnreach(code=4), ICMPv6TimeExceeded(), ICMPv6ParamProblem()):
            found[f"of another type ({other.name})"] = _error(senders, uplink, address, other=other)
    for name, data in found.items():
        yield name, uplink, data
    for bit, beside in senders.addresses_beside(address):
        yield f"to an address that differs in bit {bit}", uplink, _error(senders, uplink, beside)
    for port in senders.ports:
        yield "of a backend", port, _error(senders, port, address)


def _error(
    senders: Senders,
    port: str,
    address: bytes,
    *,
    quoted: int = 8,
    of: bytes | None = None,
    mac: bytes | None = None,
    message: dict[str, int] | None = None,
    other: Packet | None = None,
    tag: Packet | None = None,
    vlan: int | None = None,
    between: Packet | None = None,
    **fields: object,
) -> bytes:
    """Return the error of a router about an answer over TCP from *address*, or *of* another one, to a new client.

    *quoted* is how many bytes of the segment it has; less than 0: so much is missing of the header before it, all for -1.
    It is in *vlan*, or in that where the address is asked for.
    """
    version, vlan = version_of(address), senders.vlan_asked(port, address) if vlan is None else vlan
    serial, client = senders.clients.next(version)
    headers = Headers(mac or senders.mac, senders.neighbor_mac(port), client, address, 0, 0, serial, vlan)
    source = of if of is not None and len(of) == len(address) else address
    segment = (53).to_bytes(2, "big") + craft.filler(serial, max(quoted, 0))
    header = _header(version, source, client)
    packet = header + segment[:quoted] if quoted >= 0 else header[: quoted if quoted < -1 else 0]
    if version == 4:
        found: Packet = ICMP(**{"type": 3, "code": 4, "nexthopmtu": _MTU, **(message or {})})
    elif other is not None:
        found = other
    else:
        found = ICMPv6PacketTooBig(**{"mtu": _MTU, **(message or {})})
    return craft.scapy_frame(headers, found / Raw(packet), tag=tag, between=between, **fields)
