"""Packets in words: one line each, and what differs between two, field by field."""

from __future__ import annotations

from collections.abc import Iterator

from scapy.layers.l2 import Ether
from scapy.packet import Packet


def summary(data: bytes) -> str:
    """A frame in one line."""
    packet = Ether(data)
    return f"{packet.src} > {packet.dst} {packet.payload.summary()}"


def differences(expected: bytes, found: bytes) -> Iterator[str]:
    """The fields in which two frames differ."""
    one, two = Ether(expected), Ether(found)
    same = True
    while isinstance(one, Packet) and isinstance(two, Packet) and one and two:
        for name in one.fields:
            a, b = one.getfieldval(name), two.fields.get(name)
            if a != b:
                same = False
                yield f"          {one.name}.{name}: expected {a!r}, found {b!r}"
        one, two = one.payload, two.payload
    if same and expected != found:
        at = next((i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), min(len(expected), len(found)))
        yield f"          bytes differ from offset {at} on"
