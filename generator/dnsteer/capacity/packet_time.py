# SPDX-License-Identifier: Apache-2.0
"""The eSwitch's time for a packet, in ns: for the packet itself, each further table, each cache miss and a rewrite.

    time = packet + table x (depth - 1) + entry x miss(entry cache) + counter x miss(counter cache) + rewrite

and the packet rate is 1 / time. With random access, an entry is in a cache of C entries with probability C / entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from dnsteer.capacity.fit import Solution, minimum, predicted_figure, solve
from dnsteer.card.published import FigureRow

NAMES = ("packet", "table", "entry", "counter", "rewrite")
_CACHES = (64e3, 8e6)
"""Range of cache sizes to try, in entries: from the smallest number of entries measured to above the largest."""
_ROUNDS = 3


@dataclass(frozen=True)
class PacketTime:
    """The costs in ns, the cache sizes in entries, and the names of the costs taken from another card."""

    costs: Mapping[str, float]
    entry_cache: float
    counter_cache: float
    borrowed: frozenset[str]

    def parts(self, depth: int, entries: float, counters: bool, rewrites: int) -> dict[str, float]:
        """Return a packet's time by cost, in ns."""
        row = _factors(depth, entries, counters, rewrites, self.entry_cache, self.counter_cache)
        return {name: row.get(name, 0.0) * self.costs[name] for name in NAMES}

    def time(self, depth: int, entries: float, counters: bool, rewrites: int) -> float:
        """Return a packet's time in ns."""
        return sum(self.parts(depth, entries, counters, rewrites).values())

    def rate(self, depth: int, entries: float, counters: bool, rewrites: int) -> float:
        """Return the packet rate in Mpps."""
        return 1000 / self.time(depth, entries, counters, rewrites)

    def for_another(self, packet: float) -> dict[str, float]:
        """Return the costs, in ns, scaled to a card of which only the time for the packet itself is known."""
        return {name: cost * packet / self.costs["packet"] for name, cost in self.costs.items()}


def _miss(entries: float, cache: float) -> float:
    return max(0.0, 1 - cache / entries) if entries else 0.0


def _factors(
    depth: int, entries: float, counters: bool, rewrites: int, entry_cache: float, counter_cache: float
) -> dict[str, float]:
    return {
        "packet": 1.0,
        "table": depth - 1.0,
        "entry": _miss(entries, entry_cache),
        "counter": _miss(entries, counter_cache) if counters else 0.0,
        "rewrite": 1.0 if rewrites else 0.0,
    }


@lru_cache(maxsize=64)
def fit_with(rows: tuple[FigureRow, ...], other_rows: tuple[FigureRow, ...]) -> PacketTime:
    """Fit a card's costs; those that its rows do not determine are taken from the other card, scaled."""
    return fit(rows, fit_with(other_rows, ()) if other_rows else None)


def fit(rows: Sequence[FigureRow], other: PacketTime | None = None) -> PacketTime:
    """Fit the costs to packet rates; those that the rates do not determine are taken from *other*, scaled."""
    figures = [1000 / row.value for row in rows]
    known = other.for_another(min(figures)) if other else {}

    def at(entry_cache: float, counter_cache: float) -> Solution:
        caches = entry_cache, counter_cache
        design = [_factors(r.depth, r.entries, r.counters, r.rewrites, *caches) for r in rows]
        return solve(NAMES, design, figures, known)

    def error(entry: float, counter: float) -> float:
        return at(entry, counter).error

    entry_cache = counter_cache = 1e6
    for _ in range(_ROUNDS):
        counter_cache = minimum(partial(error, entry_cache), *_CACHES)
        entry_cache = minimum(partial(error, counter=counter_cache), *_CACHES)
    found = at(entry_cache, counter_cache)
    return PacketTime(found.values, entry_cache, counter_cache, found.borrowed)


LATENCY = ("forward", "tracking", "table")


@dataclass(frozen=True)
class Latency:
    """Latency in us at low load, including the hosts: for forwarding, each further table, and connection tracking."""

    values: Mapping[str, float]
    borrowed: frozenset[str]

    def at(self, depth: int, tracking: bool) -> float:
        """Return the latency of a path, in us."""
        return predicted_figure(_latency(depth, tracking), self.values)


def _latency(depth: int, tracking: bool) -> dict[str, float]:
    return {"forward": 1.0, "table": depth - 1.0, "tracking": float(tracking)}


def fit_latency(rows: Sequence[FigureRow], other: Latency | None = None) -> Latency:
    """Fit the parts of latency; those that the rows do not determine are taken from *other*."""
    design = [_latency(row.depth, row.tracking) for row in rows]
    found = solve(LATENCY, design, [row.value for row in rows], other.values if other else {})
    return Latency(found.values, found.borrowed)
