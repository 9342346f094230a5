"""How well the model knows what it has not seen: every published row, predicted from a fit without it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dnsteer.capacity.model import Model, PublishedRows, all_rows
from dnsteer.card.published import Measures
from dnsteer.spec.model.spec import Hardware

MEDIAN, WORST = 0.10, 0.25
"""Relative errors of the explained rows that are kept to."""
REPEAT = 0.01
"""Rows that are nearer than this to each other are one and the same figure."""


@dataclass(frozen=True)
class Miss:
    """A row, and what the model says of it without knowing it."""

    card: Hardware
    row: str
    measures: Measures
    unit: str
    measured: float
    predicted: float
    unexplained: str

    @property
    def error(self) -> float:
        """The prediction's relative error."""
        return self.predicted / self.measured - 1


def misses(rows: PublishedRows | None = None, tables: Iterable[tuple[Hardware, str]] | None = None) -> Iterator[Miss]:
    """Leave each row out in turn; with *tables* (card and id) only the rows of these."""
    rows = rows or all_rows()
    wanted = None if tables is None else set(tables)
    for card, table, name, row in rows.all():
        if wanted is None or (card, table.id) in wanted:
            model = Model(card, PublishedRows(rows.cards, frozenset({(card, name)})))
            predicted = model.predict(table.measures, row)
            yield Miss(card, name, table.measures, table.unit, row.value, predicted, row.unexplained)


def error_summary(found: Sequence[Miss]) -> dict[str, Any]:
    """Median and worst error of the rows that are explained and of all, and those that are not explained, by name.

    *varying* are the explained rows that do not repeat another one of the same kind and card to within 1 %: most rows of a
    full link or a ceiling are predicted by the others without any merit of the model.
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
        "unexplained": [
            {**_as_json(m), "why": m.unexplained} for m in found if m.unexplained
        ],
    }  # fmt: skip


def _repeats(miss: Miss, other: Miss) -> bool:
    same = (miss.card, miss.measures) == (other.card, other.measures) and miss.row != other.row
    return same and abs(miss.measured / other.measured - 1) < REPEAT


def _errors(found: Sequence[Miss]) -> dict[str, Any]:
    sizes = [abs(m.error) for m in found]
    worst = max(found, key=lambda m: abs(m.error))
    return {
        "rows": len(found),
        "median": round(statistics.median(sizes), 4),
        "worst": round(max(sizes), 4),
        "worst_row": f"{worst.card.value} {worst.row}",
    }


def _as_json(m: Miss) -> dict[str, Any]:
    return {
        "card": m.card.value,
        "row": m.row,
        "measures": m.measures,
        "unit": m.unit,
        "measured": m.measured,
        "predicted": round(m.predicted, 4),
        "error": round(m.error, 4),
    }


def as_json(found: Iterable[Miss]) -> list[dict[str, Any]]:
    """Every row."""
    return [_as_json(m) for m in found]
