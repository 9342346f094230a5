"""Least squares for a handful of unknowns: a library for it would be far larger than the rest of the package."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Rows = Sequence[Mapping[str, float]]
"""One mapping for each figure: by how much each unknown counts in it. Unknowns that are not named do not count."""


@dataclass(frozen=True)
class Solution:
    """The unknowns by name, those of them that the rows do not tell, and the sum of the squares of relative errors."""

    values: Mapping[str, float]
    borrowed: frozenset[str]
    error: float


def predict(row: Mapping[str, float], values: Mapping[str, float]) -> float:
    """The figure that *values* give for a row."""
    return sum(factor * values[name] for name, factor in row.items())


def solve(names: Sequence[str], rows: Rows, figures: Sequence[float], known: Mapping[str, float]) -> Solution:
    """The unknowns, none below 0, that come nearest to the figures by relative error.

    An unknown that the rows do not tell has its value from *known*, 0 where it is not there; of several that they do not
    tell apart, those that come last in *names*.
    """
    told = [name for name in names if any(row.get(name) for row in rows)]
    fixed = {name: known.get(name, 0.0) for name in names if name not in told}
    borrowed = set(fixed)
    while True:
        found = _normal(told, rows, figures, fixed)
        if found is None:
            borrowed.add(told[-1])
            fixed[told[-1]] = known.get(told[-1], 0.0)
            told.pop()
            continue
        least = min(told, key=lambda name: found[name], default=None)
        if least is None or found[least] >= 0:
            break
        fixed[least] = 0.0  # nothing is done in less than no time
        told.remove(least)
    values = {**fixed, **found}
    error = sum((predict(row, values) / figure - 1) ** 2 for row, figure in zip(rows, figures, strict=True))
    return Solution(values, frozenset(borrowed), error)


def _normal(
    names: Sequence[str], rows: Rows, figures: Sequence[float], fixed: Mapping[str, float]
) -> dict[str, float] | None:
    """The normal equations by elimination, each row in parts of its figure; None when they have no single solution."""
    size = len(names)
    parts = [[row.get(name, 0.0) / figure for name in names] for row, figure in zip(rows, figures, strict=True)]
    left = [
        1 - sum(row.get(name, 0.0) * value for name, value in fixed.items()) / figure
        for row, figure in zip(rows, figures, strict=True)
    ]
    matrix = [
        [sum(p[i] * p[j] for p in parts) for j in range(size)]
        + [sum(p[i] * rest for p, rest in zip(parts, left, strict=True))]
        for i in range(size)
    ]
    scale = [matrix[i][i] for i in range(size)]
    for i in range(size):
        pivot = max(range(i, size), key=lambda r: abs(matrix[r][i]))
        if abs(matrix[pivot][i]) <= 1e-9 * scale[i]:
            return None
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        for r in range(size):
            if r != i:
                factor = matrix[r][i] / matrix[i][i]
                matrix[r] = [a - factor * b for a, b in zip(matrix[r], matrix[i], strict=True)]
    return {name: matrix[i][size] / matrix[i][i] for i, name in enumerate(names)}


def best(cost: Callable[[float], float], low: float, high: float) -> float:
    """The value in [*low*, *high*] of least cost, on a scale of ratios: the lowest of several, to 0.2 %."""
    for _ in range(4):
        step = (high / low) ** (1 / 12)
        grid = [low * step**n for n in range(13)]
        least = min(grid, key=cost)
        low, high = max(low, least / step), min(high, least * step)
    return float(least)


def mean_of_ratios(pairs: Sequence[tuple[float, float]]) -> float:
    """The geometric mean of a/b."""
    return math.exp(sum(math.log(a / b) for a, b in pairs) / len(pairs))
