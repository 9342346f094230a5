# SPDX-License-Identifier: Apache-2.0
"""TCP connections that stay with the backend that they began with (docs/tracking.md), as a table of them."""

from __future__ import annotations

from collections.abc import Iterable

from dnsteer.proof.reference.service import AddressService, TargetBackend
from dnsteer.proof.reference.wire import Packet

_SYN = 0x02
_Connection = tuple[bytes, int, bytes, int]


def begins_connection(packet: Packet) -> bool:
    """Whether a TCP packet has SYN."""
    return bool(packet.tcp_flags & _SYN)


class ConnectionReference:
    """The backend of each connection that began, by client and VIP with their ports."""

    def __init__(self) -> None:
        self._backends: dict[_Connection, str] = {}

    def begin(self, packet: Packet, backend: str) -> None:
        """A connection begins by *packet*, or anew, with a backend."""
        self._backends[_connection(packet)] = backend

    def keeper(self, packet: Packet, service: AddressService) -> TargetBackend | None:
        """The backend to which a packet goes because its connection does; None where its slot says it."""
        if not service.keeps or begins_connection(packet):
            return None
        name = self._backends.get(_connection(packet))
        return next((each for each in service.keepers if each.name == name), None)


def keepers(reached: Iterable[TargetBackend], down: Iterable[str]) -> tuple[TargetBackend, ...]:
    """The backends that keep their connections: those that are not down, drained ones too."""
    out = set(down)
    return tuple(each for each in reached if each.name not in out)


def _connection(packet: Packet) -> _Connection:
    return packet.source, packet.sport, packet.destination, packet.dport
