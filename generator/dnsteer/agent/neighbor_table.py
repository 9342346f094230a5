# SPDX-License-Identifier: Apache-2.0
"""The kernel's neighbour table at the port for probes, by netlink (RFC 3549): what it holds, and each change of it.

The kernel does what a neighbour table takes: requests and retries, checks of advertisements, gratuitous ARP. Its messages
are two fixed structures and a list of attributes, so this needs neither a library nor a process of `ip monitor`.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address

from dnsteer.switch.tools import SwitchError

_HEADER, _NEIGHBOR = struct.Struct("=IHHII"), struct.Struct("=BxxxiHBB")  # struct nlmsghdr, struct ndmsg
_NEW, _DELETED, _GET, _ERROR = 28, 29, 30, 2
_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_ROOT | NLM_F_MATCH
_DST, _LLADDR = 1, 2
_GROUP = 1 << 2  # RTMGRP_NEIGH
_AT_ONCE = 256
"""Messages that are read at once: somebody who floods the network with ARP makes them as fast as they are read."""
_REACHABLE, _VALID = 0x02, 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80
"""States: it has answered lately; it has a MAC address (reachable, stale, delay, probe, noarp, permanent)."""


@dataclass(frozen=True)
class TableEntry:
    """What the kernel knows of a neighbour. *mac* is empty while it has not answered, *fresh* means that it just has."""

    port: int
    address: str
    mac: str
    fresh: bool


class NeighborTable:
    """A socket that tells of changes. Raises SwitchError where there is none to be had."""

    def __init__(self) -> None:
        try:
            self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE)
            self.socket.bind((0, _GROUP))
        except OSError as err:
            raise SwitchError(f"the kernel's neighbour table: {err}") from None

    def ask_for_all(self) -> None:
        """Have the kernel send all that it holds. Raises SwitchError."""
        body = bytes(_NEIGHBOR.size)
        try:
            self.socket.send(_HEADER.pack(_HEADER.size + len(body), _GET, _DUMP, 1, 0) + body)
        except OSError as err:
            raise SwitchError(f"the kernel's neighbour table: {err}") from None

    def read(self) -> list[TableEntry]:
        """What has been told since, or the first of it. Where the kernel had to drop messages, it is asked for all again.

        Raises SwitchError.
        """
        found: list[TableEntry] = []
        for _ in range(_AT_ONCE):
            try:
                found += parse_messages(self.socket.recv(1 << 16))
            except BlockingIOError:
                return found
            except OSError as err:
                if err.errno != 105:  # ENOBUFS
                    raise SwitchError(f"the kernel's neighbour table: {err}") from None
                self.ask_for_all()
        return found

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()


def parse_messages(data: bytes) -> Iterator[TableEntry]:
    """The entries that netlink messages are about; those of other kinds are passed over."""
    while len(data) >= _HEADER.size:
        length, kind, *_ = _HEADER.unpack_from(data)
        body, data = data[_HEADER.size : length], data[max(length + 3 & ~3, _HEADER.size) :]
        if kind not in (_NEW, _DELETED) or len(body) < _NEIGHBOR.size:
            continue
        _, port, state, _, _ = _NEIGHBOR.unpack_from(body)
        parts = dict(_attributes(body[_NEIGHBOR.size :]))
        if len(parts.get(_DST, b"")) not in (4, 16):
            continue
        mac = parts.get(_LLADDR, b"")
        known = kind == _NEW and bool(state & _VALID) and len(mac) == 6
        yield TableEntry(
            port, str(ip_address(parts[_DST])), mac.hex(":") if known else "", known and bool(state & _REACHABLE)
        )


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            return
        yield kind, data[4:length]
        data = data[length + 3 & ~3 :]
