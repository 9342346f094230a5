# SPDX-License-Identifier: Apache-2.0
"""SVG paths of rates over time (sparklines) and of the slots of a pool. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

CELL, GAP = 10, 1
MAX_LABELLED = 256
"""Slots up to which each cell has the number of its backend in it."""
COLOURS = 8
"""Colours of backends; the ninth has the first again, with a line across its cells, and so on."""


class Spark(NamedTuple):
    """A small line: the points of a polyline, and the rate at its top."""

    points: str
    most: float


def spark(line: Sequence[float | None], height: int = 24) -> Spark:
    """The line of some rates, x by place and y by rate; those that are unknown are left out.

    So are points within a run of equal ones: a page has a line for each of a thousand VIPs, most of them level.
    """
    known = [(x, rate) for x, rate in enumerate(line) if rate is not None]
    most = max((rate for _, rate in known), default=0.0) or 1.0
    points = " ".join(
        f"{x},{height - 1 - (height - 2) * rate / most:.3g}"
        for n, (x, rate) in enumerate(known)
        if n in (0, len(known) - 1) or not known[n - 1][1] == rate == known[n + 1][1]
    )
    return Spark(points, most)


def columns(slots: int) -> int:
    """Cells in a row: the picture is square, or twice as wide as it is high."""
    return 1 << ((slots - 1).bit_length() + 1) // 2 if slots > 1 else 1


def cells(slots: Iterable[int], wide: int, inset: float = 0) -> str:
    """The path of some cells, or of frames *inset* from their edges."""
    side = f"{CELL - GAP - 2 * inset:g}"
    return "".join(
        f"M{slot % wide * CELL + inset:g} {slot // wide * CELL + inset:g}h{side}v{side}h-{side}z" for slot in slots
    )


def strokes(slots: Iterable[int], wide: int, variant: int) -> str:
    """Lines across cells: none, one or two."""
    side = CELL - GAP
    out = []
    for slot in slots if variant else ():
        x, y = slot % wide * CELL, slot // wide * CELL
        out.append(f"M{x} {y + side}l{side} -{side}")
        if variant > 1:
            out.append(f"M{x} {y}l{side} {side}")
    return "".join(out)


@dataclass(frozen=True)
class BackendShape:
    """The cells of one backend: its class of colour, the path, and the lines across it."""

    css: str
    path: str
    lines: str


@dataclass(frozen=True)
class CellLabel:
    """A text in a cell."""

    x: float
    y: float
    text: str
    css: str


@dataclass(frozen=True)
class SlotMap:
    """The slots of a pool as a picture; *wide* cells in a row. *moved* is the path around those that moved last."""

    wide: int
    high: int
    shapes: tuple[BackendShape, ...]
    labels: tuple[CellLabel, ...]
    moved: str

    @property
    def box(self) -> str:
        """The viewBox."""
        return f"-1 -1 {self.wide * CELL + 1} {self.high * CELL + 1}"


def colour(number: int) -> str:
    """The class of the colour of a backend, which are counted from 1; 0 is for slots without one."""
    return f"c{(number - 1) % COLOURS + 1}" if number else "c0"


def variant(number: int) -> int:
    """How many lines its cells have across."""
    return max(0, number - 1) // COLOURS % 3


def slot_map(owners: Sequence[str], numbers: Mapping[str, int], moved: Iterable[int]) -> SlotMap:
    """The picture. *owners* has the backend of each slot, *numbers* their numbers in the legend."""
    wide = columns(len(owners))
    by_number: dict[int, list[int]] = {}
    for slot, name in enumerate(owners):
        by_number.setdefault(numbers.get(name, 0), []).append(slot)
    shapes = tuple(
        BackendShape(colour(n), cells(slots, wide), strokes(slots, wide, variant(n)))
        for n, slots in sorted(by_number.items())
    )
    labels: list[CellLabel] = []
    if len(owners) <= MAX_LABELLED:
        middle = (CELL - GAP) / 2
        for slot, name in enumerate(owners):
            n = numbers.get(name, 0)
            x, y = slot % wide * CELL + middle, slot // wide * CELL + middle
            labels.append(CellLabel(x, y, str(n) if n else "\N{MULTIPLICATION SIGN}", f"l{colour(n)}"))
    return SlotMap(wide, -(-len(owners) // wide), shapes, tuple(labels), cells(sorted(moved), wide, 0.65))
