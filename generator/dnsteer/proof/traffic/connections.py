# SPDX-License-Identifier: Apache-2.0
"""TCP connections of clients to the services that keep theirs, and single packets of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from scapy.layers.inet import TCP

from dnsteer.proof.reference import wire
from dnsteer.proof.reference.outcome import Frame
from dnsteer.proof.reference.service import AddressService
from dnsteer.proof.traffic import craft, icmp_errors
from dnsteer.proof.traffic.craft import Headers
from dnsteer.proof.traffic.senders import Senders, Vector

_LEAST, _TRIES = 4, 8
"""Connections to each service, and for each of its backends how many are looked at for one to it."""
_MOST_SERVICES = 2000
"""Services to which connections are made: those of more VIPs have the same flows."""


class Connection(NamedTuple):
    """A connection to a service by an uplink."""

    service: AddressService
    uplink: str
    headers: Headers


def connections(senders: Senders) -> list[Connection]:
    """Connections of new clients, to each backend of each service where the slot can be told."""
    kept = [service for service in senders.reference.services.values() if service.keeps]
    return [found for service in kept[:_MOST_SERVICES] for found in _to(senders, service)]


def _to(senders: Senders, service: AddressService) -> list[Connection]:
    found: list[Connection] = []
    reached: set[str] = set()
    for _ in range(_TRIES * len(service.owners)):
        uplink = senders.next_uplink()
        one = Connection(service, uplink, senders.query_headers(service, uplink))
        if not service.selection.predicts_slot:
            found.append(one)
            continue
        (vector,) = segments([one], "S")
        owner = service.slots[service.selection.slot(wire.parse(vector.data), service)].name
        if len(found) < _LEAST or owner not in reached:
            found.append(one)
        reached.add(owner)
        if len(reached) == len(service.owners) and len(found) >= _LEAST:
            break
    return found


def segments(found: Iterable[Connection], flags: str) -> list[Vector]:
    """A packet of each connection with these TCP flags, by the letters of scapy; by uplinks."""
    out = []
    for service, uplink, headers in found:
        payload = b"" if "S" in flags else craft.dns_message(headers.serial, wire.TCP)
        data = _layout(service.version, flags).frame(headers, payload)
        name = f"{flags} of a connection to {service.label}, client port {headers.sport}, by {uplink}"
        out.append(Vector(name, uplink, data, "connection"))
    return sorted(out, key=lambda vector: vector.port)


def errors_about(senders: Senders, found: Iterable[Connection]) -> list[Vector]:
    """An ICMP error of a router about an answer of each connection; by uplinks."""
    out = []
    for service, uplink, headers in found:
        name = f"ICMP error about a connection to {service.label}, client port {headers.sport}, by {uplink}"
        out.append(Vector(name, uplink, icmp_errors.about(senders, uplink, headers), "connection"))
    return sorted(out, key=lambda vector: vector.port)


def answer_to_begin(begin: Vector, delivered: Frame, gateway_mac: bytes) -> Vector:
    """The SYN-ACK of the backend to which a SYN was *delivered*, by the port that it left by."""
    sequence = wire.parse(begin.data).tcp_sequence
    headers = craft.reply_headers(delivered.data, gateway_mac, sequence)
    data = craft.layout(headers.version, TCP(flags="SA", ack=sequence + 1)).frame(headers, b"")
    return Vector(f"answer to {begin.name}", delivered.port, data, "connection")


@cache
def _layout(version: int, flags: str) -> craft.Layout:
    return craft.layout(version, TCP(flags=flags))
