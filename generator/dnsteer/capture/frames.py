# SPDX-License-Identifier: Apache-2.0
"""Read the addresses and ports of a frame, and the packet that it carries or quotes."""

from __future__ import annotations

import struct
from dataclasses import dataclass

TCP, UDP = 6, 17
_VLAN = (0x8100, 0x88A8)
_IPV4, _IPV6 = 0x0800, 0x86DD
TUNNELS = (4, 41)
_GRE, _OVER_UDP = 47, (4789, 6081)
_TAGS = (b"\x81\x00", b"\x88\xa8")
"""Protocol numbers of IPv4 and IPv6 in an IP packet."""
_ICMP, _ICMPV6 = 1, 58
_ERRORS = {_ICMP: (3, 4, 5, 11, 12), _ICMPV6: (1, 2, 3, 4)}
_OPTIONS = (0, 43, 60)  # hop-by-hop, routing, destination options
_FRAGMENT = 44
_MAX_HEADERS = 8


@dataclass(frozen=True)
class CapturedPacket:
    """An IP packet. Addresses are 4 or 16 bytes; without ports where it has none, as later fragments.

    *inner* is the packet in a tunnel, or the one that an ICMP error is about, itself perhaps a tunnel; *quoted* tells which.
    *payload* is the offset in the frame of what follows the addresses and options.
    """

    source_mac: bytes
    destination_mac: bytes
    protocol: int
    source: bytes
    destination: bytes
    payload: int
    later: bool = False
    source_port: int | None = None
    destination_port: int | None = None
    inner: CapturedPacket | None = None
    quoted: bool = False


def read_frame(frame: bytes) -> CapturedPacket | None:
    """Read an Ethernet frame; None if it has no IP packet that can be read."""
    try:
        at, kind = 14, int.from_bytes(frame[12:14], "big")
        while kind in _VLAN:
            kind, at = int.from_bytes(frame[at + 2 : at + 4], "big"), at + 4
        return _network(frame, at) if kind in (_IPV4, _IPV6) else None
    except (struct.error, IndexError):
        return None


def _network(frame: bytes, at: int, *, errors: bool = True, tunnels: bool = True) -> CapturedPacket | None:
    """Read an IP packet, and what ICMP *errors* quote and *tunnels* carry."""
    version = frame[at] >> 4
    later = False
    if version == 4:
        fragment, protocol = struct.unpack_from("!H", frame, at + 6)[0], frame[at + 9]
        source, destination = struct.unpack_from("4s4s", frame, at + 12)
        later, at = bool(fragment & 0x1FFF), at + 4 * (frame[at] & 15)
    elif version == 6:
        protocol = frame[at + 6]
        source, destination = struct.unpack_from("16s16s", frame, at + 8)
        at += 40
        for _ in range(_MAX_HEADERS):
            if protocol == _FRAGMENT and not later:
                later = bool(struct.unpack_from("!H", frame, at + 2)[0] & 0xFFF8)
                protocol, at = frame[at], at + 8
            elif protocol in _OPTIONS and not later:
                protocol, at = frame[at], at + 8 * (frame[at + 1] + 1)
            else:
                break
    else:
        return None
    source_port = destination_port = inner = None
    quoted = False
    if not later and protocol in (TCP, UDP) and len(frame) >= at + 4:
        source_port, destination_port = struct.unpack_from("!HH", frame, at)
        if protocol == UDP and destination_port in _OVER_UDP and tunnels:
            inner = _inner_frame(frame, at + 16)
    elif not later and len(frame) > at:
        if protocol in TUNNELS and tunnels:
            inner = _inner(frame, at, tunnels=False)
        elif protocol == _GRE and tunnels:
            inner = _inner_frame(frame, at + 8)
        elif errors and frame[at] in _ERRORS.get(protocol, ()):
            inner, quoted = _inner(frame, at + 8, tunnels=True), True
    return CapturedPacket(
        frame[6:12], frame[:6], protocol, source, destination, at, later, source_port, destination_port, inner, quoted
    )


def _inner_frame(frame: bytes, at: int) -> CapturedPacket | None:
    """Read the packet of the frame that a tunnel of Open vSwitch carries, which may have a tag with a priority."""
    return _inner(frame, at + (18 if frame[at + 12 : at + 14] in _TAGS else 14), tunnels=False)


def _inner(frame: bytes, at: int, *, tunnels: bool) -> CapturedPacket | None:
    try:
        return _network(frame, at, errors=False, tunnels=tunnels)
    except (struct.error, IndexError):
        return None
