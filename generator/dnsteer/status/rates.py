# SPDX-License-Identifier: Apache-2.0
"""Packets and queries per second, from two samples of the counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dnsteer.status.counters import Count, Key, Sample


@dataclass(frozen=True)
class Rate:
    """Packets and queries per second; None if unknown. Packets of UDP services count as queries."""

    packets: float | None = None
    queries: float | None = None

    def as_json(self) -> dict[str, float | None]:
        """As part of a JSON object."""
        return {"packets_per_second": _rounded(self.packets), "queries_per_second": _rounded(self.queries)}


UNKNOWN = Rate()
_SURELY = 0.9
"""A flow younger than this part of the time between two dumps of its table came after the first: ages are not read all at
once."""


@dataclass(frozen=True)
class Rates:
    """Packets per second by counter; None if unknown. The samples were *seconds* apart."""

    by_key: Mapping[Key, float | None] = field(default_factory=dict)
    seconds: float | None = None

    def of(self, keys: Iterable[Key]) -> Rate:
        """All of *keys* together."""
        found = [(key.protocol, self.by_key.get(key)) for key in keys]
        return Rate(_sum(rate for _, rate in found), _sum(rate for protocol, rate in found if protocol == "udp"))


def total(rates: Iterable[Rate]) -> Rate:
    """All of them together."""
    found = list(rates)
    return Rate(_sum(r.packets for r in found), _sum(r.queries for r in found))


def rates_between(before: Sample, after: Sample) -> Rates:
    """The rates between two samples, by the time that the switch says has passed between them."""
    # Each kind is in a table of its own, which is dumped at a time of its own: late ones may be long after the others.
    passed: dict[type, float] = {}
    for place, count in after.items():
        kind = type(place[0])
        if place in before:
            passed[kind] = max(passed.get(kind, 0.0), count.age - before[place].age)
    out: dict[Key, float | None] = {}
    for place, count in after.items():
        was = before.get(place)
        young = count.age < passed.get(type(place[0]), 0.0) * _SURELY
        rate = None if was is None or young else _rate(was, count)
        out[place[0]] = _sum((out.get(place[0], 0.0), rate))
    seconds = max(passed.values(), default=0.0)
    return Rates(out, seconds if seconds > 0 else None)


def _rate(before: Count, after: Count) -> float | None:
    """None if the flow was loaded again between the samples, which resets its counter."""
    passed, packets = after.age - before.age, after.packets - before.packets
    return packets / passed if passed > 0 and packets >= 0 else None


def _sum(rates: Iterable[float | None]) -> float | None:
    """The sum; None when one of them is unknown."""
    out = 0.0
    for rate in rates:
        if rate is None:
            return None
        out += rate
    return out


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 1)
