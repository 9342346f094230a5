# SPDX-License-Identifier: Apache-2.0
"""Monotonic totals of counters that restart at 0 when a flow is replaced or the switch restarts."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

Label = TypeVar("Label", bound=Hashable)


class CounterReading(NamedTuple):
    """A counter as the switch has it: its values, such as packets and bytes, and its age in seconds if that is known."""

    values: tuple[int, ...]
    age: float | None = None


_SURELY, _SLACK = 0.9, 0.1
"""Ages and times are not read at once: a counter is new if it is younger than this share of the time, less these seconds."""


class Totals(Generic[Label]):
    """Sums of counters by label. A counter that is smaller, or younger, than it can be has begun again at 0.

    *clock* counts seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._at = clock, clock()
        self._last: dict[Hashable, CounterReading] = {}
        self._sums: dict[Label, list[int]] = {}

    def add(
        self, readings: Iterable[tuple[Hashable, CounterReading]], label_of: Callable[[Hashable], Label | None]
    ) -> None:
        """Add one reading of all counters, by the place of each. Those that are not there begin at 0 if they return.

        *label_of* returns what a place counts for, None for nothing.
        """
        now: dict[Hashable, CounterReading] = {}
        passed, self._at = self._clock() - self._at, self._clock()
        for place, reading in readings:
            now[place] = reading
            label = label_of(place)
            if label is None:
                continue
            before = self._last.get(place)
            values = reading.values
            if before is not None and not _began_again(before, reading, passed):
                values = tuple(n - was for n, was in zip(values, before.values, strict=True))
            sums = self._sums.get(label)
            if not sums:
                self._sums[label] = list(values)
            elif any(values):
                for i, n in enumerate(values):
                    sums[i] += n
        self._last = now

    def keep(self, labels: Collection[Label]) -> None:
        """Forget all labels but these; those that are new begin at 0."""
        self._sums = {label: self._sums.get(label) or [] for label in labels}

    @property
    def sums(self) -> Mapping[Label, list[int]]:
        """The sums of each label; empty where nothing was counted yet."""
        return self._sums


def _began_again(before: CounterReading, after: CounterReading, passed: float) -> bool:
    if any(n < was for n, was in zip(after.values, before.values, strict=True)):
        return True
    if before.age is None or after.age is None:
        return False
    return after.age < before.age or after.age < passed * _SURELY - _SLACK
