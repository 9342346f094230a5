# SPDX-License-Identifier: Apache-2.0
"""The values of a metric by backend: smoothed, and forgotten once no further ones come."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import isfinite

STALE = 3.0
"""Intervals after which a value that is not followed by another does not count any more."""
LARGEST = 1e15
"""Values above it are mistakes: sums and quotients of those up to it stay numbers."""
SMALLEST = 1e-12
"""Values below it count as 0, for the same reason."""
JUMP = 10.0
"""How many times the largest value in the pool lately a new one counts at most, unless it is within a full load, 1."""


class MetricError(Exception):
    """A value that is none; the message says what was found instead."""


def check_value(value: float) -> float:
    """Return a *value* that can be compared. Raises MetricError for NaN, infinity and what is below 0."""
    if not isfinite(value):
        raise MetricError(f"{value:g} is not finite")
    if value < 0:
        raise MetricError(f"{value:g} is below 0")
    return value


@dataclass
class _Value:
    smoothed: float
    time: float


@dataclass
class Metric:
    """Values by backend. Old ones count half after *half_life* seconds, and none after *lasts* without another.

    Values are given in the unit of *full*, a full load, and known as parts of it. One above *most* is refused. One above a
    full load that is more than JUMP times what any backend bore lately counts as that much: a single mistake is forgotten
    within a few half-lives, and a load that lasts counts whole soon.
    """

    half_life: float
    lasts: float
    most: float = LARGEST
    full: float = 1.0
    _values: dict[str, _Value] = field(default_factory=dict)
    _counters: dict[str, tuple[float, float]] = field(default_factory=dict)

    def add(self, backend: str, value: float, time: float) -> None:
        """Take in a value at a *time* in seconds. Raises MetricError."""
        value = check_value(value)
        if value > self.most:
            raise MetricError(f"{value:g} is above {self.most:g}, the most that counts")
        value /= self.full
        known = self._values.get(backend)
        if known is not None and time - known.time > self.lasts:
            known = None
        usual = max(self.known(time).values(), default=0.0)
        value = min(value if value >= SMALLEST else 0.0, max(JUMP * usual, 1.0) if usual else value)
        if known is None:
            self._values[backend] = _Value(value, time)
            return
        keeps = 0.5 ** (max(time - known.time, 0.0) / self.half_life) if self.half_life else 0.0
        smoothed = known.smoothed * keeps + value * (1 - keeps)
        known.smoothed, known.time = smoothed if smoothed >= SMALLEST else 0.0, time

    def add_counter(self, backend: str, total: float, time: float) -> None:
        """Take in a counter, whose growth a second is the value. One that began anew gives none. Raises MetricError."""
        last, total = self._counters.get(backend), check_value(total)
        self._counters[backend] = total, time
        if last is not None and total >= last[0] and last[1] < time <= last[1] + self.lasts:
            self.add(backend, (total - last[0]) / (time - last[1]), time)

    def known(self, time: float) -> Mapping[str, float]:
        """The values that still count. Any thread may ask."""
        return {name: found.smoothed for name, found in [*self._values.items()] if time - found.time <= self.lasts}

    def keep(self, backends: Collection[str]) -> None:
        """Forget all other backends."""
        self._values = {name: found for name, found in self._values.items() if name in backends}
        self._counters = {name: found for name, found in self._counters.items() if name in backends}
