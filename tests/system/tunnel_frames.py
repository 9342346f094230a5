# SPDX-License-Identifier: Apache-2.0
"""Queries in tunnels, as the balancer makes them, and damaged ones; who is at their ends."""

from __future__ import annotations

import struct
from functools import cache

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

SERVER_MAC, BALANCER_MAC = "02:00:00:00:01:01", "02:00:00:00:00:53"
SERVER = {4: "192.0.2.11", 6: "2001:db8::11"}
BALANCER = {4: "192.0.2.1", 6: "2001:db8::1"}
CLIENT = {4: "198.51.100.7", 6: "2001:db8:ffff::7"}
VIP = {4: "203.0.113.53", 6: "2001:db8:53::53"}
REMOTES = ("192.0.2.0/29", "2001:db8::/125")
FAMILIES = {"4in4": (4, 4), "6in4": (6, 4), "4in6": (4, 6), "6in6": (6, 6)}
TAKEN_OFF = tuple(FAMILIES)
ETHERNET = 14


def ethernet() -> Packet:
    return Ether(src=BALANCER_MAC, dst=SERVER_MAC)


def ip(version: int, source: str, destination: str, **fields: object) -> Packet:
    return (IP if version == 4 else IPv6)(src=source, dst=destination, **fields)


def outer(inner: int, version: int, **fields: object) -> Packet:
    """The tunnel's header, as the balancer makes it."""
    protocol = {4: 4, 6: 41}[inner]
    fields = {"proto" if version == 4 else "nh": protocol, **fields}
    return ip(version, str(fields.pop("src", BALANCER[version])), str(fields.pop("dst", SERVER[version])), **fields)


def query(version: int, payload: bytes = b"question", port: int = 40001, **fields: object) -> Packet:
    return ip(version, CLIENT[version], VIP[version], **fields) / UDP(sport=port, dport=53) / Raw(payload)


@cache
def tunneled(family: str, payload: bytes = b"question", **fields: object) -> bytes:
    inner, version = FAMILIES[family]
    return bytes(ethernet() / outer(inner, version, **fields) / query(inner, payload))


def changed(frame: bytes, at: int, value: bytes) -> bytes:
    return frame[:at] + value + frame[at + len(value) :]


def resummed(frame: bytes, at: int = ETHERNET) -> bytes:
    """The frame with the right checksum in the IPv4 header at *at*."""
    header = changed(frame[at : at + (frame[at] & 15) * 4], 10, bytes(2))
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return changed(frame, at + 10, (~total & 0xFFFF).to_bytes(2, "big"))


def without_outer(frame: bytes, family: str) -> bytes:
    """What the kernel is to get: the same MAC addresses, the inner packet's type, and the inner packet."""
    inner, version = FAMILIES[family]
    kind = b"\x08\x00" if inner == 4 else b"\x86\xdd"
    return frame[:12] + kind + frame[ETHERNET + (20 if version == 4 else 40) :]
