"""Packets put into others, and turned from one IP version into the other (docs/forwarding.md, section 5)."""

from __future__ import annotations

import struct

from dnsteer.proof.reference.wire import CHECKSUM_AT, IPV4, IPV6, TCP, UDP, Packet, checksum, patch_sum

PREFIX = bytes.fromhex("0064ff9b") + bytes(8)
"""Where IPv4 addresses are in IPv6: 64:ff9b::/96 (RFC 6052)."""
_HOPS = 64
_IPV4_HEADER, _IPV6_HEADER = 20, 40
_WITHIN = {IPV4: 4, IPV6: 41}
"""IP protocol of a packet in a packet."""


def unfit(packet: Packet) -> str:
    """Say why the extension takes a packet for damaged, or for a fragment; nothing when it does not."""
    data, l3, l4 = packet.data, packet.l3, packet.l4
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


def untranslatable(packet: Packet) -> str:
    """Say why a packet does not become one of the other IP version; nothing when it does."""
    if packet.l4 - packet.l3 != (_IPV4_HEADER if packet.ethertype == IPV4 else _IPV6_HEADER):
        return "IPv4 options" if packet.ethertype == IPV4 else "IPv6 extension headers"
    if packet.protocol == UDP and packet.data[packet.l4 + 6 : packet.l4 + 8] == b"\0\0":
        return "no UDP checksum"
    return ""


def tunneled(packet: Packet, to_mac: bytes, from_mac: bytes, source: bytes, destination: bytes) -> bytes:
    """Return a frame with all that follows the Ethernet header of *packet* in an IP packet of its own."""
    inside = packet.data[packet.l3 :]
    protocol = _WITHIN[packet.ethertype]
    if len(destination) == 4:
        header = _ipv4_header(0, len(inside), protocol, source, destination)
        return to_mac + from_mac + struct.pack("!H", IPV4) + header + inside
    header = _ipv6_header(0, len(inside), protocol, source, destination)
    return to_mac + from_mac + struct.pack("!H", IPV6) + header + inside


def to_ipv6(packet: Packet, to_mac: bytes, from_mac: bytes, destination: bytes) -> bytes:
    """Return the IPv4 packet as one over IPv6, from its sender in PREFIX to *destination*."""
    data = packet.data
    header = _ipv6_header(
        data[packet.l3 + 1], packet.end - packet.l4, packet.protocol, PREFIX + packet.source, destination
    )
    return _converted(packet, to_mac + from_mac, IPV6, header, header[8:40])


def to_ipv4(packet: Packet, to_mac: bytes, from_mac: bytes, source: bytes) -> bytes:
    """Return the IPv6 packet as one over IPv4, from *source* to the address that its destination in PREFIX stands for."""
    traffic_class = int.from_bytes(packet.data[packet.l3 : packet.l3 + 2], "big") >> 4 & 0xFF
    destination = packet.destination[len(PREFIX) :]
    header = _ipv4_header(traffic_class, packet.end - packet.l4, packet.protocol, source, destination)
    return _converted(packet, to_mac + from_mac, IPV4, header, header[12:20])


def _converted(packet: Packet, macs: bytes, ethertype: int, header: bytes, addresses: bytes) -> bytes:
    """The frame with another IP header. VLAN tags stay, as does what follows the IP packet."""
    data = packet.data
    rest = bytearray(data[packet.l4 :])
    old = packet.source + packet.destination
    width = max(len(old), len(addresses))  # zeros more change no sum
    at = CHECKSUM_AT[packet.protocol]
    patch_sum(rest, at, old.rjust(width, b"\0"), addresses.rjust(width, b"\0"))
    if packet.protocol == UDP and rest[at : at + 2] == b"\0\0":
        rest[at : at + 2] = b"\xff\xff"
    return macs + data[12 : packet.l3 - 2] + struct.pack("!H", ethertype) + header + bytes(rest)


def _ipv4_header(tos: int, length: int, protocol: int, source: bytes, destination: bytes) -> bytes:
    """Identification and flags are zero."""
    out = bytearray(struct.pack("!BBHIBBH", 0x45, tos, _IPV4_HEADER + length, 0, _HOPS, protocol, 0))
    out += source + destination
    struct.pack_into("!H", out, 10, checksum(bytes(out)))
    return bytes(out)


def _ipv6_header(traffic_class: int, length: int, protocol: int, source: bytes, destination: bytes) -> bytes:
    """The flow label is zero."""
    return struct.pack("!IHBB", 6 << 28 | traffic_class << 20, length, protocol, _HOPS) + source + destination
