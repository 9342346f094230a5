# SPDX-License-Identifier: Apache-2.0
"""Test slots that are not predicted: queries that show how they are chosen, and the checks over all those queries."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace

from dnsteer.proof.reference.outcome import Expectation, Frame
from dnsteer.proof.reference.selections import hashes_ports
from dnsteer.proof.reference.service import AddressService
from dnsteer.proof.traffic import craft
from dnsteer.proof.traffic.craft import Headers
from dnsteer.proof.traffic.senders import Senders, Vector

_CHANCE = 1e-9
"""Queries with independent slots may all reach one backend by chance; if that is likelier than this, they prove nothing."""
_MAX_QUERIES = 256
"""Maximum number of queries in a spread group."""
_PORT_SPREAD = 40503  # odd, so that no port comes up twice


def are_spread(service: AddressService, count: int) -> bool:
    """Whether *count* different queries must reach more than one backend, by the extension's choice of slots.

    All of them have one slot where only the destination is hashed.
    """
    varies = service.by_extension and bool(service.selection.distinguishing_fields(service))
    return varies and enough_queries(service, count)


def enough_queries(service: AddressService, count: int) -> bool:
    """Whether *count* queries with independent slots can be distinguished from as many with the same slot."""
    shares = Counter(service.slots)
    return sum((share / len(service.slots)) ** count for share in shares.values()) < _CHANCE


def group_of(service: AddressService) -> str:
    """The spread group of the queries of a service that are all different."""
    return f"the queries for {service.label}"


def same_hash_query(
    senders: Senders, service: AddressService, headers: Headers, turn: int, first: Vector
) -> Iterator[Vector]:
    """Yield a query that shares with the *first* one exactly the fields that the slot is hashed from."""
    fields = service.hash_fields
    if not fields:
        return
    if not hashes_ports(fields):  # then UDP and TCP share the slot
        services = senders.reference.services.values()
        same_address = [s for s in services if (s.vip, s.address) == (service.vip, service.address)]
        service = same_address[turn % len(same_address)]
    uplink = senders.uplinks[(turn + 1) % len(senders.uplinks)]
    other = senders.query_headers(service, uplink)
    if "src_ip" in fields:
        other = replace(other, source=headers.source)
    if "src_port" in fields:
        other = replace(other, sport=headers.sport)
    yield Vector(f"same hash fields as {first.name}", uplink, craft.query(other, service.protocol), "query")


def varied_queries(senders: Senders, service: AddressService) -> Iterator[Vector]:
    """Yield queries that differ only in a field on which their slots must depend.

    Addresses and ports are scattered: for consecutive ones a CRC may choose few slots, perhaps all of one backend.
    """
    count = next((n for n in range(2, _MAX_QUERIES + 1) if enough_queries(service, n)), None)
    if count is None:
        return
    uplink = senders.uplinks[0]
    first = senders.query_headers(service, uplink)
    for name in service.selection.distinguishing_fields(service):
        group = f"queries for {service.label} that differ in {name}"
        for nth in range(count):
            headers = senders.query_headers(service, uplink, scattered=True)
            if name != "src_ip":
                headers = replace(headers, source=first.source)
            sport = (first.sport + nth * _PORT_SPREAD) % 65536 if name == "src_port" else first.sport
            data = craft.query(replace(headers, sport=sport), service.protocol)
            yield Vector(f"{group}, {nth}", uplink, data, "query", group)


@dataclass
class ObservedBackends:
    """Collects the backends reached by queries whose slots are not predicted."""

    _by_hash_key: dict[Hashable, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    _by_spread_group: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, vector: Vector, expected: Expectation, left: Frame) -> None:
        """Record the frame that left for a query."""
        backend = dict(expected.backends).get(left)
        if backend is None:
            return
        if expected.hash_key is not None:
            self._by_hash_key[expected.hash_key].setdefault(backend, vector.name)
        if vector.spread_group:
            self._by_spread_group[vector.spread_group][backend] += 1

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong, and about which query or queries."""
        for found in self._by_hash_key.values():
            if len(found) > 1:
                (one, first), (other, second) = list(found.items())[:2]
                yield second, f"went to {other}, but {first}, which has the same hash fields, to {one}"
        for group, count in self._by_spread_group.items():
            if len(count) == 1:
                yield group, f"all {count.total()} went to {next(iter(count))}"
