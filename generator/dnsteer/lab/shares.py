# SPDX-License-Identifier: Apache-2.0
"""The share of the queries that each name server should get, and its tolerance."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from ipaddress import ip_address

from dnsteer.plan.pool_slots import slots_of
from dnsteer.slots.source_address import slot_of_client
from dnsteer.spec import derived
from dnsteer.spec.model.families import Reach
from dnsteer.spec.model.spec import Selection, Spec

TOLERANCE = 0.02
"""Largest relative deviation from the expected share."""
SIGMAS = 4.0
"""Standard deviations that chance may move a share: with ten servers, one correct run in 1,600 exceeds this."""


@dataclass
class ExpectedQueries:
    """Expected queries of each server, summed over runs, and their variance where a hash or chance chooses."""

    spec: Spec
    server_of: dict[tuple[str, str], str]
    queries: dict[str, float] = field(default_factory=dict)
    total: int = 0
    _hash_variance: dict[str, float] = field(default_factory=dict)
    """Server -> variance of its queries, for slots that a hash chooses anew in each run."""
    _spray_variance: dict[str, float] = field(default_factory=dict)
    """Server -> variance of its queries, for slots chosen at random for each query."""
    _queries_by_key: dict[tuple[str, Reach, tuple[str, ...]], int] = field(default_factory=dict)
    """Number of queries with the same hash key, which all reach one server."""
    _shares: dict[tuple[str, Reach], dict[str, float]] = field(default_factory=dict)
    _asked: dict[tuple[str, Reach], int] = field(default_factory=dict)
    """Queries by pool and family."""

    def add(
        self, pool_name: str, reached: Reach, queries: int, source_ports: int, key: tuple[str, ...] | None = None
    ) -> None:
        """Count *queries* of a run for a VIP of that pool, spread evenly over *source_ports* ports.

        *key* holds the hashed fields if the source port is not among them.
        """
        selection = self.spec.pools[pool_name].selection
        self.total += queries
        self._asked[pool_name, reached] = self._asked.get((pool_name, reached), 0) + queries
        if selection is Selection.CLIENT and key is not None:
            self._queries_by_key[pool_name, reached, key] = (
                self._queries_by_key.get((pool_name, reached, key), 0) + queries
            )
        if selection is Selection.SOURCE_ADDRESS and key is not None:
            server = self.server_of_client(pool_name, reached, key[0])
            self.queries[server] = self.queries.get(server, 0.0) + queries
            return
        for server, part in self.shares(pool_name, reached).items():
            self.queries[server] = self.queries.get(server, 0.0) + queries * part
            thrown = part * (1 - part)
            if selection is Selection.SPRAY:
                self._spray_variance[server] = self._spray_variance.get(server, 0.0) + queries * thrown
            # The hash maps each key to a slot as if at random; dnsperf has only as many 5-tuples as source ports.
            elif selection is not Selection.SOURCE_PORT and key is None:
                self._hash_variance[server] = self._hash_variance.get(server, 0.0) + queries**2 * thrown / source_ports

    def server_of_client(self, pool_name: str, reached: Reach, client: str) -> str:
        """The server of a client's address, in a pool with selection source-address."""
        pool, address = self.spec.pools[pool_name], ip_address(client)
        slots = slots_of(self.spec, pool, reached)
        slot = slot_of_client(address, derived.client_prefix(pool, derived.family_of(address)), len(slots))
        return self.server_of[pool_name, slots[slot]]

    def shares(self, pool_name: str, reached: Reach) -> dict[str, float]:
        """The share of the slots that each server holds."""
        if (pool_name, reached) not in self._shares:
            pool = self.spec.pools[pool_name]
            slots = slots_of(self.spec, pool, reached)
            held = Counter(slots)
            own = {self.server_of[pool_name, b.name]: held[b.name] / len(slots) for b in pool.backends}
            self._shares[pool_name, reached] = own
        return self._shares[pool_name, reached]

    def by_weight(self) -> dict[str, float]:
        """Queries of each server by the weights in the spec alone, of those that have slots: slots round them."""
        found: dict[str, float] = {}
        for (pool_name, reached), queries in self._asked.items():
            own = self.shares(pool_name, reached)
            servers = [(self.server_of[pool_name, b.name], b.weight) for b in self.spec.pools[pool_name].backends]
            weights = {server: weight for server, weight in servers if own.get(server)}
            for server, weight in weights.items():
                found[server] = found.get(server, 0.0) + queries * weight / sum(weights.values())
        return found

    def deviation(self, server: str, seen: int) -> float:
        """Relative deviation of *seen* from the queries expected at *server*."""
        expected = self.queries.get(server, 0.0)
        if not expected:
            return math.inf if seen else 0.0
        return seen / expected - 1

    def allowed(self, server: str) -> float:
        """The allowed relative deviation for *server*."""
        variance = self._hash_variance.get(server, 0.0) + self._spray_variance.get(server, 0.0)
        for (pool_name, reached, _), queries in self._queries_by_key.items():
            part = self.shares(pool_name, reached).get(server, 0.0)
            variance += queries**2 * part * (1 - part)
        return self._tolerance(server, variance)

    def has_enough_sprayed(self) -> bool:
        """Whether there were enough sprayed queries for their tolerance to be TOLERANCE too."""
        return all(self._tolerance(server, variance) == TOLERANCE for server, variance in self._spray_variance.items())

    def _tolerance(self, server: str, variance: float) -> float:
        expected = self.queries.get(server, 0.0)
        return max(TOLERANCE, SIGMAS * math.sqrt(variance) / expected) if expected else 0.0


def queries_needed(shares: dict[str, float]) -> int:
    """Number of sprayed queries from which chance moves no share by more than TOLERANCE."""
    least = min(part for part in shares.values() if part)
    return math.ceil((SIGMAS / TOLERANCE) ** 2 * (1 - least) / least)
