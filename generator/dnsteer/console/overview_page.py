# SPDX-License-Identifier: Apache-2.0
"""The overview: the switch, and its VIPs as tiles or, of many, as rows, by the filter of its address (`/?text=dns`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode

from markupsafe import Markup

from dnsteer.console.page_data import PageData, PageHistory
from dnsteer.metrics.observer import AppliedBridge
from dnsteer.spec.announced import announced_vips
from dnsteer.spec.model.spec import Spec, Vip
from dnsteer.status.agent_knowledge import AgentKnowledge, UnannouncedVip
from dnsteer.status.pools import PoolView
from dnsteer.view import wording

KEY = "overview"
FIELDS = ("text", "pool", "trouble", "all")
_LONGEST = 100
"""Characters of a value; no name or address has as many."""


@dataclass(frozen=True)
class VipFilter:
    """VIPs of a *pool* whose name, addresses or pool contain a *text*; with *trouble* only those that have some.

    With *all* every one of them is listed, however many there are.
    """

    text: str = ""
    pool: str = ""
    trouble: bool = False
    all: bool = False

    @property
    def is_restrictive(self) -> bool:
        """Whether it leaves VIPs out."""
        return bool(self.text or self.pool or self.trouble)

    @property
    def address(self) -> str:
        """The address of the overview with this filter and all VIPs that pass it."""
        return f"/?{_encoded(VipFilter(self.text, self.pool, self.trouble, True))}"

    def matches(self, name: str, vip: Vip) -> bool:
        """Whether a VIP passes, apart from trouble."""
        if self.pool and vip.pool != self.pool:
            return False
        wanted = self.text.lower()
        return not wanted or any(wanted in text.lower() for text in (name, vip.pool, *map(str, vip.addresses)))


def filter_key(given: Mapping[str, str]) -> str:
    """The page's key: what the filter says, in one order, so that equal filters are one page."""
    text, pool = (given.get(name, "").strip()[:_LONGEST] for name in ("text", "pool"))
    return _key_of(VipFilter(text, pool, bool(given.get("trouble")), bool(given.get("all"))))


def filter_of(key: str) -> VipFilter:
    """The filter of a key of the overview."""
    try:
        found = dict(parse_qsl(key.partition("?")[2], max_num_fields=len(FIELDS)))
    except ValueError:  # so many that it is none of ours
        found = {}
    return VipFilter(found.get("text", ""), found.get("pool", ""), "trouble" in found, "all" in found)


def is_overview(key: str) -> bool:
    """Whether it is a key that `filter_key` gives."""
    return key == _key_of(filter_of(key))


def _key_of(wanted: VipFilter) -> str:
    encoded = _encoded(wanted)
    return f"{KEY}?{encoded}" if encoded else KEY


def _encoded(wanted: VipFilter) -> str:
    fields = (wanted.text, wanted.pool, "on" if wanted.trouble else "", "on" if wanted.all else "")
    return urlencode({name: value for name, value in zip(FIELDS, fields, strict=True) if value})


ROWS_FROM = 24
"""VIPs from which they are rows instead of tiles."""
MAX_ROWS = 40
"""Rows that are listed where not all are asked for."""
ORDER_KEPT = timedelta(seconds=30)
"""Time for which VIPs keep their order by rate: rows that always move cannot be read."""
LEVELS = ("critical", "warning", "note", "")
"""Most urgent first. critical: no backend serves, or its pool or it has a critical item. warning: some fail, or are alone.

note: people have some out, and at least two serve.
"""
TROUBLE = LEVELS[:2]
"""Planned maintenance is no trouble: otherwise each round through all pools would hide what is."""


_PLANNED = ("drained", "draining", "down")
"""States that people give to a backend."""


@dataclass(frozen=True)
class ListedVip:
    """A VIP in the list. *place* is that in the spec; *unannounced* is why routers do not have it."""

    place: int
    name: str
    vip: Vip
    level: str
    unannounced: UnannouncedVip | None

    @property
    def in_trouble(self) -> bool:
        """Whether it has other than planned trouble."""
        return self.level in TROUBLE


def pool_level(views: Sequence[PoolView], *, panic: bool) -> str:
    """How much trouble the backends of a pool are."""
    if panic:
        return "critical"
    return LEVELS[min((LEVELS.index(_view_level(view)) for view in views), default=len(LEVELS) - 1)]


def _view_level(view: PoolView) -> str:
    weighted = [backend for backend in view.backends if backend.weight]
    serving = sum(backend.state == "up" and bool(backend.slots) for backend in weighted)
    if weighted and not serving:
        return "critical"
    out = [backend for backend in view.backends if backend.state != "up"]
    if any(backend.state not in _PLANNED or backend.overdue for backend in out):
        return "warning"
    return ("note" if serving > 1 else "warning") if out else ""


def vip_levels(data: PageData, spec: Spec, pools: Mapping[str, Sequence[PoolView]]) -> dict[str, str]:
    """The trouble of each VIP: of its pool's backends, and of what needs attention."""
    last = len(LEVELS) - 1
    by_pool = {
        name: LEVELS.index(pool_level(views, panic=name in data.snapshot.panics)) for name, views in pools.items()
    }
    by_vip: dict[str, int] = {}
    for item in data.items:
        if item.level not in TROUBLE:
            continue
        level = LEVELS.index(item.level)
        for named in item.vips:
            name = named.partition(" ")[0]  # a service may follow
            by_vip[name] = min(level, by_vip.get(name, level))
        if item.pool and not item.vips:
            by_pool[item.pool] = min(level, by_pool.get(item.pool, level))
    return {name: LEVELS[min(by_pool.get(vip.pool, last), by_vip.get(name, last))] for name, vip in spec.vips.items()}


def unannounced_vips(agent: AgentKnowledge, spec: Spec) -> dict[str, UnannouncedVip]:
    """The VIPs that the switch is to announce, and does not."""
    wanted = announced_vips(spec)
    return {each.vip: each for each in agent.unannounced if each.vip in wanted}


class VipOrder:
    """The order of VIPs by rate, which is kept for a while. Used by one thread at a time."""

    def __init__(self) -> None:
        self._of: tuple[AppliedBridge | None, datetime | None] = (None, None)
        self._ranks: dict[str, int] = {}

    def ranks(self, data: PageData, known: AppliedBridge) -> Mapping[str, int]:
        """The place of each VIP, those with most queries first; without rates that of the spec."""
        rates = {name: _rate(data.rates, name) for name in known.spec.vips}
        of, at = self._of
        if of is not known or at is None or not at <= data.time < at + ORDER_KEPT:
            order = sorted(rates, key=lambda name: -(rates[name] or 0.0))
            self._ranks = {name: rank for rank, name in enumerate(order)}
            has_rates = any(rate is not None for rate in rates.values())
            self._of = known, data.time if has_rates else None
        return self._ranks


def _rate(rates: Mapping[Hashable, float | None], name: str) -> float | None:
    """Queries a second; packets where a VIP has no queries, as with TCP services alone."""
    return rates.get(("vip", name, "queries")) or rates.get(("vip", name, "packets"))


def chosen_vips(
    wanted: VipFilter, spec: Spec, levels: Mapping[str, str], unannounced: Mapping[str, UnannouncedVip]
) -> list[ListedVip]:
    """The VIPs that pass a filter, in the order of the spec."""
    return [
        ListedVip(place, name, vip, levels[name], unannounced.get(name))
        for place, (name, vip) in enumerate(spec.vips.items())
        if wanted.matches(name, vip) and (levels[name] in TROUBLE or not wanted.trouble)
    ]


def by_trouble(vips: Sequence[ListedVip], ranks: Mapping[str, int]) -> list[ListedVip]:
    """VIPs with the most urgent trouble first, then those with the most queries."""
    return sorted(vips, key=lambda each: (LEVELS.index(each.level), ranks[each.name]))


HealthOf = Callable[[PageData, Sequence[PoolView]], str]
"""Who is in service in a pool, as HTML."""
_WIDEST = 6
"""Tiles in a row of a wide screen at most."""
_FILTERED_FROM = 12
"""VIPs from which there is a filter."""
_KEPT = 64


class OverviewParts:
    """Makes the parts of the overview. Used by one thread at a time. *health_of* is for tiles and rows alike."""

    def __init__(self, macros: Any, health_of: HealthOf) -> None:
        self._macros, self._health_of = macros, health_of
        self._order = VipOrder()
        self._rows: dict[str, tuple[object, str]] = {}
        """The rows of each filter, and what they were made of."""

    def content(
        self, key: str, data: PageData, pools: Mapping[str, Sequence[PoolView]]
    ) -> tuple[str, dict[str, str], dict[str, Any]]:
        """The shape, parts and numbers of the page."""
        applied = data.applied
        if applied is None:
            return "nothing", {}, {}
        spec, wanted = applied.known.spec, filter_of(key)
        levels = vip_levels(data, spec, pools)
        vips = chosen_vips(wanted, spec, levels, unannounced_vips(data.snapshot.agent, spec))
        health = {name: Markup(self._health_of(data, views)) for name, views in pools.items()}
        shape, parts = f"{data.snapshot.bridge} {applied.known.state.number}", dict[str, str]()
        shown: Sequence[ListedVip] = vips
        if len(spec.vips) >= ROWS_FROM:
            ordered = by_trouble(vips, self._order.ranks(data, applied.known))
            shown = ordered if wanted.all else ordered[:MAX_ROWS]
            parts["rows"] = self._rows_of(key, shown, health)
            parts["more"] = str(self._macros.more_vips(ordered[len(shown) :], vips, wanted))
        else:
            shape += f" {' '.join(str(each.place) for each in shown)}"
            parts.update({f"vip-{v.place}": str(self._macros.vip_state(v, health.get(v.vip.pool, ""))) for v in shown})
        parts["found"] = str(self._macros.found(len(vips), len(spec.vips), wanted))
        parts["unfiltered"] = str(self._macros.show_all(wanted))
        values = _rates(data, shown)
        for letter, unit in (("q", "queries"), ("p", "packets")):
            values[letter] = wording.rounded(sum(data.rates.get(("vip", v.name, unit)) or 0.0 for v in vips))
        return shape, parts, values

    def _rows_of(self, key: str, vips: Sequence[ListedVip], health: Mapping[str, str]) -> str:
        """The rows, made anew where they have changed, since there may be a thousand."""
        of = [(each, health.get(each.vip.pool, "")) for each in vips]
        known = self._rows.get(key)
        if known is None or known[0] != of:
            if len(self._rows) >= _KEPT:
                self._rows.clear()
            known = self._rows[key] = of, str(self._macros.vip_rows(of))
        return known[1]


def overview_values(data: PageData, history: PageHistory, key: str) -> dict[str, Any]:
    """What the page has beside its parts: the filter, and tiles with their lines."""
    applied, wanted = data.applied, filter_of(key)
    page: dict[str, Any] = {
        "filter": wanted,
        "pools": (),
        "rows": False,
        "tiles": (),
        "lines": {},
        "filtered": False,
        "across": 1,
    }
    if applied is None:
        return page
    vips = applied.known.spec.vips
    rows = len(vips) >= ROWS_FROM
    # A filter in force is always shown, also one that came with a link to a pool that is gone.
    pools = sorted({vip.pool for vip in vips.values()} | ({wanted.pool} if wanted.pool else set()))
    page.update(rows=rows, filtered=len(vips) > _FILTERED_FROM or wanted.is_restrictive, pools=pools)
    if not rows:
        page["tiles"] = list(enumerate(vips.items()))
        page["across"] = _across(sum(wanted.matches(name, vip) for name, vip in vips.items()))
        page["lines"] = history.traffic.lines([("vip", name, "queries") for name in vips])
    return page


def _across(tiles: int) -> int:
    """Tiles in a row of a wide screen, so that no row is much shorter than the others: 9 are 5 and 4."""
    return -(-tiles // max(1, -(-tiles // _WIDEST))) or 1


def _rates(data: PageData, vips: Sequence[ListedVip]) -> dict[str, Any]:
    return {
        f"{letter}{each.place}": wording.rounded(data.rates.get(("vip", each.name, unit)))
        for each in vips
        for letter, unit in (("q", "queries"), ("p", "packets"))
    }
