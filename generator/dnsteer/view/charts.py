# SPDX-License-Identifier: Apache-2.0
"""Charts over time as SVG paths, for charts.html: stacked bands, lines, and marks at moments. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from dnsteer.view.wording import number

LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 34
_MARK_ROWS, _MARK_HIGH = 3, 16
_LEAST_LABELLED = 11
"""Height of a band that has room for its number."""
_NEARLY = 0.97
"""Part of the largest value that the highest tick has at least."""


@dataclass(frozen=True)
class Scale:
    """Values from *low* to *high* as pixels from *at* on, *size* many; a negative size goes up."""

    low: float
    high: float
    at: float
    size: float

    def __call__(self, value: float) -> float:
        """Where a value is, to a tenth of a pixel."""
        part = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.0
        return round(self.at + part * self.size, 1)


@dataclass(frozen=True)
class Label:
    """A text at a place."""

    x: float
    y: float
    text: str
    css: str = ""


@dataclass(frozen=True)
class Shape:
    """A path with its class; an area, or a line."""

    css: str
    path: str


@dataclass(frozen=True)
class Dot:
    """A point of a line."""

    x: float
    y: float
    css: str


@dataclass(frozen=True)
class Mark:
    """A moment: a line down the chart, and its number above it."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Chart:
    """A chart. The plot is the rectangle from *left*, *top* to *right*, *bottom*, in pixels."""

    wide: int
    high: int
    left: float
    right: float
    top: float
    bottom: float
    areas: tuple[Shape, ...] = ()
    lines: tuple[Shape, ...] = ()
    dots: tuple[Dot, ...] = ()
    labels: tuple[Label, ...] = ()
    marks: tuple[Mark, ...] = ()
    x_ticks: tuple[Label, ...] = ()
    y_ticks: tuple[Label, ...] = ()
    x_title: str = ""


def ticks(low: float, high: float, wanted: int) -> list[float]:
    """Round numbers between two values, about *wanted* many: 1, 2 or 5 times a power of ten apart."""
    if high <= low:
        return [low]
    rough = (high - low) / wanted
    size = 10.0 ** floor(log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * 0.999)
    return [round(n * step, 9) for n in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def frame(
    wide: int, high: int, span: tuple[float, float], most: float, *, title: str, marks: int = 0
) -> tuple[Chart, Scale, Scale]:
    """An empty chart of a *span* of seconds and of values up to *most*, with room for so many *marks*; and its scales."""
    top = TOP + (min(marks, _MARK_ROWS) * _MARK_HIGH if marks else 0)
    y_values = ticks(0, most or 1, 5)
    if y_values[-1] < most * _NEARLY:
        y_values.append(y_values[-1] + (y_values[-1] - y_values[-2]))
    x = Scale(*span, LEFT, wide - LEFT - RIGHT)
    y = Scale(0, max(most, y_values[-1]), high - BOTTOM, -(high - BOTTOM - top))
    x_ticks = tuple(Label(x(value), high - BOTTOM + 14, f"{value:g}") for value in ticks(*span, max(2, wide // 90)))
    y_ticks = tuple(Label(LEFT - 6, y(value), number(value)) for value in y_values)
    chart = Chart(
        wide,
        high,
        LEFT,
        wide - RIGHT,
        top,
        high - BOTTOM,
        x_ticks=x_ticks,
        y_ticks=y_ticks,
        x_title=title,
    )
    return chart, x, y


def stacked(bands: Sequence[tuple[str, Sequence[float]]], edges: Sequence[float], x: Scale, y: Scale) -> list[Shape]:
    """Bands on top of each other: a class and the values of each; value *n* holds from edge *n* to the next one."""
    below = [0.0] * (len(edges) - 1)
    shapes = []
    for css, values in bands:
        above = [a + b for a, b in zip(below, values, strict=True)]
        if any(values):
            up, down = _steps(above, edges, x, y), _steps(below[::-1], edges[::-1], x, y)
            shapes.append(Shape(css, f"M{up}L{down}z"))
        below = above
    return shapes


def _steps(values: Sequence[float], edges: Sequence[float], x: Scale, y: Scale) -> str:
    points = []
    last = None
    for value, begin, end in zip(values, edges, edges[1:], strict=False):
        if value == last:
            points.pop()  # a level that goes on is one line
        else:
            points.append(f"{x(begin)} {y(value)}")
        points.append(f"{x(end)} {y(value)}")
        last = value
    return "L".join(points)


def band_labels(
    bands: Sequence[tuple[str, str, Sequence[float]]], edges: Sequence[float], x: Scale, y: Scale
) -> list[Label]:
    """The text of each band (its text, its class, its values) in its first place that is high enough."""
    below = [0.0] * (len(edges) - 1)
    labels = []
    for text, css, values in bands:
        above = [a + b for a, b in zip(below, values, strict=True)]
        places = (i for i in range(1, len(values)) if y(below[i]) - y(above[i]) >= _LEAST_LABELLED)
        at = next(places, None)
        if at is not None:
            labels.append(Label(x(edges[at]) + 4, (y(below[at]) + y(above[at])) / 2, text, css))
        below = above
    return labels


def polyline(points: Sequence[tuple[float, float]], x: Scale, y: Scale) -> str:
    """A line from point to point, of times and values."""
    return "M" + "L".join(f"{x(time)} {y(value)}" for time, value in points) if points else ""


def dots(points: Sequence[tuple[float, float]], css: str, x: Scale, y: Scale) -> list[Dot]:
    """A dot at each point."""
    return [Dot(x(time), y(value), css) for time, value in points]


def marks(moments: Sequence[float], x: Scale) -> tuple[Mark, ...]:
    """Marks at moments, numbered from 1, in rows, so that those that are close can be told apart."""
    return tuple(Mark(x(at), TOP + n % _MARK_ROWS * _MARK_HIGH, str(n + 1)) for n, at in enumerate(moments))
