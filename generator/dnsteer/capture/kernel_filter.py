"""A socket filter (classic BPF) that lets through IP packets from or to some addresses, so that the rest costs little.

It is coarse: `Selection.takes` decides. The kernel takes VLAN tags off a frame before it runs the filter.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Collection, Iterator
from typing import NamedTuple

MAX_ADDRESSES = 100
"""Addresses of a family up to which they are compared; above, all packets of the family pass. The kernel's limit on the
program is 4096 instructions."""
_ALL = 0xFFFFFFFF
_SO_ATTACH_FILTER = 26
_HALF, _WORD, _BYTE, _EQUAL, _JUMP, _RETURN = 0x28, 0x20, 0x30, 0x15, 0x05, 0x06


class Instruction(NamedTuple):
    """One instruction: its code, how many to skip if true and if false, and its operand."""

    code: int
    true: int
    false: int
    operand: int


def filter_program(addresses: Collection[bytes]) -> list[Instruction]:
    """The filter for packets from or to *addresses*, of 4 or 16 bytes; ICMP passes whatever its addresses."""
    four = _family(23, 1, (26, 30), sorted(a for a in addresses if len(a) == 4))
    six = _family(20, 58, (22, 38), sorted(a for a in addresses if len(a) == 16))
    return [
        Instruction(_HALF, 0, 0, 12),
        Instruction(_EQUAL, 0, 1, 0x0800),
        Instruction(_JUMP, 0, 0, 3),
        Instruction(_EQUAL, 0, 1, 0x86DD),
        Instruction(_JUMP, 0, 0, 1 + len(four)),
        Instruction(_RETURN, 0, 0, 0),
        *four,
        *six,
    ]


def _family(protocol_at: int, icmp: int, places: tuple[int, ...], addresses: list[bytes]) -> list[Instruction]:
    if len(addresses) > MAX_ADDRESSES:
        return [Instruction(_RETURN, 0, 0, _ALL)]
    return [
        Instruction(_BYTE, 0, 0, protocol_at),
        Instruction(_EQUAL, 0, 1, icmp),
        Instruction(_RETURN, 0, 0, _ALL),
        *(i for place in places for address in addresses for i in _address(place, address)),
        Instruction(_RETURN, 0, 0, 0),
    ]


def _address(place: int, address: bytes) -> Iterator[Instruction]:
    words = struct.unpack(f"!{len(address) // 4}I", address)
    for n, word in enumerate(words):
        yield Instruction(_WORD, 0, 0, place + 4 * n)
        yield Instruction(_EQUAL, 0, 2 * (len(words) - n) - 1, word)
    yield Instruction(_RETURN, 0, 0, _ALL)


def attach(sock: socket.socket, instructions: Collection[Instruction]) -> None:
    """Let *sock* receive only what the filter lets through. Raises OSError."""
    code = b"".join(struct.pack("HBBI", *each) for each in instructions)
    held = ctypes.create_string_buffer(code, len(code))
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", len(instructions), ctypes.addressof(held)))
