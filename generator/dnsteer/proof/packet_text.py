# SPDX-License-Identifier: Apache-2.0
"""Describe packets as text: a one-line summary, and the fields in which two packets differ."""

from __future__ import annotations

from collections.abc import Iterator

from scapy.layers.dns import DNSQR
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet


def packet_summary(data: bytes) -> str:
    """A frame in one line: MACs, VLAN tags, addresses, ports, and the question of a DNS query."""
    packet = Ether(data)
    macs = f"{packet.src} > {packet.dst}"
    for layer in (packet.getlayer(Dot1Q, nth) for nth in (1, 2)):
        if layer is not None:
            macs += f" VLAN {layer.vlan}" + (f" priority {layer.prio}" if layer.prio else "")
    network = packet
    while network and not isinstance(network, (IP, IPv6)):
        network = network.payload
    if not network:
        return f"{macs} {packet.payload.summary()}"
    addresses = f"{macs}, {_addresses(network)}"
    while isinstance(network.payload, (IP, IPv6)):
        network = network.payload
        addresses += f", carrying {_addresses(network)}"
    inside = _in_tunnel(network)
    if inside is not None:
        return f"{addresses}, {inside[0]} key {inside[1]}: {packet_summary(inside[2])}"
    transport = packet.getlayer(UDP) or packet.getlayer(TCP)
    if transport is None:
        return f"{addresses}, {network.payload.summary()}"
    kind = "udp" if isinstance(transport, UDP) else "tcp"
    question = f", DNS {_printable(packet[DNSQR].qname)}" if packet.haslayer(DNSQR) else ""
    return f"{addresses}, {kind} {transport.sport} > {transport.dport}{question}"


_OVER_UDP = {4789: "vxlan", 6081: "geneve"}
_LEAST_FRAME = 34  # bytes: Ethernet and IPv4


def _in_tunnel(network: Packet) -> tuple[str, int, bytes] | None:
    """The kind of a tunnel, its key, and the frame inside; None for what is none."""
    payload = bytes(network.payload)
    protocol = network.proto if network.version == 4 else network.nh
    kind = "gre" if protocol == 47 else ""
    if protocol == 17 and isinstance(network.payload, UDP):
        kind, payload = _OVER_UDP.get(network.payload.dport, ""), payload[8:]
    if not kind or len(payload) < 8 + _LEAST_FRAME:
        return None
    key = payload[4:8] if kind == "gre" else payload[4:7]
    return kind, int.from_bytes(key, "big"), payload[8:]


def _addresses(network: Packet) -> str:
    ttl, tos = (network.ttl, network.tos) if network.version == 4 else (network.hlim, network.tc)
    return f"{network.src} > {network.dst} ttl {ttl}" + (f" tos 0x{tos:x}" if tos else "")


def _printable(name: bytes) -> str:
    """Return a question's name, or "(no name)" if it is unsafe on a terminal: bytes that are not DNS may parse as one."""
    text = name.decode(errors="replace")
    return text if text.isprintable() and "\ufffd" not in text else "(no name)"


def differing_fields(expected: bytes, found: bytes) -> Iterator[str]:
    """Yield a line for each field in which two frames differ."""
    one, two = Ether(expected), Ether(found)
    same = True
    while isinstance(one, Packet) and isinstance(two, Packet) and one and two:
        if type(one) is not type(two):
            yield f"          expected {one.name}, found {two.name}"
            return
        for name in one.fields:
            a, b = one.getfieldval(name), two.fields.get(name)
            if a != b:
                same = False
                yield f"          {one.name}.{name}: expected {a!r}, found {b!r}"
        one, two = one.payload, two.payload
    if same and expected != found:
        at = next(
            (i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), min(len(expected), len(found))
        )
        yield f"          bytes differ from offset {at} on"
