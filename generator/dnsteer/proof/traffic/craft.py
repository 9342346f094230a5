# SPDX-License-Identifier: Apache-2.0
"""Build the frames that clients and backends send, each of them unique.

Scapy builds one frame of each layout and one DNS message of each kind; all others are copies with their own addresses,
ports, numbers and names, and with new checksums.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from functools import cache
from hashlib import shake_128
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from scapy.layers.dns import DNS, DNSQR, DNSRR
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet import fragment as fragment_ipv4
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment
from scapy.layers.inet6 import fragment6 as fragment_ipv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from dnsteer.proof.reference import wire
from dnsteer.spec.model.spec import Spec

_IPV4_CLIENTS = int(IPv4Address("198.18.0.1")), 2**17 - 2
_IPV4_SPREAD = 50021  # a prime that does not divide the number of addresses: each comes up once
_IPV6_CLIENTS = int(IPv6Address("2001:2::"))
_SPREAD = 0x9E3779B97F4A7C15  # odd: multiplying by it permutes the 64-bit numbers, and changes many bits at each step
_EXAMPLES = {4: ("192.0.2.1", "192.0.2.2"), 6: ("2001:db8::1", "2001:db8::2")}
_LABEL = "q00000000"
_QUESTION = f"{_LABEL}.check.dnsteer.example."
_NAMED = re.compile(rb"q[0-9a-f]{8}(?=\x05check)")
_PAYLOAD_END = 16  # bytes
IPV4_FRAGMENT, IPV6_FRAGMENT = 1480, 1232
"""Bytes of payload in a fragment."""


def version_of(address: bytes) -> int:
    """Return the IP version of a packed address."""
    return 4 if len(address) == 4 else 6


def address_text(address: bytes) -> str:
    """Return a packed IP address as text."""
    return str(ip_address(address))


@dataclass(frozen=True)
class Headers:
    """Addresses and ports of a query or an answer. Addresses are packed; a query has a *serial* number of its own.

    *vlan* is the VLAN of the frame's tag, 0 for no tag; a frame that is laid out with another tag has that.
    """

    to_mac: bytes
    from_mac: bytes
    source: bytes
    destination: bytes
    sport: int
    dport: int
    serial: int
    vlan: int = 0

    @property
    def version(self) -> int:
        return version_of(self.source)


class Clients:
    """Assigns client addresses and serial numbers; skips addresses that the spec uses."""

    def __init__(self, spec: Spec) -> None:
        backends = [backend for pool in spec.pools.values() for backend in pool.backends]
        self._taken = {
            *(address.packed for vip in spec.vips.values() for address in vip.addresses),
            *(address.packed for address in spec.switch.gateways),
            *(backend.ipv4.packed for backend in backends if backend.ipv4),
            *(backend.ipv6.packed for backend in backends if backend.ipv6),
        }
        self._serial = 0

    def next(self, version: int, *, scattered: bool = False) -> tuple[int, bytes]:
        """Return the next serial number and client address. IPv4 addresses repeat after 2**17 - 2.

        They are consecutive, or *scattered*, so that each differs from the next in many bits, as IPv6 addresses always do.
        """
        while True:
            self._serial += 1
            if version == 4:
                first, count = _IPV4_CLIENTS
                step = _IPV4_SPREAD if scattered else 1
                address = (first + self._serial * step % count).to_bytes(4, "big")
            else:
                subnet, host = self._serial & 0xFFFF, self._serial * _SPREAD & (2**64 - 1)
                address = (_IPV6_CLIENTS | subnet << 64 | host).to_bytes(16, "big")
            if address not in self._taken:
                return self._serial, address

    def is_taken(self, address: bytes) -> bool:
        """Whether the spec uses an address."""
        return address in self._taken

    def unused_address(self, version: int) -> bytes:
        """Return an unused address of a documentation network."""
        network = int(ip_address("203.0.113.1" if version == 4 else "2001:db8:ffff::1"))
        width = 4 if version == 4 else 16
        while (address := network.to_bytes(width, "big")) in self._taken:
            network += 1
        return address


class Layout:
    """The headers of a kind of frame, UDP, TCP or echo, as scapy lays them out; `frame` makes one with its own values."""

    def __init__(self, head: bytes) -> None:
        packet = wire.parse(head)
        self._head, self._l3, self._l4 = head, packet.l3, packet.l4
        self._version, self._protocol = 4 if packet.ethertype == wire.IPV4 else 6, packet.protocol
        self._has_tag = packet.tags > 0

    def frame(self, headers: Headers, payload: bytes) -> bytes:
        """Return a frame with these addresses, ports and serial number, and this payload."""
        l3, l4 = self._l3, self._l4
        out = bytearray(self._head + payload)
        out[0:12] = headers.to_mac + headers.from_mac
        if self._version == 4:
            struct.pack_into("!HH", out, l3 + 2, len(out) - l3, headers.serial & 0xFFFF)
            out[l3 + 12 : l3 + 20] = headers.source + headers.destination
        else:
            struct.pack_into("!H", out, l3 + 4, len(out) - l3 - 40)
            out[l3 + 8 : l3 + 40] = headers.source + headers.destination
        if self._protocol == wire.UDP:
            struct.pack_into("!HHH", out, l4, headers.sport, headers.dport, len(out) - l4)
        elif self._protocol == wire.TCP:
            struct.pack_into("!HHI", out, l4, headers.sport, headers.dport, headers.serial)
        else:
            struct.pack_into("!HH", out, l4 + 4, headers.serial & 0xFFFF, headers.serial >> 16)
        wire.write_checksums(out)
        return bytes(out) if self._has_tag else in_vlan(bytes(out), headers.vlan)


def layout(version: int, transport: Packet, **parts: Any) -> Layout:
    """The layout that `scapy_frame` gives a frame; *transport* is without payload."""
    source, destination = (ip_address(text).packed for text in _EXAMPLES[version])
    return Layout(scapy_frame(Headers(bytes(6), bytes(6), source, destination, 0, 0, 0), transport, **parts))


@cache
def _usual(version: int, protocol: int) -> Layout:
    return layout(version, UDP() if protocol == wire.UDP else TCP(flags="PA", window=502))


@cache
def _message(answer: bool) -> bytes:
    question = DNSQR(qname=_QUESTION, qtype="A")
    if not answer:
        return bytes(DNS(rd=1, qd=question))
    record = DNSRR(rrname=_QUESTION, type="A", ttl=60, rdata="192.0.2.1")
    return bytes(DNS(qr=1, aa=1, rd=1, qd=question, an=record))


def dns_message(serial: int, protocol: int, *, answer: bool = False) -> bytes:
    """Return a DNS query, or the answer to it, for a name that holds *serial*; with its length in front over TCP."""
    label = b"q%08x" % serial
    message = struct.pack("!H", serial & 0xFFFF) + _message(answer)[2:].replace(_LABEL.encode(), label)
    return message if protocol == wire.UDP else struct.pack("!H", len(message)) + message


def identity(data: bytes) -> bytes:
    """Return the bytes of a frame that identify it after its headers were rewritten.

    It is the serial number in the name that its DNS message asks for, or else the end of its payload.
    """
    named = _NAMED.search(data)
    return named[0] if named else data[-_PAYLOAD_END:]


def filler(serial: int, length: int) -> bytes:
    """Return bytes that look random and are the same for the same *serial*."""
    return shake_128(b"%d" % serial).digest(length)


def segment(headers: Headers, protocol: int, payload: bytes) -> bytes:
    """Return a frame with a UDP or TCP packet that is not fragmented."""
    return _usual(headers.version, protocol).frame(headers, payload)


def query(headers: Headers, protocol: int) -> bytes:
    """Return a frame with a DNS query."""
    return segment(headers, protocol, dns_message(headers.serial, protocol))


def reply_headers(query: bytes, gateway_mac: bytes, serial: int) -> Headers:
    """The headers of the answer to a query as its backend got it; the backend answers by its gateway."""
    packet = wire.parse(query)
    ports = packet.dport, packet.sport
    return Headers(gateway_mac, packet.data[0:6], packet.destination, packet.source, *ports, serial, packet.vlan)


def in_vlan(data: bytes, vlan: int) -> bytes:
    """Return the frame with a tag of a VLAN in front of others; as it is for 0."""
    return data[:12] + struct.pack("!HH", 0x8100, vlan) + data[12:] if vlan else data


def in_snap(data: bytes) -> bytes:
    """Return the frame as IEEE 802.2 has it: a length in place of the type, which follows in an LLC and SNAP header."""
    at = wire.parse(data).l3 - 2
    return data[:at] + struct.pack("!H", len(data) - at + len(wire.SNAP)) + wire.SNAP + data[at:]


def without_checksum(data: bytes) -> bytes:
    """Return the frame with a UDP checksum of zero, which means none."""
    at = wire.parse(data).l4 + 6
    return data[:at] + b"\0\0" + data[at + 2 :]


@cache
def _fragment_headers(version: int, protocol: int, length: int, step: int) -> tuple[bytes, ...]:
    """Ethernet to fragment header of each fragment of *step* bytes, for a transport segment of *length*."""
    ethernet = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
    payload = Raw(bytes(length))
    if version == 4:
        whole = ethernet / IP(src="192.0.2.1", dst="192.0.2.2", proto=protocol) / payload
        return tuple(bytes(each)[:34] for each in fragment_ipv4(whole, step))
    whole = ethernet / IPv6(src="2001:db8::1", dst="2001:db8::2") / IPv6ExtHdrFragment(id=1, nh=protocol) / payload
    return tuple(bytes(each)[:62] for each in fragment_ipv6(whole, len(ethernet) + 48 + step))


def fragments(headers: Headers, protocol: int, length: int, step: int = 0) -> list[bytes]:
    """Return the frames of a datagram with *length* bytes of payload, in fragments of *step* bytes each, or large ones."""
    whole = wire.parse(segment(replace(headers, vlan=0), protocol, filler(headers.serial, length)))
    left = whole.data[whole.l4 :]
    addresses = 26 if headers.version == 4 else 22
    step = step or (IPV4_FRAGMENT if headers.version == 4 else IPV6_FRAGMENT)
    frames = []
    for head in _fragment_headers(headers.version, protocol, len(left), step):
        out = bytearray(head)
        out[0:12] = headers.to_mac + headers.from_mac
        out[addresses : addresses + 2 * len(headers.source)] = headers.source + headers.destination
        if headers.version == 4:
            struct.pack_into("!H", out, 18, headers.serial & 0xFFFF)
            struct.pack_into("!H", out, 24, 0)
            struct.pack_into("!H", out, 24, wire.checksum(bytes(out[14:34])))
        else:
            struct.pack_into("!I", out, 58, headers.serial)
        frames.append(in_vlan(bytes(out) + left[:step], headers.vlan))
        left = left[step:]
    return frames


def aimed(headers: Headers, slot: int, slots: int, client_prefix: int) -> Headers:
    """Return the headers of a query for one of *slots* slots: by the source port, or by a client's prefix."""
    if not client_prefix:
        return replace(headers, sport=source_port(slot, slots, headers.serial))
    beyond = 8 * len(headers.source) - client_prefix
    address = int.from_bytes(headers.source, "big")
    address ^= ((address >> beyond) % slots ^ slot) << beyond
    return replace(headers, source=address.to_bytes(len(headers.source), "big"))


def source_port(slot: int, slots: int, serial: int) -> int:
    """Return one of the source ports, none below 1024, that belong to a slot of a pool by source port."""
    lowest = -(-512 // slots)
    rounds = 32768 // slots
    turn = lowest + serial * 40503 % (rounds - lowest) if rounds > lowest else 0
    return (turn * slots + slot) * 2 + (serial >> 1) % 2


def scapy_frame(
    headers: Headers,
    transport: Packet,
    *,
    tag: Packet | None = None,
    between: Packet | None = None,
    **fields: object,
) -> bytes:
    """Return a frame laid out by scapy: a VLAN *tag*, IP header *fields*, and headers *between* IP and *transport*."""
    source, destination = address_text(headers.source), address_text(headers.destination)
    network = (
        IP(src=source, dst=destination, **{"id": headers.serial & 0xFFFF, **fields})
        if headers.version == 4
        else IPv6(src=source, dst=destination, **fields)
    )
    data = bytes(
        stacked(Ether(dst=headers.to_mac, src=headers.from_mac), copied(tag), network, copied(between), transport)
    )
    return data if tag is not None else in_vlan(data, headers.vlan)


def copied(layer: Packet | None) -> Packet | None:
    """Copy a layer that goes into several packets."""
    return None if layer is None else layer.copy()


def stacked(outermost: Packet, *layers: Packet | None) -> Packet:
    """Put layers into one another; scapy's `/` copies all of them each time, which takes longer than to make them."""
    for layer in layers:
        if layer is not None:
            outermost.add_payload(layer)  # to its innermost payload
    return outermost
