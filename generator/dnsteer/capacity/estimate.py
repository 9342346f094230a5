# SPDX-License-Identifier: Apache-2.0
"""A predicted figure, its range by what the model misses of rows that it was fitted without, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from dnsteer.capacity.model import Model, PublishedRows, all_rows
from dnsteer.capacity.readings import KINDS, BoundedFigure, EstimateKind, SwitchState
from dnsteer.card.published import Measures
from dnsteer.spec.model.spec import Hardware


@dataclass(frozen=True)
class LeftOutRow:
    """A row's measured figure, and the model's prediction from a fit without it."""

    card: Hardware
    row: str
    measures: Measures
    unit: str
    measured: float
    predicted: float
    unexplained: str

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


def leave_one_out(
    rows: PublishedRows | None = None, tables: Iterable[tuple[Hardware, str]] | None = None
) -> Iterator[LeftOutRow]:
    """Leave each row out in turn and yield its prediction; with *tables* (card and id) only for rows of these tables."""
    rows = rows or all_rows()
    wanted = None if tables is None else set(tables)
    for card, table, name, row in rows.all():
        if wanted is None or (card, table.id) in wanted:
            model = Model(card, PublishedRows(rows.cards, frozenset({(card, name)})))
            predicted = model.predict(table.measures, row)
            yield LeftOutRow(card, name, table.measures, table.unit, row.value, predicted, row.unexplained)


CAUTION = 2.0
"""Errors are multiplied by this for states beyond the measured range."""


@dataclass(frozen=True)
class Estimate:
    """A figure and its range.

    *rests_on* names measurements (`bluefield-3 depth-rate`), *because* says why the figure is not a reading.
    """

    value: float
    low: float
    high: float
    kind: EstimateKind
    rests_on: tuple[str, ...]
    because: tuple[str, ...] = ()

    def times(self, factor: float) -> Estimate:
        """Return the estimate multiplied by *factor*, for instance to change its unit."""
        return replace(self, value=self.value * factor, low=self.low * factor, high=self.high * factor)

    def as_json(self, digits: int = 3) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "value": round(self.value, digits),
            "low": round(self.low, digits),
            "high": round(self.high, digits),
            "kind": self.kind,
            "rests_on": list(self.rests_on),
            "because": list(self.because),
        }


def least(found: Mapping[str, Estimate]) -> tuple[str, Estimate]:
    """Return the name and figure of the lowest bound; its range also takes the other bounds' ranges into account."""
    name = min(found, key=lambda each: found[each].value)
    binding = found[name]
    low, high = min(e.low for e in found.values()), min(e.high for e in found.values())
    # A bound whose range reaches below the lowest value may be the real limit, so its kind and reasons count too.
    near = [binding, *(e for e in found.values() if e is not binding and e.low < binding.value)]
    return name, Estimate(
        binding.value,
        min(low, binding.value),
        max(high, binding.value),
        worst_kind(e.kind for e in near),
        tuple(dict.fromkeys(r for e in near for r in e.rests_on)),
        tuple(dict.fromkeys(b for e in near for b in e.because)),
    )


def worst_kind(kinds: Iterable[EstimateKind]) -> EstimateKind:
    """Return the least certain of several kinds."""
    return max(kinds, key=KINDS.index)


@lru_cache(maxsize=64)
def table_error(card: Hardware, table: str) -> float:
    """Return the worst relative leave-one-out error of a table's rows, unexplained rows included."""
    return max((abs(row.error) for row in leave_one_out(tables=[(card, table)])), default=0.0)


def rate_estimate(model: Model, state: SwitchState) -> Estimate:
    """Estimate the packet rate of the eSwitch, in Mpps."""
    held = model.rate(state)
    if held.kind == "reading":
        return _reading(model, held)
    card, other = model.card, model.other
    tables = {"used-entries": card}
    if state.depth > 1:
        tables["depth-rate"] = card
    if state.rewrites:
        tables["rewrite-64"] = other if "rewrite" in model.time.borrowed else card
    because = tuple(_why(model, state)) if held.kind == "extrapolation" else ()
    rests = tuple(sorted(f"{of.value} {table}" for table, of in tables.items()))
    found = _spread(
        held,
        [table_error(of, table) for table, of in tables.items()],
        _is_beyond_measured(model, state),
        rests,
        because,
    )
    if (
        state.rewrites > 1 and held.kind == "extrapolation"
    ):  # several rewrites were never measured: assume that each costs at most what one does
        parts = model.time.parts(state.depth, state.entries, state.counters, state.rewrites)
        found = replace(
            found, low=min(found.low, 1000 / (sum(parts.values()) + (state.rewrites - 1) * parts["rewrite"]))
        )
    if state.depth > 1:  # it cannot be faster than through one table
        found = replace(
            found, high=max(found.value, min(found.high, rate_estimate(model, replace(state, depth=1)).high))
        )
    return found


def latency_estimate(model: Model, state: SwitchState) -> Estimate:
    """Estimate the latency at low load, in us. It was measured without rewrites and with few entries."""
    held = model.latency(state)
    if held.kind == "reading" and not state.rewrites:
        return _reading(model, held)
    tables = [(model.card, "depth-latency")]
    because = []
    if held.kind == "extrapolation" and not state.tracking:
        because.append(f"latency was not measured at depth {state.depth} and beyond")
    if state.rewrites:
        because.append("latency was measured without rewrites")
        held = replace(held, kind="extrapolation", low=0.0, high=float("inf"))
    if state.tracking:
        tables.append((Hardware.BLUEFIELD_2, "tracking-latency"))
        because.append("what tracking adds to latency was measured on bluefield-2 at depth 1")
    errors = [table_error(card, table) for card, table in tables]
    rests = tuple(f"{card.value} {table}" for card, table in tables)
    return _spread(held, errors, _is_beyond_measured(model, state), rests, tuple(because))


def _why(model: Model, state: SwitchState) -> list[str]:
    reasons = []
    several = [
        state.depth > 1 and f"depth {state.depth}",
        state.rewrites > 0 and "a rewrite",
        state.entries > 64_000 and f"{state.entries} entries",
    ]
    conditions = [word for word in several if word]
    if len(conditions) > 1:
        reasons.append(f"{' and '.join(conditions)} were measured separately, never together")
    if state.rewrites > 1:
        reasons.append(f"{state.rewrites} fields are rewritten, and one was when it was measured")
    if "rewrite" in model.time.borrowed and state.rewrites:
        reasons.append(f"what a rewrite costs was measured on {model.other.value} only")
    depths = [row.depth for _, row in model.rows.of(model.card, "switch-rate")]
    if state.depth > max(depths):
        reasons.append(f"depth {state.depth} is beyond {max(depths)}, the greatest that was measured")
    entries = max(row.entries for _, row in model.rows.of(model.card, "switch-rate"))
    if state.entries > entries:
        reasons.append(f"{state.entries} entries are beyond {entries}, the most that were measured")
    return reasons or ["no measurement of this state"]


def _reading(model: Model, held: BoundedFigure) -> Estimate:
    rests = tuple(dict.fromkeys(f"{model.card.value} {name.partition('[')[0]}" for name in held.rows))
    return Estimate(held.value, held.low, held.high, "reading", rests)


def _is_beyond_measured(model: Model, state: SwitchState) -> bool:
    """Whether the state has more tables or more entries than any that was measured."""
    rows = model.rows.values(model.card, "switch-rate")
    return state.depth > max(r.depth for r in rows) or state.entries > max(r.entries for r in rows)


def _spread(
    held: BoundedFigure,
    errors: Sequence[float],
    beyond_measured: bool,
    rests: tuple[str, ...],
    because: tuple[str, ...],
) -> Estimate:
    """Return the figure with the range from the sum of the leave-one-out errors, within the figure's own bounds."""
    factor = 1 + sum(errors) * (CAUTION if beyond_measured else 1.0)
    low = max(held.value / factor, min(held.low, held.value))
    high = min(held.value * factor, max(held.high, held.value))
    return Estimate(held.value, low, high, held.kind, rests, because)
