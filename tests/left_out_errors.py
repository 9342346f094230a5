# SPDX-License-Identifier: Apache-2.0
"""Errors of the capacity model at published rows that it was fitted without. For tests and the benchmark of capacity."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from dnsteer.capacity.estimate import LeftOutRow

MEDIAN, WORST = 0.10, 0.25
"""Limits on the median and the worst relative error of the explained rows."""
REPEAT = 0.01
"""Rows whose relative difference is below this count as the same figure."""


def error_summary(found: Sequence[LeftOutRow]) -> dict[str, Any]:
    """Return median and worst error of the explained rows and of all rows, and each unexplained row with its reason.

    *varying* are the explained rows that do not repeat another one of the same kind and card to within 1 %: rows at a full
    link or a ceiling are mostly equal, so predicting one from the others says nothing about the model.
    """
    explained = [m for m in found if not m.unexplained]
    return {
        "rows": len(found),
        "explained": _errors(explained),
        "varying": _errors([m for m in explained if not any(_repeats(m, other) for other in explained)]),
        "all": _errors(found),
        "by_measure": {
            kind: _errors([m for m in explained if m.measures == kind])
            for kind in dict.fromkeys(m.measures for m in explained)
        },
        "unexplained": [{**_as_json(m), "why": m.unexplained} for m in found if m.unexplained],
    }


def _repeats(row: LeftOutRow, other: LeftOutRow) -> bool:
    same = (row.card, row.measures) == (other.card, other.measures) and row.row != other.row
    return same and abs(row.measured / other.measured - 1) < REPEAT


def _errors(found: Sequence[LeftOutRow]) -> dict[str, Any]:
    sizes = [abs(m.error) for m in found]
    worst = max(found, key=lambda m: abs(m.error))
    return {
        "rows": len(found),
        "median": round(statistics.median(sizes), 4),
        "worst": round(max(sizes), 4),
        "worst_row": f"{worst.card.value} {worst.row}",
    }


def _as_json(m: LeftOutRow) -> dict[str, Any]:
    return {
        "card": m.card.value,
        "row": m.row,
        "measures": m.measures,
        "unit": m.unit,
        "measured": m.measured,
        "predicted": round(m.predicted, 4),
        "error": round(m.error, 4),
    }


def rows_as_json(found: Iterable[LeftOutRow]) -> list[dict[str, Any]]:
    """Return every row as a JSON object."""
    return [_as_json(m) for m in found]
