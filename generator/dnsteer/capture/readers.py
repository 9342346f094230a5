# SPDX-License-Identifier: Apache-2.0
"""Read the packets that a mirror puts out: from a network device, or from a port of a switch without devices.

A socket filter (classic BPF) on the device passes IP packets from or to some addresses only, so that the rest costs little.
It is coarse: `PacketSelection.matches` decides. The kernel takes VLAN tags off a frame before it runs the filter.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import socket
import struct
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from dnsteer.switch.tools import SwitchError

MAX_READ = 4096
"""Packets that are read in one turn."""
LARGEST = 1 << 17
_BUFFER = 64 << 20
_SOL_PACKET, _AUXDATA, _STATISTICS, _IGNORE_OUTGOING = 263, 8, 6, 23
_SO_RCVBUFFORCE, _SO_TIMESTAMPNS = 33, 35
_ALL_PROTOCOLS = 3
_TAGGED, _TAG_KIND = 1 << 4, 1 << 6
_AUX = struct.Struct("IIIHHHH")  # struct tpacket_auxdata: status, len, snaplen, mac, net, vlan_tci, vlan_tpid
_TIME = struct.Struct("qq")
MAX_ADDRESSES = 100
"""Addresses of a family up to which they are compared; above, all packets of the family pass. The kernel's limit on the
program is 4096 instructions."""
_ALL = 0xFFFFFFFF
_SO_ATTACH_FILTER = 26
_HALF, _WORD, _BYTE, _EQUAL, _JUMP, _RETURN = 0x28, 0x20, 0x30, 0x15, 0x05, 0x06


@dataclass(frozen=True)
class CapturedFrame:
    """A packet: its time in nanoseconds since 1970, direction (in or out), bytes, and length before it was shortened."""

    time: int
    direction: str
    data: bytes
    length: int


class MirrorReader(Protocol):
    """Reads the packets of one mirror."""

    def fileno(self) -> int:
        """For waiting."""

    def start(self, port: str) -> None:
        """Begin to read what leaves by *port*, which is open. Raises SwitchError."""

    def read(self) -> list[CapturedFrame]:
        """Return the packets that are there, at most MAX_READ. Raises SwitchError when the port is gone."""

    def dropped(self) -> int:
        """Return how many packets were lost since there was no room for them."""

    def close(self) -> None:
        """End."""


class DeviceReader:
    """Reads from a network device of this machine. Raises PermissionError without the right to (CAP_NET_RAW)."""

    def __init__(self, direction: str, kernel_filter: Collection[FilterInstruction]) -> None:
        self._direction = direction
        try:
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # bound to nothing, it receives nothing
        except PermissionError as err:
            raise PermissionError(err.errno, "the right to read packets is missing", "capture") from None
        self._socket.setblocking(False)
        attach_filter(self._socket, kernel_filter)
        for level, option in (
            (_SOL_PACKET, _AUXDATA),
            (_SOL_PACKET, _IGNORE_OUTGOING),
            (socket.SOL_SOCKET, _SO_TIMESTAMPNS),
        ):
            self._socket.setsockopt(level, option, 1)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
        except PermissionError:  # as large as the machine allows then
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        self._dropped = 0

    def fileno(self) -> int:
        """The socket."""
        return self._socket.fileno()

    def start(self, port: str) -> None:
        """Bind to the port's device."""
        try:
            self._socket.bind((port, _ALL_PROTOCOLS))
        except OSError as err:
            raise SwitchError(f"{port}: {err.strerror}") from None

    def read(self) -> list[CapturedFrame]:
        """Return the packets that are there."""
        out: list[CapturedFrame] = []
        while len(out) < MAX_READ:
            try:
                data, more, _, _ = self._socket.recvmsg(LARGEST, 256)
            except BlockingIOError:
                break
            except OSError as err:
                if err.errno in (errno.ENETDOWN, errno.ENODEV, errno.ENXIO):
                    raise SwitchError("the port of the mirror is gone or down; the capture ends") from None
                raise
            out.append(self._captured(data, more))
        return out

    def _captured(self, data: bytes, more: list[tuple[int, int, bytes]]) -> CapturedFrame:
        stamp, length = 0, len(data)
        for level, kind, value in more:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
                seconds, rest = _TIME.unpack_from(value)
                stamp = seconds * 10**9 + rest
            elif level == _SOL_PACKET and kind == _AUXDATA:
                status, length, _, _, _, tag, tag_kind = _AUX.unpack_from(value)
                if status & _TAGGED:  # which the kernel has taken off
                    kind_of_tag = tag_kind if status & _TAG_KIND else 0x8100
                    data, length = data[:12] + struct.pack("!HH", kind_of_tag, tag) + data[12:], length + 4
        return CapturedFrame(stamp or time.time_ns(), self._direction, data, length)

    def dropped(self) -> int:
        """Return the kernel's count."""
        with contextlib.suppress(OSError):
            _, dropped = struct.unpack("II", self._socket.getsockopt(_SOL_PACKET, _STATISTICS, 8))
            self._dropped += dropped  # reading sets the kernel's count back
        return self._dropped

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class StreamReader:
    """Reads from a port of type dummy, of a switch without devices: its frames come by a stream, each after its length."""

    def __init__(self, direction: str, path: Path, timeout: float) -> None:
        self._direction = direction
        self._timeout = timeout
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()
        self._socket = self._listening
        self._rest = b""

    def fileno(self) -> int:
        """The socket."""
        return self._socket.fileno()

    def start(self, port: str) -> None:
        """Wait until the switch has connected."""
        self._listening.settimeout(self._timeout)
        try:
            self._socket, _ = self._listening.accept()
        except TimeoutError:
            raise SwitchError(f"the switch did not connect its port {port} within {self._timeout:g} s") from None
        self._socket.setblocking(False)

    def read(self) -> list[CapturedFrame]:
        """Return the frames that are there."""
        try:
            data = self._socket.recv(1 << 20)
        except BlockingIOError:
            return []
        if not data:
            raise SwitchError("the port of the mirror is gone; the capture ends")
        self._rest += data
        out, at = list[CapturedFrame](), 0
        while len(self._rest) >= at + 2:
            end = at + 2 + int.from_bytes(self._rest[at : at + 2], "big")
            if len(self._rest) < end:
                break
            out.append(CapturedFrame(time.time_ns(), self._direction, self._rest[at + 2 : end], end - at - 2))
            at = end
        self._rest = self._rest[at:]
        return out

    def dropped(self) -> int:
        """Return nothing: what such a switch drops it does not count."""
        return 0

    def close(self) -> None:
        """Close the sockets."""
        self._socket.close()
        self._listening.close()


class FilterInstruction(NamedTuple):
    """One instruction: its code, how many to skip if true and if false, and its operand."""

    code: int
    true: int
    false: int
    operand: int


def filter_program(addresses: Collection[bytes]) -> list[FilterInstruction]:
    """The filter for packets from or to *addresses*, of 4 or 16 bytes; ICMP passes whatever its addresses."""
    four = _family(23, 1, (26, 30), sorted(a for a in addresses if len(a) == 4))
    six = _family(20, 58, (22, 38), sorted(a for a in addresses if len(a) == 16))
    return [
        FilterInstruction(_HALF, 0, 0, 12),
        FilterInstruction(_EQUAL, 0, 1, 0x0800),
        FilterInstruction(_JUMP, 0, 0, 3),
        FilterInstruction(_EQUAL, 0, 1, 0x86DD),
        FilterInstruction(_JUMP, 0, 0, 1 + len(four)),
        FilterInstruction(_RETURN, 0, 0, 0),
        *four,
        *six,
    ]


def _family(protocol_at: int, icmp: int, places: tuple[int, ...], addresses: list[bytes]) -> list[FilterInstruction]:
    if len(addresses) > MAX_ADDRESSES:
        return [FilterInstruction(_RETURN, 0, 0, _ALL)]
    return [
        FilterInstruction(_BYTE, 0, 0, protocol_at),
        FilterInstruction(_EQUAL, 0, 1, icmp),
        FilterInstruction(_RETURN, 0, 0, _ALL),
        *(i for place in places for address in addresses for i in _address(place, address)),
        FilterInstruction(_RETURN, 0, 0, 0),
    ]


def _address(place: int, address: bytes) -> Iterator[FilterInstruction]:
    words = struct.unpack(f"!{len(address) // 4}I", address)
    for n, word in enumerate(words):
        yield FilterInstruction(_WORD, 0, 0, place + 4 * n)
        yield FilterInstruction(_EQUAL, 0, 2 * (len(words) - n) - 1, word)
    yield FilterInstruction(_RETURN, 0, 0, _ALL)


def attach_filter(sock: socket.socket, instructions: Collection[FilterInstruction]) -> None:
    """Let *sock* receive only what the filter lets through. Raises OSError."""
    code = b"".join(struct.pack("HBBI", *each) for each in instructions)
    held = ctypes.create_string_buffer(code, len(code))
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", len(instructions), ctypes.addressof(held)))
