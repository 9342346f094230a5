# SPDX-License-Identifier: Apache-2.0
"""The page of a pool: a map of its slots, its backends and their states over time, and the slots that moved last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dnsteer.console.change_log import PoolChange, StatePeriod
from dnsteer.console.page_data import PageData, PageHistory, owners_by_title
from dnsteer.slots.weights import weights_in_the_end
from dnsteer.status.pools import BackendView, PoolView
from dnsteer.view.drawing import slot_map
from dnsteer.view.wording import ranges, rounded

HEAT = 5
"""Steps of the colour of a slot's rate."""
LONGEST = timedelta(hours=24)
"""The past that is drawn."""
_STEP = timedelta(seconds=10)
"""The end of what is drawn is a multiple of this, so that it is not sent anew each time."""


@dataclass(frozen=True)
class BackendRow:
    """A backend in the tables: its number in the legend, and what is drawn and listed of it."""

    number: int
    view: BackendView
    addresses: tuple[str, ...]
    slots: str
    share: float
    past: tuple[Segment, ...]
    failing: str


@dataclass(frozen=True)
class SlotMove:
    """Slots that moved from one backend to another."""

    before: str
    after: str
    slots: str
    count: int


def pool_parts(
    macros: Any,
    n: int,
    view: PoolView,
    data: PageData,
    history: PageHistory,
    parts: dict[str, str],
    values: dict[str, Any],
) -> None:
    """Add the parts and numbers of one pool, the *n*th on the page."""
    applied = data.applied
    assert applied is not None
    owners = owners_by_title(applied, view.title) or ("",) * view.slots  # it drops
    own = owners_by_title(applied, view.title, everybody=True)
    numbers = {backend.name: at for at, backend in enumerate(view.backends, 1)}
    change = history.log.pools.get(view.title)
    members = next(m for m in applied.known.state.members if m.title == view.title)
    drawn = slot_map(owners, numbers, change.moved if change else ())
    parts[f"map-{n}"] = str(macros.slots(drawn, view, owners, own, numbers))
    parts[f"moved-{n}"] = str(macros.moved(change, _ways(change), view, data.snapshot))
    weights = dict(
        weights_in_the_end(members.weights, [a for a in applied.overlay.of(view.name) if a.weight is not None])
    )
    begin, end = _span(data, history, view)
    rows = _rows(view, data, history, owners, begin, end)
    whole = sum(weights.values())
    most = max([row.share for row in rows] + ([max(weights.values()) / whole] if whole else []), default=0.0)
    parts[f"backends-{n}"] = str(macros.backends(n, rows, view, weights, whole, most, begin, end))
    for backend in view.backends:
        for letter, unit in (("q", "queries"), ("p", "packets")):
            rate = data.rates.get(("backend", view.name, backend.name, unit))
            values[f"{letter}-{n}-{numbers[backend.name]}"] = rounded(rate)
    series = history.slots.get(view.title)
    counted = series.rates() if series is not None else {}
    by_slot = [counted.get(slot) for slot in range(view.slots)] if counted else []
    parts[f"heat-{n}"] = str(macros.heat(heat(by_slot), drawn.wide, drawn.box, by_slot))
    values[f"s-{n}"] = [None if rate is None else rounded(rate) for rate in by_slot]


def _rows(
    view: PoolView, data: PageData, history: PageHistory, owners: tuple[str, ...], begin: datetime, end: datetime
) -> list[BackendRow]:
    applied = data.applied
    assert applied is not None
    spec = applied.known.spec.pools.get(view.name)
    backup = applied.known.spec.pools.get(spec.backup.pool) if spec is not None and spec.backup is not None else None
    known = {b.name: b for pool in (backup, spec) if pool is not None for b in pool.backends}
    held: dict[str, list[int]] = {}
    for slot, name in enumerate(owners):
        held.setdefault(name, []).append(slot)
    rows = []
    for number, backend in enumerate(view.backends, 1):
        spec_of = known.get(backend.name)
        addresses = [str(a) for a in (spec_of.ipv4, spec_of.ipv6) if a is not None] if spec_of is not None else []
        whys = data.snapshot.failing.get((view.name, backend.name), {})
        periods = list(history.log.periods.get((view.title, backend.name), ()))
        rows.append(
            BackendRow(
                number,
                backend,
                tuple(addresses),
                ranges(held.get(backend.name, ())),
                len(held.get(backend.name, ())) / view.slots,
                tuple(segments(periods, begin, end)),
                "; ".join(whys.values()),
            )
        )
    return rows


def _span(data: PageData, history: PageHistory, view: PoolView) -> tuple[datetime, datetime]:
    """The time that is drawn: since the agent saw the pool first, at most LONGEST, to a multiple of _STEP."""
    now = data.time
    first = min(
        (periods[0].time for (title, _), periods in history.log.periods.items() if title == view.title and periods),
        default=now,
    )
    since = datetime.min.replace(tzinfo=now.tzinfo)
    end = since + -(-(now - since) // _STEP) * _STEP
    return max(first, end - LONGEST), end


def _ways(change: PoolChange | None) -> list[SlotMove]:
    found: dict[tuple[str, str], list[int]] = {}
    for slot, way in (change.moved if change is not None else {}).items():
        found.setdefault(way, []).append(slot)
    order: list[tuple[tuple[str, str], list[int]]] = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return [SlotMove(a, b, ranges(slots), len(slots)) for (a, b), slots in order]


def heat(rates: Sequence[float | None]) -> list[int]:
    """A step from 0 (nothing) to HEAT (the busiest) for each slot; 0 for unknown ones too."""
    most = max((rate for rate in rates if rate), default=0.0)
    return [0 if not rate or not most else min(HEAT, 1 + int(HEAT * rate / most * 0.9999)) for rate in rates]


@dataclass(frozen=True)
class Segment:
    """A state from *x* on, *width* wide, both in per mille of the time."""

    x: float
    width: float
    period: StatePeriod


def segments(periods: Sequence[StatePeriod], begin: datetime, end: datetime) -> list[Segment]:
    """The states of a backend between two times."""
    whole = max((end - begin).total_seconds(), 1.0)
    out = []
    for period, later in zip(periods, [*(t.time for t in periods[1:]), end], strict=True):
        a = max(0.0, (period.time - begin).total_seconds() / whole)
        b = min(1.0, (later - begin).total_seconds() / whole)
        if b > 0 and b >= a:
            out.append(Segment(round(1000 * a, 1), max(2.0, round(1000 * (b - a), 1)), period))
    return out
