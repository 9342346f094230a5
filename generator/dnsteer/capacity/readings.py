# SPDX-License-Identifier: Apache-2.0
"""Measured states of the switch, and the bounds that they give for states that were not measured.

More tables, more entries, counters, rewrites, connection tracking and larger frames never make a packet cheaper. So the
model's figure is clamped between the figures measured at lesser and at greater states, and for a measured state it is the
measured figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Literal

from dnsteer.card.published import FigureRow

EstimateKind = Literal["reading", "interpolation", "extrapolation"]
"""How a figure was obtained: measured in exactly this state, between measured states that differ in one condition, or
neither."""
Condition = Literal["depth", "entries", "counters", "rewrites", "tracking", "frames"]
KINDS: tuple[EstimateKind, ...] = ("reading", "interpolation", "extrapolation")
FEW = 64_000
"""Entries up to which the number makes no difference: the smallest number in the published tables."""
_FRAMES = ("below 64 B", "64 B", "above 64 B")


@dataclass(frozen=True)
class SwitchState:
    """The conditions for packets in the switch. *entries* is the total, *rewrites* counts header fields, *frame* bytes."""

    depth: int = 1
    entries: int = 0
    counters: bool = True
    rewrites: int = 0
    tracking: bool = False
    frame: float = 64


@dataclass(frozen=True)
class BoundedFigure:
    """A figure, how it was obtained, and the rows that it is read from or lies between; several readings are averaged."""

    value: float
    kind: EstimateKind
    rows: tuple[str, ...]
    low: float
    high: float
    """Bounds from lesser and greater states, or the smallest and largest of several readings."""


class FigureReadings:
    """The rows of one figure. *rising*: greater states have greater figures (latency), otherwise smaller ones (rates).

    *of* are the conditions that the figure depends on.
    """

    def __init__(self, rows: Iterable[tuple[str, FigureRow]], of: Sequence[Condition], *, rising: bool) -> None:
        self._rows = [(name, row) for name, row in rows]
        self._of = of
        self._rising = rising

    def bound(self, state: SwitchState, model: float) -> BoundedFigure:
        """Return the reading for *state* or, if there is none, the *model*'s figure clamped by the readings."""
        signs = [(name, row.value, self._compare(state, row)) for name, row in self._rows]
        lesser = [value for _, value, s in signs if all(x >= 0 for x in s)]
        greater = [value for _, value, s in signs if all(x <= 0 for x in s)]
        below, above = (lesser, greater) if self._rising else (greater, lesser)
        low, high = max(below, default=0.0), min(above, default=float("inf"))
        same = [(name, value) for name, value, s in signs if not any(s)]
        if same:
            value = geometric_mean(value for _, value in same)
            values = [value for _, value in same]
            return BoundedFigure(value, "reading", tuple(name for name, _ in same), min(values), max(values))
        if low > high:  # two readings contradict the order of the states: noise
            low, high = high, low
        value = min(max(model, low), high)
        neighbors = _neighbors([(name, s) for name, _, s in signs])
        if neighbors:
            return BoundedFigure(value, "interpolation", neighbors, low, high)
        return BoundedFigure(value, "extrapolation", (), low, high)

    def _compare(self, state: SwitchState, row: FigureRow) -> tuple[int, ...]:
        """Return for each condition 1 if the state is greater, -1 if the row is, 0 if they are equal."""
        return tuple(_COMPARE[condition](state, row) for condition in self._of)


def _neighbors(signs: Sequence[tuple[str, tuple[int, ...]]]) -> tuple[str, ...]:
    """Return a lesser and a greater row that differ from the state only in one common condition; empty if none do."""
    for n in range(len(signs[0][1]) if signs else 0):
        sides: dict[int, list[str]] = {1: [], -1: []}
        for name, s in signs:
            if s[n] and not any(s[:n] + s[n + 1 :]):
                sides[s[n]].append(name)
        if sides[1] and sides[-1]:
            return sides[1][-1], sides[-1][0]
    return ()


def _sign(a: float, b: float) -> int:
    return (a > b) - (a < b)


def _entries(state: SwitchState, row: FigureRow) -> int:
    return 0 if max(state.entries, row.entries) <= FEW else _sign(state.entries, max(row.entries, FEW))


def _frames(state: SwitchState, row: FigureRow) -> int:
    return _sign(_sign(state.frame, 64) + 1, _FRAMES.index(row.frames)) if row.frames else 0


# Conditions that a row leaves out were not varied: counters and frame sizes are then unknown, the others have their default.
_COMPARE: Mapping[Condition, Callable[[SwitchState, FigureRow], int]] = {
    "depth": lambda state, row: _sign(state.depth, row.depth),
    "entries": _entries,
    "counters": lambda state, row: _sign(state.counters, row.counters) if "counters" in row.conditions() else 0,
    "rewrites": lambda state, row: _sign(state.rewrites, row.rewrites),
    "tracking": lambda state, row: _sign(state.tracking, row.tracking),
    "frames": _frames,
}
