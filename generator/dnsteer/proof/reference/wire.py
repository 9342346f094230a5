# SPDX-License-Identifier: Apache-2.0
"""Frames as bytes: where the headers are, checksums, and rewriting addresses and ports.

Rewriting patches the bytes that change and leaves all others as they came in. A dissect-and-rebuild library may write a
packet differently from how it read it, and takes a hundred times longer; the tests compare this module with scapy.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum

ARP, IPV4, IPV6 = 0x0806, 0x0800, 0x86DD
"""Ethernet types."""
ICMP, TCP, UDP, FRAGMENT, ICMPV6 = 1, 6, 17, 44, 58
"""IP protocols."""

SNAP = bytes.fromhex("aaaa03000000")
"""LLC and SNAP of IEEE 802.2 for packets with an Ethernet type (RFC 1042), which follows it."""
_LEAST_TYPE = 0x0600
_VLAN_TAGS = frozenset((0x8100, 0x88A8))
_ROUTING = 43
_SEGMENTS = 4
"""The type of segment routing headers."""
_CHAINED = frozenset((0, _ROUTING, 60))  # hop-by-hop options, routing, destination options: one length format
_AUTHENTICATION = 51
_SHORTEST = {UDP: 8, TCP: 20, ICMP: 8, ICMPV6: 8}
CHECKSUM_AT = {UDP: 6, TCP: 16}
"""Offset of the checksum in a transport header, in bytes."""
_ICMP_CHECKSUM_AT = 2
_HOPS = 64
"""TTL or hop limit of new headers."""


class MalformedError(ValueError):
    """A frame that ends too early, or whose headers contradict each other."""


class Fragment(Enum):
    """Whether a packet is a fragment, and which one of its datagram."""

    NONE = "no fragment"
    FIRST = "first fragment"
    LATER = "later fragment"


@dataclass
class Packet:
    """A frame and the places of its headers. Addresses are packed; ports are -1 where there are none.

    *vlan* is the VLAN ID of the outer tag, 0 without one; *tags* is the number of tags. *fragment_header*: there is an IPv6
    fragment header, even if the packet is not fragmented. *atomic*: there is one, but the packet is the entire datagram
    (RFC 6946). *more*: the IPv4 flag "more fragments" is set. *snap*: the Ethernet type is in a SNAP header. *last*: the
    last destination, where an IPv6 routing header has segments left; else empty.
    """

    data: bytes
    ethertype: int
    l3: int
    end: int = 0
    protocol: int = -1
    l4: int = 0
    fragment: Fragment = Fragment.NONE
    fragment_header: bool = False
    more: bool = False
    atomic: bool = False
    snap: bool = False
    last: bytes = b""
    source: bytes = b""
    destination: bytes = b""
    sport: int = -1
    dport: int = -1
    vlan: int = 0
    tags: int = 0

    @property
    def tcp_flags(self) -> int:
        """The eight flags of a TCP packet, CWR to FIN."""
        return self.data[self.l4 + 13]

    @property
    def tcp_sequence(self) -> int:
        """The sequence number of a TCP packet."""
        return int.from_bytes(self.data[self.l4 + 4 : self.l4 + 8], "big")

    @property
    def payload(self) -> bytes:
        """The bytes after the UDP or TCP header, without the frame's padding."""
        header = 8 if self.protocol == UDP else self.data[self.l4 + 12] >> 4 << 2
        return self.data[self.l4 + header : self.end]


def parse(data: bytes) -> Packet:
    """Find the headers of a frame of Ethernet II or IEEE 802.2 SNAP; VLAN tags are skipped. Raises MalformedError."""
    if len(data) < 14:
        raise MalformedError("shorter than an Ethernet header")
    at, tags = 12, 0
    ethertype = int.from_bytes(data[at : at + 2], "big")
    while ethertype in _VLAN_TAGS:
        at, tags = at + 4, tags + 1
        ethertype = int.from_bytes(data[at : at + 2], "big")
    vlan = int.from_bytes(data[14:16], "big") & 0xFFF if tags else 0
    snap = (
        ethertype < _LEAST_TYPE and data[at + 2 : at + 8] == SNAP
    )  # else it is the length of a frame of something else
    if snap:
        at += 8
        ethertype = int.from_bytes(data[at : at + 2], "big")
    packet = Packet(data, ethertype, at + 2, vlan=vlan, tags=tags, snap=snap)
    if ethertype == IPV4:
        _parse_ipv4(packet)
    elif ethertype == IPV6:
        _parse_ipv6(packet)
    else:
        packet.end = len(data)
        return packet
    if packet.fragment is not Fragment.LATER and packet.protocol in _SHORTEST:
        if packet.l4 + _SHORTEST[packet.protocol] > packet.end:
            raise MalformedError("shorter than its transport header")
        if packet.protocol in CHECKSUM_AT:
            packet.sport, packet.dport = struct.unpack_from("!HH", data, packet.l4)
    return packet


def _parse_ipv4(packet: Packet) -> None:
    data, l3 = packet.data, packet.l3
    if len(data) < l3 + 20 or data[l3] >> 4 != 4:
        raise MalformedError("no IPv4 header")
    header = (data[l3] & 15) * 4
    total, _, place = struct.unpack_from("!HHH", data, l3 + 2)
    if not 20 <= header <= total <= len(data) - l3:
        raise MalformedError("IPv4 lengths that do not fit the frame")
    packet.end = l3 + total
    packet.l4 = l3 + header
    packet.protocol = data[l3 + 9]
    packet.source, packet.destination = data[l3 + 12 : l3 + 16], data[l3 + 16 : l3 + 20]
    packet.fragment = Fragment.LATER if place & 0x1FFF else Fragment.FIRST if place & 0x2000 else Fragment.NONE
    packet.more = bool(place & 0x2000)


def _parse_ipv6(packet: Packet) -> None:
    data, l3 = packet.data, packet.l3
    if len(data) < l3 + 40 or data[l3] >> 4 != 6:
        raise MalformedError("no IPv6 header")
    packet.end = l3 + 40 + int.from_bytes(data[l3 + 4 : l3 + 6], "big")
    if packet.end > len(data):
        raise MalformedError("an IPv6 length that does not fit the frame")
    packet.source, packet.destination = data[l3 + 8 : l3 + 24], data[l3 + 24 : l3 + 40]
    protocol, at = data[l3 + 6], l3 + 40
    while protocol in _CHAINED or protocol in (FRAGMENT, _AUTHENTICATION):
        if at + 8 > packet.end:
            raise MalformedError("shorter than its extension headers")
        if protocol == FRAGMENT:
            place = int.from_bytes(data[at + 2 : at + 4], "big")
            # Offset 0 and no more fragments: a complete datagram with a fragment header. If one of the two reserved bits is
            # set, Open vSwitch nevertheless treats it as a first fragment.
            packet.fragment = Fragment.LATER if place & 0xFFF8 else Fragment.FIRST if place else Fragment.NONE
            packet.fragment_header, packet.atomic = True, not place & 0xFFF9
            length = 8
        else:
            length = (data[at + 1] + 2) * 4 if protocol == _AUTHENTICATION else (data[at + 1] + 1) * 8
            if protocol == _ROUTING and data[at + 3]:
                way = data[at + 8 : at + length]  # of segments the last one is the first (RFC 8754)
                packet.last = way[:16] if data[at + 2] == _SEGMENTS else way[-16:]
        protocol, at = data[at], at + length
        if packet.fragment is Fragment.LATER:
            break
    packet.protocol, packet.l4 = protocol, at


def checksum(data: bytes) -> int:
    """Compute the Internet checksum (RFC 1071) of *data*."""
    total = int.from_bytes(data if len(data) % 2 == 0 else data + b"\0", "big")
    return 0xFFFF - _fold(total)


def updated_checksum(old_sum: int, old: bytes, new: bytes) -> int:
    """Update a checksum for changed bytes, by equation 3 of RFC 1624. *old* and *new* have the same, even length."""
    mask = (1 << 8 * len(old)) - 1
    total = (old_sum ^ 0xFFFF) + (int.from_bytes(old, "big") ^ mask) + int.from_bytes(new, "big")
    return 0xFFFF - _fold(total)


def _fold(total: int) -> int:
    # The one's complement sum of the 16-bit words of *total*: 2**16 is 1 modulo 0xFFFF, and only zeros sum to zero.
    return (total - 1) % 0xFFFF + 1 if total else 0


def checksum_variants(packet: Packet, *, of_destination: bool = False) -> tuple[bool, ...]:
    """The values of `rewritten`'s *stale_checksum* that are valid for a packet (docs/forwarding.md, section 6).

    A destination that is not the last one is no part of the checksum (RFC 8200, 8.1).
    """
    if packet.last and of_destination:
        return (True,)
    return (False, True) if packet.atomic or packet.last else (False,)


def is_later_ipv6_fragment(packet: Packet) -> bool:
    """Whether the packet is an IPv6 fragment after the first, which does not reveal its transport protocol."""
    return packet.fragment is Fragment.LATER and packet.ethertype == IPV6


def header_damage(packet: Packet) -> str:
    """Why the extension treats a packet as damaged or as a fragment; empty when it does not."""
    data, l3, l4 = packet.data, packet.l3, packet.l4
    if packet.snap:
        return "in IEEE 802.2 SNAP"
    if packet.ethertype == IPV4 and checksum(data[l3:l4]):
        return "a wrong IPv4 header checksum"
    if packet.fragment_header:
        return "a fragment header, though of a whole packet"
    room = packet.end - l4
    if packet.protocol == UDP and not 8 <= int.from_bytes(data[l4 + 4 : l4 + 6], "big") <= room:
        return "a UDP length that does not fit the packet"
    if packet.protocol == TCP and not 20 <= (data[l4 + 12] >> 4) * 4 <= room:
        return "a TCP header that does not fit the packet"
    return ""


DONT_FRAGMENT = 0x4000
"""The flag DF, in the 16 bits of an IPv4 header's flags and fragment offset."""


def ipv4_header(tos: int, length: int, protocol: int, source: bytes, destination: bytes, flags: int = 0) -> bytes:
    """Return an IPv4 header for *length* bytes of payload, with identification zero."""
    out = bytearray(struct.pack("!BBHHHBBH", 0x45, tos, 20 + length, 0, flags, _HOPS, protocol, 0))
    out += source + destination
    struct.pack_into("!H", out, 10, checksum(bytes(out)))
    return bytes(out)


def ipv6_header(traffic_class: int, length: int, protocol: int, source: bytes, destination: bytes) -> bytes:
    """Return an IPv6 header for *length* bytes of payload. The flow label is zero."""
    return struct.pack("!IHBB", 6 << 28 | traffic_class << 20, length, protocol, _HOPS) + source + destination


def pseudo_header(source: bytes, destination: bytes, protocol: int, length: int) -> bytes:
    """Return the pseudo-header, which a transport checksum covers in addition to the segment."""
    return source + destination + struct.pack("!II", length, protocol)


def rewritten(
    packet: Packet,
    to_mac: bytes,
    from_mac: bytes,
    *,
    source: tuple[bytes, int] | None = None,
    destination: tuple[bytes, int] | None = None,
    stale_checksum: bool = False,
) -> bytes:
    """Return the frame with new MAC addresses and, if given, a new source or destination address and port.

    *stale_checksum*: the transport checksum is updated for the ports alone, as Open vSwitch does in atomic IPv6 fragments
    and behind routing headers with segments left.
    If not set, checksums are updated incrementally for all changed fields, which also works for fragments, whose payload is
    incomplete. A UDP checksum of zero (none) stays zero. Later fragments have no port to change.
    """
    out = bytearray(packet.data)
    out[0:6], out[6:12] = to_mac, from_mac
    old = new = b""
    first_address = packet.l3 + (12 if packet.ethertype == IPV4 else 8)
    first_port = packet.l4
    for nth, change in enumerate((source, destination)):
        if change is None:
            continue
        address, port = change
        at = first_address + nth * len(address)
        if not stale_checksum:
            old, new = old + out[at : at + len(address)], new + address
        out[at : at + len(address)] = address
        if packet.fragment is not Fragment.LATER:
            at = first_port + nth * 2
            old, new = old + out[at : at + 2], new + port.to_bytes(2, "big")
            out[at : at + 2] = port.to_bytes(2, "big")
    if old:
        _update_checksums(packet, out, old, new)
    return bytes(out)


def _update_checksums(packet: Packet, out: bytearray, old: bytes, new: bytes) -> None:
    if packet.ethertype == IPV4:
        start, stop = packet.l3 + 12, packet.l3 + 20
        patch_checksum(out, packet.l3 + 10, packet.data[start:stop], bytes(out[start:stop]))
    if packet.fragment is Fragment.LATER:
        return
    at = packet.l4 + CHECKSUM_AT[packet.protocol]
    if packet.protocol == UDP and out[at : at + 2] == b"\0\0":
        return
    patch_checksum(out, at, old, new)
    if packet.protocol == UDP and out[at : at + 2] == b"\0\0":
        out[at : at + 2] = b"\xff\xff"


def patch_checksum(out: bytearray, at: int, old: bytes, new: bytes) -> None:
    """Update the checksum at *at* of *out* for bytes that changed from *old* to *new*."""
    struct.pack_into("!H", out, at, updated_checksum(int.from_bytes(out[at : at + 2], "big"), old, new))


def write_checksums(out: bytearray) -> None:
    """Compute the checksums of an unfragmented UDP, TCP or ICMP packet from scratch."""
    packet = parse(bytes(out))
    if packet.ethertype == IPV4:
        struct.pack_into("!H", out, packet.l3 + 10, 0)
        struct.pack_into("!H", out, packet.l3 + 10, checksum(bytes(out[packet.l3 : packet.l4])))
    at = packet.l4 + CHECKSUM_AT.get(packet.protocol, _ICMP_CHECKSUM_AT)
    struct.pack_into("!H", out, at, 0)
    covered = segment = bytes(out[packet.l4 : packet.end])
    if packet.protocol != ICMP:
        to = packet.last or packet.destination
        covered = pseudo_header(packet.source, to, packet.protocol, len(segment)) + segment
    value = checksum(covered)
    struct.pack_into("!H", out, at, 0xFFFF if value == 0 and packet.protocol == UDP else value)
