# SPDX-License-Identifier: Apache-2.0
"""Packets a second from readings of the metrics, for the last minutes: totals at a time, in arrays of one length."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import isfinite, nan
from typing import NamedTuple

OVER = 4.0
"""Seconds over which a rate is taken: the switch adds up what its datapath counted now and then, so less would jump."""
KEPT = 300.0
"""Seconds that are kept."""
POINTS = 60
"""Points of a drawn line."""


class _Sample(NamedTuple):
    time: float
    totals: array[float]


class Series:
    """Totals of things that are counted. Times are in seconds, of one clock."""

    def __init__(self, kept: float = KEPT) -> None:
        self._kept = kept
        self._places: dict[Hashable, int] = {}
        self._samples: deque[_Sample] = deque()

    def add(self, time: float, totals: Mapping[Hashable, float]) -> None:
        """Add one reading. What was not there before begins with it."""
        if totals.keys() != self._places.keys():
            self._rename(list(totals))
        self._samples.append(
            _Sample(time, array("d", totals.values() if self._in_order(totals) else self._sorted(totals)))
        )
        while self._samples and self._samples[0].time < time - self._kept:
            self._samples.popleft()

    def _in_order(self, totals: Mapping[Hashable, float]) -> bool:
        return list(totals) == list(self._places)

    def _sorted(self, totals: Mapping[Hashable, float]) -> list[float]:
        return [totals[key] for key in self._places]

    def _rename(self, keys: list[Hashable]) -> None:
        """Know these keys from now on, with the past of those that were known."""
        was = [self._places.get(key) for key in keys]
        self._samples = deque(
            _Sample(s.time, array("d", (nan if at is None else s.totals[at] for at in was))) for s in self._samples
        )
        self._places = {key: place for place, key in enumerate(keys)}

    def rates(self, keys: Iterable[Hashable] | None = None) -> dict[Hashable, float | None]:
        """The rate of each, or of each of *keys*, over the last seconds; None where it is not known yet."""
        places = self._places if keys is None else {key: self._places[key] for key in keys if key in self._places}
        if len(self._samples) < 2:
            return dict.fromkeys(places)
        last = self._samples[-1]
        first = next(s for s in self._samples if s.time >= last.time - OVER)
        if first is last:
            first = self._samples[-2]
        return {key: _rate(first, last, place) for key, place in places.items()}

    def lines(self, keys: Sequence[Hashable]) -> dict[Hashable, list[float | None]]:
        """The past rates of each of *keys*, oldest first: POINTS at equal distances that end with the last reading."""
        if not self._samples:
            return {key: [None] * POINTS for key in keys}
        end, step = self._samples[-1].time, self._kept / POINTS
        picked: list[tuple[_Sample, _Sample] | None] = []
        samples = list(self._samples)
        at = 0
        for n in range(POINTS):
            until = end - (POINTS - 1 - n) * step
            while at + 1 < len(samples) and samples[at + 1].time <= until + 1e-6:
                at += 1
            before = next((s for s in reversed(samples[:at]) if s.time <= samples[at].time - min(OVER, step)), None)
            before = before or (samples[at - 1] if at else None)
            picked.append((before, samples[at]) if before is not None and samples[at].time <= until + 1e-6 else None)
        places = [self._places.get(key) for key in keys]
        columns: list[list[float | None]] = []
        for n, pair in enumerate(picked):
            if n and pair == picked[n - 1]:
                columns.append(columns[-1])  # readings are farther apart than points while nobody looks
            else:
                columns.append([None if pair is None or place is None else _rate(*pair, place) for place in places])
        return dict(zip(keys, map(list, zip(*columns, strict=True)), strict=True))


def _rate(before: _Sample, after: _Sample, place: int) -> float | None:
    seconds = after.time - before.time
    more = after.totals[place] - before.totals[place]
    return max(0.0, more) / seconds if isfinite(more) and seconds > 0 else None
