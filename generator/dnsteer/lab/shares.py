"""Which share of the queries each name server is to get, and how far off it may be."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from dnsteer.plan.selection import slots_of
from dnsteer.spec.families import Family
from dnsteer.spec.model import Selection, Spec

TOLERANCE = 0.02
"""Largest relative deviation from the expected share."""
_SIGMAS = 4.0


@dataclass
class Expectation:
    """Expected queries of each server, summed over runs, and their variance where the switch's hash chooses."""

    spec: Spec
    server_of: dict[tuple[str, str], str]
    queries: dict[str, float] = field(default_factory=dict)
    variance: dict[str, float] = field(default_factory=dict)
    total: int = 0

    def add(self, pool_name: str, family: Family, queries: int, source_ports: int) -> None:
        """Count *queries* of a run for a VIP of that pool and family, spread evenly over *source_ports* ports."""
        pool = self.spec.pools[pool_name]
        self.total += queries
        slots = slots_of(self.spec, pool, family)
        held = Counter(slots)
        for backend in pool.backends:
            server = self.server_of[pool_name, backend.name]
            part = held[backend.name] / len(slots)
            self.queries[server] = self.queries.get(server, 0.0) + queries * part
            # The hash throws each 5-tuple into a slot as a die does; dnsperf has only as many tuples as source ports.
            if pool.selection is Selection.DP_HASH:
                thrown = queries**2 * part * (1 - part) / source_ports
                self.variance[server] = self.variance.get(server, 0.0) + thrown

    def deviation(self, server: str, seen: int) -> float:
        """Relative deviation of *seen* from the queries expected at *server*."""
        expected = self.queries.get(server, 0.0)
        if not expected:
            return math.inf if seen else 0.0
        return seen / expected - 1

    def allowed(self, server: str) -> float:
        """The relative deviation that is in order for *server*."""
        expected = self.queries.get(server, 0.0)
        if not expected:
            return 0.0
        return max(TOLERANCE, _SIGMAS * math.sqrt(self.variance.get(server, 0.0)) / expected)
