# SPDX-License-Identifier: Apache-2.0
"""The content of a report: the tables of a switch, bounded, for the template."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from dnsteer.report.gather import ReportFacts
from dnsteer.report.masking import AddressMask, Maskable, Masks, PeopleMask
from dnsteer.slots.membership import Membership
from dnsteer.slots.owners import known_owners_of
from dnsteer.slots.weights import weights_in_the_end
from dnsteer.spec.loaded import Loaded
from dnsteer.status.lists import ListView
from dnsteer.status.pools import BackendView, PoolView, view_pools
from dnsteer.status.switch_status import Status
from dnsteer.status.vips import VipView
from dnsteer.switch.captures import capture_warning
from dnsteer.switch.state import AppliedState
from dnsteer.view.attention_item import AttentionItem, count_levels
from dnsteer.view.drawing import SlotMap, slot_map
from dnsteer.view.html_file import make_html
from dnsteer.view.status_attention import database_away, status_items
from dnsteer.view.wording import ranges

MAX_ITEMS, MAX_ENTRIES, MAX_WARNINGS = 100, 500, 200
MAX_VIPS, MAX_BACKENDS = 2000, 2000
"""Rows of the tables; of more VIPs the busiest are listed, of more backends those of pools with somebody out first."""
MAX_LISTS = 500
"""Rows of the table of access lists, and of that of limits."""
MAX_PICTURES = 24
"""Pools whose slots are drawn; those with somebody out first."""
MAX_SPEC_CHARACTERS = 1 << 19
"""Characters of a spec that is printed."""
_OPEN_LINES = 300
"""Lines of a spec up to which it is shown without a click."""
_PAGES = Path(__file__).parent / "pages"
_CAPTURE = "a capture is under way, or its mirrors are still there"


@dataclass(frozen=True)
class ReportRow:
    """A backend: its number in the picture, addresses, slots as ranges, weight, and its shares by weight and of slots."""

    number: int
    view: BackendView
    addresses: tuple[str, ...]
    slots: str
    weight: int
    wanted: float
    share: float


@dataclass(frozen=True)
class PoolSection:
    """A pool in full. *drawn* is None where its slots are not drawn; *most* is the largest share of its rows."""

    view: PoolView
    rows: tuple[ReportRow, ...]
    vips: int
    drawn: SlotMap | None
    most: float


def report_page(facts: ReportFacts, parts: Iterable[Maskable] = (), options: str = "") -> str:
    """The page. *parts* are left out of it; *options* are added to the commands that it names."""
    left = frozenset(parts)
    facts = _masked(facts, Masks(left, PeopleMask()))
    found = report_items(facts, options)
    status = facts.status
    values = {
        "facts": facts,
        "status": status,
        "items": found[:MAX_ITEMS],
        "more_items": len(found) - MAX_ITEMS,
        "left_out": [part.value for part in Maskable if part in left],
        "python": platform.python_version(),
        **_switch_values(status, left),
    }
    return make_html(_PAGES, "report.html", values, AddressMask() if Maskable.ADDRESSES in left else str)


def report_items(facts: ReportFacts, options: str = "") -> list[AttentionItem]:
    """What needs attention, most urgent first. *options* are added to commands, such as `--bridge br-dns`."""
    if facts.status is None:
        return [database_away(facts.unread[0][1] if facts.unread else "")]
    return status_items(facts.status, facts.time, options)


def state_line(facts: ReportFacts) -> str:
    """The number of items of each level, in a line."""
    counts = {level: n for level, n in count_levels(report_items(facts)).items() if n}
    words = ", ".join(f"{n} {level}{'s' if n > 1 and level != 'critical' else ''}" for level, n in counts.items())
    return words or "nothing needs attention"


def _switch_values(status: Status | None, left: frozenset[Maskable]) -> dict[str, Any]:
    if status is None:
        return {"bridge": "", "name": "", "state": None}
    reading = status.reading
    state, entries = reading.state, list(reading.overlay or ())
    denials = list(reading.overlay.denials if reading.overlay is not None else ())
    vips, pools = _vips(status.vips), _sections(status, state)
    spec = state.text if state is not None and not left - {Maskable.ADDRESSES} else ""
    shown = {section.view.title for section in pools}
    return {
        "bridge": reading.record.bridge,
        "name": reading.record.name,
        "state": state,
        "vips": vips,
        "more_vips": len(status.vips) - len(vips),
        "queries": _sum(v.rate.queries for v in status.vips),
        "packets": _sum(v.rate.packets for v in status.vips),
        "services": services,
        "pools": pools,
        "pool_lines": [(view, *_serving(view)) for view in status.pools],
        "shown": shown,
        "lists": status.lists[:MAX_LISTS],
        "more_lists": len(status.lists) - MAX_LISTS,
        "limits": status.limits[:MAX_LISTS],
        "more_limits": len(status.limits) - MAX_LISTS,
        "entries": entries[:MAX_ENTRIES],
        "more_entries": len(entries) - MAX_ENTRIES,
        "denials": denials[:MAX_ENTRIES],
        "more_denials": len(denials) - MAX_ENTRIES,
        "drift": [d.text(state.file if state is not None else "") for d in status.drift or ()],
        "checked": status.drift is not None,
        "more_drift": (status.drift_count or 0) - len(status.drift or ()),
        "warnings": status.warnings[:MAX_WARNINGS],
        "more_warnings": len(status.warnings) - MAX_WARNINGS,
        "spec": spec if len(spec) <= MAX_SPEC_CHARACTERS else "",
        "spec_is_long": len(spec) > MAX_SPEC_CHARACTERS,
        "spec_left_out": state is not None and not spec,
        "open": spec.count("\n") <= _OPEN_LINES,
    }


def _masked(facts: ReportFacts, masks: Masks) -> ReportFacts:
    """The facts without notes or people."""
    status = facts.status
    if status is None or not {Maskable.NOTES, Maskable.PEOPLE} & masks.parts:
        return facts
    reading = status.reading
    overlay = reading.overlay
    if overlay is not None:
        denials = tuple(map(masks.denial, overlay.denials))
        overlay = replace(overlay, entries=tuple(map(masks.entry, overlay)), denials=denials)
    state = masks.state(reading.state) if reading.state is not None else None
    masked = replace(status, reading=replace(reading, overlay=overlay, state=state))
    masked.pools = view_pools(
        state.members if state else (), overlay, status.rates, facts.time, connections=status.connections
    )
    if Maskable.PEOPLE in masks.parts and status.drift:
        masked.drift = [replace(drift, part=masks.file(drift.part)) for drift in status.drift]
    if Maskable.PEOPLE in masks.parts:
        capture = capture_warning(reading.record)
        texts = [_CAPTURE if capture and capture in text else text for text in status.warnings]
        if reading.state is not None:
            texts = [text.replace(reading.state.file, masks.file(reading.state.file)) for text in texts]
        masked.warnings = texts
        masked.lists = [_without_folders(one, masks) for one in status.lists]
    states = [masks.state(each) if isinstance(each, AppliedState) else each for each in facts.states]
    return replace(facts, status=masked, states=states, by=masks.by(facts.by))


def _without_folders(one: ListView, masks: Masks) -> ListView:
    files = tuple(replace(file, name=masks.file(file.name)) for file in one.files)
    return replace(one, files=files, most=tuple(replace(entry, where=masks.file(entry.where)) for entry in one.most))


def _vips(vips: Sequence[VipView]) -> Sequence[VipView]:
    if len(vips) <= MAX_VIPS:
        return vips
    return sorted(vips, key=lambda vip: -(vip.rate.packets or 0))[:MAX_VIPS]


def services(vip: VipView) -> str:
    """The ports of a VIP, each with its protocols: 53/udp+tcp."""
    ends = sorted((s.port, s.protocol) for s in vip.services)
    grouped = groupby(ends, key=lambda end: end[0])
    return " ".join(f"{port}/{'+'.join(sorted({p for _, p in found}, reverse=True))}" for port, found in grouped)


def _serving(view: PoolView) -> tuple[int, int]:
    """Backends with a weight that are in service, and all with one."""
    weighted = [b for b in view.backends if b.weight]
    return sum(b.state == "up" and bool(b.slots) for b in weighted), len(weighted)


def _sections(status: Status, state: AppliedState | None) -> list[PoolSection]:
    """The pools in full, in the order of the spec, as many as may be listed; those with somebody out first."""
    views = sorted(status.pools, key=lambda view: all(b.state == "up" and b.given is None for b in view.backends))
    room, drawn, chosen = MAX_BACKENDS, MAX_PICTURES, dict[str, PoolSection]()
    members = {m.title: m for m in state.members} if state is not None else {}
    vips = state.vips if state is not None else {}
    for view in views:
        room -= len(view.backends)
        if room < 0 and chosen:
            break
        used = sum(pool == view.name for pool in vips.values())
        chosen[view.title] = _section(status, members[view.title], view, used, draw=drawn > 0)
        drawn -= 1
    return [chosen[view.title] for view in status.pools if view.title in chosen]


def _section(status: Status, pool: Membership, view: PoolView, vips: int, *, draw: bool) -> PoolSection:
    overlay = status.reading.overlay
    entries = overlay.of(view.name) if overlay is not None else ()
    owners = known_owners_of(pool, entries) or ("",) * view.slots if overlay is not None else ()
    weights = dict(weights_in_the_end(pool.weights, [a for a in entries if a.weight is not None]))
    numbers = {backend.name: at for at, backend in enumerate(view.backends, 1)}
    held: dict[str, list[int]] = {}
    for slot, name in enumerate(owners):
        held.setdefault(name, []).append(slot)
    whole, addresses = sum(weights.values()), _addresses(status.loaded, view.name)
    rows = tuple(
        ReportRow(
            numbers[b.name],
            b,
            addresses(b.name),
            ranges(held.get(b.name, ())),
            weights.get(b.name, b.weight),
            weights.get(b.name, 0) / whole if whole else 0.0,
            (b.slots or 0) / view.slots,
        )
        for b in view.backends
    )
    most = max((max(row.wanted, row.share) for row in rows), default=0.0)
    return PoolSection(view, rows, vips, slot_map(owners, numbers, ()) if draw and owners else None, most)


def _addresses(loaded: Loaded | None, name: str) -> Callable[[str], tuple[str, ...]]:
    """The addresses of a backend of a pool by name, of those of its backup too."""
    pool = loaded.spec.pools.get(name) if loaded is not None else None
    backup = (
        loaded.spec.pools.get(pool.backup.pool) if loaded is not None and pool is not None and pool.backup else None
    )
    known = {b.name: b for each in (backup, pool) if each is not None for b in each.backends}

    def of(backend: str) -> tuple[str, ...]:
        found = known.get(backend)
        return tuple(str(a) for a in (found.ipv4, found.ipv6) if a is not None) if found is not None else ()

    return of


def _sum(rates: Iterable[float | None]) -> float | None:
    found = list(rates)
    known = [rate for rate in found if rate is not None]
    return sum(known) if found and len(known) == len(found) else None
