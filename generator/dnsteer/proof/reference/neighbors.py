# SPDX-License-Identifier: Apache-2.0
"""The packets that the switch answers itself: ARP requests, neighbour solicitations and echo requests."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from dnsteer.proof.reference.wire import (
    ARP,
    ICMPV6,
    IPV4,
    IPV6,
    Fragment,
    Packet,
    checksum,
    patch_checksum,
    pseudo_header,
)

_ARP_ETHERNET_IPV4 = bytes.fromhex("0001080006040001")  # hardware, protocol, their lengths, operation 1: request
_ALL_NODES_MAC = bytes.fromhex("333300000001")
_ALL_NODES = bytes.fromhex("ff020000000000000000000000000001")
_UNSPECIFIED = bytes(16)
_ROUTER, _SOLICITED, _OVERRIDE = 0x80, 0x40, 0x20
_TARGET_LINK_LAYER = 2
_ECHO = {IPV4: (8, 0), IPV6: (128, 129)}  # request, reply


def arp_target(packet: Packet) -> bytes | None:
    """Return the address that an ARP request asks for; None for other ARP."""
    data, l3 = packet.data, packet.l3
    if data[l3 : l3 + 8] != _ARP_ETHERNET_IPV4 or len(data) < l3 + 28:
        return None
    return data[l3 + 24 : l3 + 28]


def announced(packet: Packet) -> bytes | None:
    """Return the address whose MAC address a packet tells: an ARP reply, an ARP request of its own, or an advertisement."""
    data, l3, l4 = packet.data, packet.l3, packet.l4
    if data[l3 : l3 + 7] == _ARP_ETHERNET_IPV4[:-1] and packet.ethertype == ARP and len(data) >= l3 + 28:
        sender, target, operation = data[l3 + 14 : l3 + 18], data[l3 + 24 : l3 + 28], data[l3 + 7]
        return sender if operation == 2 or (operation == 1 and sender == target) else None
    if packet.ethertype != IPV6 or packet.protocol != ICMPV6 or packet.fragment is not Fragment.NONE:
        return None
    if data[l4 : l4 + 2] != b"\x88\0" or data[packet.l3 + 7] != 255 or l4 + 24 > packet.end:
        return None
    return data[l4 + 8 : l4 + 24]


def arp_reply(packet: Packet, mac: bytes) -> bytes:
    """Answer an ARP request: the address asked for is at *mac*."""
    data, l3 = packet.data, packet.l3
    ethernet = data[6:12] + mac + data[12:l3]
    sender = mac + data[l3 + 24 : l3 + 28]
    target = data[l3 + 8 : l3 + 18]
    return ethernet + _ARP_ETHERNET_IPV4[:-1] + b"\2" + sender + target + data[l3 + 28 :]


def solicited(packet: Packet) -> bytes | None:
    """Return the target of a valid neighbour solicitation; None for other packets."""
    data, l4 = packet.data, packet.l4
    if packet.ethertype != IPV6 or packet.protocol != ICMPV6 or packet.fragment is not Fragment.NONE:
        return None
    if data[l4 : l4 + 2] != b"\x87\0" or data[packet.l3 + 7] != 255 or l4 + 24 > packet.end:
        return None
    return data[l4 + 8 : l4 + 24]


def advertisements(packet: Packet, mac: bytes, *, router: bool) -> Iterator[bytes]:
    """Answer a neighbour solicitation: the target is at *mac*.

    Behind extension headers the checksum may be right, or made with the first next header and all of the payload's length.
    """
    yield _advertisement(packet, mac, router, ICMPV6, packet.end - packet.l4)
    if packet.l4 > packet.l3 + 40:
        yield _advertisement(packet, mac, router, packet.data[packet.l3 + 6], packet.end - packet.l3 - 40)


def _advertisement(packet: Packet, mac: bytes, router: bool, protocol: int, length: int) -> bytes:
    data, l3, l4, end = packet.data, packet.l3, packet.l4, packet.end
    target = data[l4 + 8 : l4 + 24]
    flags = _OVERRIDE | (_ROUTER if router else 0)
    if packet.source == _UNSPECIFIED:  # duplicate address detection
        to_mac, to = _ALL_NODES_MAC, _ALL_NODES
    else:
        to_mac, to = data[6:12], packet.source
        flags |= _SOLICITED
    message = bytearray(struct.pack("!BBHI", 136, 0, 0, flags << 24) + target + data[l4 + 24 : end])
    if (
        len(message) >= 32 and message[25] == 1
    ):  # the first option, whatever it was; a solicitation may carry a nonce alone
        message[24:32] = bytes((_TARGET_LINK_LAYER, 1)) + mac
    struct.pack_into("!H", message, 2, checksum(pseudo_header(target, to, protocol, length) + message))
    header = data[l3 : l3 + 7] + b"\xff" + target + to
    return to_mac + mac + data[12:l3] + header + data[l3 + 40 : l4] + bytes(message) + data[end:]


def is_echo_request(packet: Packet) -> bool:
    """Whether the packet is an unfragmented ICMP or ICMPv6 echo request."""
    return (
        packet.fragment is Fragment.NONE
        and packet.protocol == (ICMPV6 if packet.ethertype == IPV6 else 1)
        and packet.data[packet.l4 : packet.l4 + 2] == bytes((_ECHO[packet.ethertype][0], 0))
    )


def echo_reply(packet: Packet, mac: bytes) -> bytes:
    """Answer an echo request from *mac*."""
    out = bytearray(packet.data)
    out[0:6], out[6:12] = packet.data[6:12], mac
    request, reply = _ECHO[packet.ethertype]
    out[packet.l4] = reply
    patch_checksum(out, packet.l4 + 2, bytes((request, 0)), bytes((reply, 0)))
    hops = packet.l3 + (8 if packet.ethertype == IPV4 else 7)
    addresses = packet.l3 + (12 if packet.ethertype == IPV4 else 8)
    out[hops] = 64
    if packet.ethertype == IPV4:
        patch_checksum(out, packet.l3 + 10, packet.data[hops : hops + 2], bytes(out[hops : hops + 2]))
    both = packet.destination + packet.source
    out[addresses : addresses + len(both)] = both
    return bytes(out)
