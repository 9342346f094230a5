"""What can change on the overview: the switch, and the VIPs as tiles or, of many, as rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from dnsteer.console.desk import Desk, Picture
from dnsteer.console.vip_filter import filter_of
from dnsteer.console.vip_list import (
    MAX_ROWS,
    ROWS_FROM,
    ListedVip,
    VipOrder,
    by_trouble,
    chosen_vips,
    unannounced_vips,
    vip_levels,
)
from dnsteer.status.pools import PoolView
from dnsteer.view import wording

HealthOf = Callable[[Picture, Sequence[PoolView]], str]
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
        self, key: str, picture: Picture, pools: Mapping[str, Sequence[PoolView]]
    ) -> tuple[str, dict[str, str], dict[str, Any]]:
        """The shape, parts and numbers of the page."""
        side = picture.side
        if side is None:
            return "nothing", {}, {}
        spec, wanted = side.known.spec, filter_of(key)
        levels = vip_levels(picture, spec, pools)
        vips = chosen_vips(wanted, spec, levels, unannounced_vips(picture.seen.agent, spec))
        health = {name: Markup(self._health_of(picture, views)) for name, views in pools.items()}
        shape, parts = f"{picture.seen.bridge} {side.known.state.number}", dict[str, str]()
        shown: Sequence[ListedVip] = vips
        if len(spec.vips) >= ROWS_FROM:
            ordered = by_trouble(vips, self._order.ranks(picture, side.known))
            shown = ordered if wanted.all else ordered[:MAX_ROWS]
            parts["rows"] = self._rows_of(key, shown, health)
            parts["more"] = str(self._macros.more_vips(ordered[len(shown) :], vips, wanted))
        else:
            shape += f" {' '.join(str(each.place) for each in shown)}"
            parts.update({f"vip-{v.place}": str(self._macros.vip_state(v, health.get(v.vip.pool, ""))) for v in shown})
        parts["found"] = str(self._macros.found(len(vips), len(spec.vips), wanted))
        parts["unfiltered"] = str(self._macros.show_all(wanted))
        values = _rates(picture, shown)
        for letter, unit in (("q", "queries"), ("p", "packets")):
            values[letter] = wording.rounded(sum(picture.rates.get(("vip", v.name, unit)) or 0.0 for v in vips))
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


def overview_page(picture: Picture, desk: Desk, key: str) -> dict[str, Any]:
    """What the page has beside its parts: the filter, and tiles with their lines."""
    side, wanted = picture.side, filter_of(key)
    page: dict[str, Any] = {
        "filter": wanted,
        "pools": (),
        "rows": False,
        "tiles": (),
        "lines": {},
        "filtered": False,
        "across": 1,
    }
    if side is None:
        return page
    vips = side.known.spec.vips
    rows = len(vips) >= ROWS_FROM
    # A filter in force is always shown, also one that came with a link to a pool that is gone.
    pools = sorted({vip.pool for vip in vips.values()} | ({wanted.pool} if wanted.pool else set()))
    page.update(rows=rows, filtered=len(vips) > _FILTERED_FROM or wanted.chooses, pools=pools)
    if not rows:
        page["tiles"] = list(enumerate(vips.items()))
        page["across"] = _across(sum(wanted.matches(name, vip) for name, vip in vips.items()))
        page["lines"] = desk.traffic.lines([("vip", name, "queries") for name in vips])
    return page


def _across(tiles: int) -> int:
    """Tiles in a row of a wide screen, so that no row is much shorter than the others: 9 are 5 and 4."""
    return -(-tiles // max(1, -(-tiles // _WIDEST))) or 1


def _rates(picture: Picture, vips: Sequence[ListedVip]) -> dict[str, Any]:
    return {
        f"{letter}{each.place}": wording.rounded(picture.rates.get(("vip", each.name, unit)))
        for each in vips
        for letter, unit in (("q", "queries"), ("p", "packets"))
    }
