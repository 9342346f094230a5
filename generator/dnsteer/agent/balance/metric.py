"""The metric of each backend of a pool: smoothed, and forgotten when nothing comes any more."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import isfinite

STALE = 3.0
"""Intervals after which a value that is not followed by another does not count any more."""


class MetricError(Exception):
    """A value that is none; the message says what was found instead."""


def usable(value: float) -> float:
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
    """Values by backend. Old ones count half after *half_life* seconds, and none after *lasts* without another."""

    half_life: float
    lasts: float
    _values: dict[str, _Value] = field(default_factory=dict)
    _counters: dict[str, tuple[float, float]] = field(default_factory=dict)

    def add(self, backend: str, value: float, time: float) -> None:
        """Take in a value at a *time* in seconds. Raises MetricError."""
        known, value = self._values.get(backend), usable(value)
        if known is None or time - known.time > self.lasts:
            self._values[backend] = _Value(value, time)
            return
        keeps = 0.5 ** ((time - known.time) / self.half_life) if self.half_life else 0.0
        known.smoothed, known.time = known.smoothed * keeps + value * (1 - keeps), time

    def add_counter(self, backend: str, total: float, time: float) -> None:
        """Take in a counter, whose growth a second is the value. One that began anew gives none. Raises MetricError."""
        last, total = self._counters.get(backend), usable(total)
        self._counters[backend] = total, time
        if last is not None and total >= last[0] and last[1] < time <= last[1] + self.lasts:
            self.add(backend, (total - last[0]) / (time - last[1]), time)

    def known(self, time: float) -> Mapping[str, float]:
        """The values that still count."""
        return {name: found.smoothed for name, found in self._values.items() if time - found.time <= self.lasts}

    def keep(self, backends: Collection[str]) -> None:
        """Forget all other backends."""
        self._values = {name: found for name, found in self._values.items() if name in backends}
        self._counters = {name: found for name, found in self._counters.items() if name in backends}
