# SPDX-License-Identifier: Apache-2.0
"""TCP connections that stay with the backend that they began with (docs/tracking.md), as a table of them."""

from __future__ import annotations

from collections.abc import Iterable

from dnsteer.proof.reference.service import AddressService, TargetBackend
from dnsteer.proof.reference.wire import IPV4, IPV6, TCP, Packet

_SYN = 0x02
_LEAST_QUOTED = {IPV4: 20, IPV6: 40}
"""Bytes of the header of IP of the packet that an error is about."""
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

    def named_in(self, error: Packet) -> tuple[int, str] | None:
        """The VIP's port of the connection that an ICMP error is about, and the backend that it began with; None where none
        is known."""
        found = _named(error) if len(error.data) >= error.l4 + 8 + _LEAST_QUOTED[error.ethertype] else None
        backend = self._backends.get(found) if found is not None else None
        return (found[3], backend) if found is not None and backend is not None else None


def _named(packet: Packet) -> _Connection | None:
    """The connection whose answer an ICMP error has in it, as the client's packets have it (RFC 792, RFC 4443)."""
    inner = packet.data[packet.l4 + 8 :]
    if packet.ethertype == IPV4:
        length, protocol, source, destination = (inner[0] & 15) * 4, inner[9], inner[12:16], inner[16:20]
    else:
        length, protocol, source, destination = 40, inner[6], inner[8:24], inner[24:40]
    ports = inner[length : length + 4]
    if protocol != TCP or len(ports) < 4:
        return None
    return destination, int.from_bytes(ports[2:], "big"), source, int.from_bytes(ports[:2], "big")


def keepers(reached: Iterable[TargetBackend], down: Iterable[str]) -> tuple[TargetBackend, ...]:
    """The backends that keep their connections: those that are not down, drained ones too."""
    out = set(down)
    return tuple(each for each in reached if each.name not in out)


def _connection(packet: Packet) -> _Connection:
    return packet.source, packet.sport, packet.destination, packet.dport
