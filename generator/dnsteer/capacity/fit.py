# SPDX-License-Identifier: Apache-2.0
"""Least squares for the model's few unknowns, with scipy: the only module that needs the extra `capacity`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

DesignRows = Sequence[Mapping[str, float]]
"""One mapping for each figure: the factor of each unknown in it. Unknowns that are not named have factor 0."""
_ROUNDS, _GRID = 4, 13
"""The number of successive grids in a search for a minimum, and the values in each."""


@dataclass(frozen=True)
class Solution:
    """The unknowns by name, which of them the rows do not determine, and the sum of squared relative errors."""

    values: Mapping[str, float]
    borrowed: frozenset[str]
    error: float


def predicted_figure(row: Mapping[str, float], values: Mapping[str, float]) -> float:
    """Return the figure that *values* predict for a row."""
    return sum(factor * values[name] for name, factor in row.items())


def solve(names: Sequence[str], rows: DesignRows, figures: Sequence[float], known: Mapping[str, float]) -> Solution:
    """Return the unknowns, all at least 0, that minimise the squared relative errors of the figures.

    An unknown that the rows do not determine is borrowed from *known*, 0 if it is not there. Of several unknowns that the
    rows cannot distinguish, the last in *names* are borrowed.
    """
    design = np.array(
        [[row.get(name, 0.0) / figure for name in names] for row, figure in zip(rows, figures, strict=True)]
    )
    free = _determined(design)
    values = {name: known.get(name, 0.0) for n, name in enumerate(names) if n not in free}
    borrowed = frozenset(values)
    rest = 1 - design @ np.array([values.get(name, 0.0) for name in names])
    found, residual = nnls(design[:, free], rest)
    values |= {names[column]: float(value) for column, value in zip(free, found, strict=True)}
    return Solution(values, borrowed, float(residual) ** 2)


def _determined(design: np.ndarray) -> list[int]:
    """Return the columns that are not combinations of those before them."""
    if np.linalg.matrix_rank(design) == design.shape[1]:  # mostly: one rank instead of one for each column
        return list(range(design.shape[1]))
    free: list[int] = []
    for column in range(design.shape[1]):
        if np.linalg.matrix_rank(design[:, [*free, column]]) > len(free):
            free.append(column)
    return free


def minimum(cost: Callable[[float], float], low: float, high: float) -> float:
    """Return the value in [*low*, *high*] with the least *cost*, to 0.2 %.

    It searches geometric grids, each around the best value of the previous one: the cost has several local minima, in which
    gradient methods get stuck.
    """
    best = low
    for _ in range(_ROUNDS):
        grid = np.geomspace(low, high, _GRID)
        least = min(range(_GRID), key=lambda n: cost(float(grid[n])))
        low, high = float(grid[max(0, least - 1)]), float(grid[min(_GRID - 1, least + 1)])
        best = float(grid[least])
    return best
