"""The VIPs of the overview: what trouble each has, and in which order they are listed."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from dnsteer.console.desk import Picture
from dnsteer.console.vip_filter import VipFilter
from dnsteer.metrics.observer import Known
from dnsteer.spec.announced import announced_vips
from dnsteer.spec.model.spec import Spec, Vip
from dnsteer.status.agent_knowledge import AgentKnowledge, UnannouncedVip
from dnsteer.status.pools import PoolView

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


def vip_levels(picture: Picture, spec: Spec, pools: Mapping[str, Sequence[PoolView]]) -> dict[str, str]:
    """The trouble of each VIP: of its pool's backends, and of what needs attention."""
    last = len(LEVELS) - 1
    by_pool = {
        name: LEVELS.index(pool_level(views, panic=name in picture.seen.panics)) for name, views in pools.items()
    }
    by_vip: dict[str, int] = {}
    for item in picture.items:
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
        self._of: tuple[Known | None, datetime | None] = (None, None)
        self._ranks: dict[str, int] = {}

    def ranks(self, picture: Picture, known: Known) -> Mapping[str, int]:
        """The place of each VIP, those with most queries first; without rates that of the spec."""
        rates = {name: _rate(picture.rates, name) for name in known.spec.vips}
        of, at = self._of
        if of is not known or at is None or not at <= picture.time < at + ORDER_KEPT:
            order = sorted(rates, key=lambda name: -(rates[name] or 0.0))
            self._ranks = {name: rank for rank, name in enumerate(order)}
            has_rates = any(rate is not None for rate in rates.values())
            self._of = known, picture.time if has_rates else None
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
