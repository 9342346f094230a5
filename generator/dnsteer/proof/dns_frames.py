# SPDX-License-Identifier: Apache-2.0
"""A client's query and the answer to it, as frames. Without scapy, which takes memory that a daemon should not use."""

from __future__ import annotations

import struct

from dnsteer.proof.reference import wire
from dnsteer.proof.reference.topology import packed_mac
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Protocol
from dnsteer.spec.model.types import Address
from dnsteer.spec.networks import own_vlan

_ROUTER_MAC = "02:00:00:00:00:fe"
_QUESTION = b"\x07example\x03com\x00" + struct.pack("!HH", 1, 1)
_QUERY = struct.pack("!6H", 0, 0x0100, 1, 0, 0, 0) + _QUESTION
_NO_RECORDS = struct.pack("!6H", 0, 0x8100, 1, 0, 0, 0) + _QUESTION
_NUMBERS = {Protocol.UDP: wire.UDP, Protocol.TCP: wire.TCP}
_ETHERTYPES = {4: wire.IPV4, 16: wire.IPV6}
_SYN, _SYN_ACK, _WINDOW = 0x02, 0x12, 8192


def query_frame(
    loaded: Loaded, client: Address, sport: int, vip: Address, port: int, protocol: Protocol, uplink: str = ""
) -> bytes:
    """Return the frame of a DNS query as a router sends it to the balancer, with the tag of an uplink; over TCP, the SYN."""
    macs = packed_mac(loaded.spec.switch.mac) + packed_mac(_ROUTER_MAC)
    data = _frame(macs, client.packed, vip.packed, (sport, port), _NUMBERS[protocol], answer=False)
    return _in_vlan(data, own_vlan(loaded.spec.switch, uplink))


def answer_frame(
    to_mac: bytes,
    from_mac: bytes,
    source: Address,
    destination: Address,
    ports: tuple[int, int],
    protocol: Protocol,
    vlan: int = 0,
) -> bytes:
    """Return the frame of an answer with packed MAC addresses, *ports* source first; over TCP, the SYN and ACK."""
    data = _frame(to_mac + from_mac, source.packed, destination.packed, ports, _NUMBERS[protocol], answer=True)
    return _in_vlan(data, vlan)


def _in_vlan(data: bytes, vlan: int) -> bytes:
    return data[:12] + struct.pack("!HH", 0x8100, vlan) + data[12:] if vlan else data


def _frame(
    macs: bytes, source: bytes, destination: bytes, ports: tuple[int, int], protocol: int, *, answer: bool
) -> bytes:
    message = (_NO_RECORDS if answer else _QUERY) if protocol == wire.UDP else b""
    if protocol == wire.UDP:
        transport = struct.pack("!4H", *ports, 8 + len(message), 0)
    else:
        transport = struct.pack("!HHIIBBHHH", *ports, 0, 0, 5 << 4, _SYN_ACK if answer else _SYN, _WINDOW, 0, 0)
    header = wire.ipv4_header if len(source) == 4 else wire.ipv6_header
    payload = transport + message
    out = bytearray(macs + struct.pack("!H", _ETHERTYPES[len(source)]))
    out += header(0, len(payload), protocol, source, destination) + payload
    wire.write_checksums(out)
    return bytes(out)
