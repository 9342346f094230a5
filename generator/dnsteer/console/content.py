"""The pages: their parts as HTML, the numbers in them, and pages as a whole. The templates, all escaped, are in pages/."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from dnsteer import __version__
from dnsteer.console import drawing, numbers
from dnsteer.console.attention_item import AttentionItem, count
from dnsteer.console.defects import Defect
from dnsteer.console.desk import Desk, Picture
from dnsteer.console.offload_content import KEY as OFFLOAD
from dnsteer.console.offload_content import OffloadParts, offload_page
from dnsteer.console.path_content import path_page, path_parts
from dnsteer.console.path_query import KEY as PATH
from dnsteer.console.path_query import MAX_LISTED, is_key
from dnsteer.console.pool_content import pool_parts
from dnsteer.deploy.rollback import rolled_back
from dnsteer.slots.maintenance import Overlay
from dnsteer.status.pools import PoolView
from dnsteer.switch.state import AppliedState, DamagedError

FOLDER = Path(__file__).parent
DEFECT = "defect"
"""The shape of a page that cannot be made because of a defect."""
LATER = "<!--later-->"
"""The place in a page of what `ConsolePages.later` makes: what is before it can be sent meanwhile."""


class NoPageError(Exception):
    """There is no such page, or not any more."""


@dataclass(frozen=True)
class Content:
    """What can change on a page: *parts* are HTML and *numbers* values, by name. Another *shape* is another page."""

    shape: str
    parts: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, Any] = field(default_factory=dict)


def defect_content(defect: Defect) -> Content:
    """What is shown instead of a page that cannot be made."""
    return Content(DEFECT, {"defect": str(escape(str(defect)))})


@dataclass(frozen=True)
class States:
    """The recorded states, newest first, as of the record *key*; *error* is why they could not be read."""

    key: object = None
    states: tuple[AppliedState | DamagedError, ...] = ()
    error: str = ""


@cache
def _templates() -> jinja2.Environment:
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "pages"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    env.filters.update(
        number=numbers.number, moment=numbers.moment, ranges=numbers.ranges, spark=drawing.spark,
        colour=drawing.colour, variant=drawing.variant, places=_places,
    )  # fmt: skip
    env.globals.update(version=__version__, percent=numbers.percent, cells=drawing.cells, most_listed=MAX_LISTED)
    return env


class ConsolePages:
    """Makes pages. `content` and `page` are for one thread at a time, as what they have of the past is.

    `render` and `fragment` keep nothing, so that any thread may call them: Jinja's templates are safe to be used by several.
    """

    def __init__(self) -> None:
        self._env = _templates()
        self._macros: Any = self._env.get_template("parts.html").module
        self._path_macros: Any = self._env.get_template("path_parts.html").module
        self._offload = OffloadParts(self._env.get_template("offload_parts.html").module)
        self._forms: Any = self._env.get_template("visitor.html").module
        self._health: dict[tuple[str, ...], tuple[object, str]] = {}

    def check(self, key: str, picture: Picture) -> None:
        """Raise NoPageError if there is no page *key*."""
        if key not in _PAGES and not is_key(key) and not (key.startswith("pool/") and key[5:] in _pools(picture)):
            raise NoPageError(key)

    def content(self, key: str, picture: Picture, desk: Desk, states: States, read: object = None) -> Content:
        """What can change on a page; *read* is what was read for it alone. Raises NoPageError."""
        self.check(key, picture)
        if is_key(key) or key == OFFLOAD:
            if key == OFFLOAD:
                shape, parts, values = self._offload.content(picture, read)
            else:
                shape, parts, values = path_parts(self._path_macros, key, picture, read)
            return Content(shape, {**self._common(picture, ()), **parts}, values)
        if key == "changes":
            return self._changes(picture, desk, states)
        if key == "pools":
            return self._pools_list(picture)
        if key.startswith("pool/"):
            return self._pool(key[5:], picture, desk)
        return self._overview(picture)

    def page(
        self,
        key: str,
        picture: Picture,
        shape: str,
        parts: Mapping[str, str],
        values: Mapping[str, Any],
        version: str,
        desk: Desk,
    ) -> str:
        """The page as a whole."""
        name = "pool" if key.startswith("pool/") else PATH if is_key(key) else key
        more: Mapping[str, Any] = {}
        if shape != DEFECT:
            more = _PAGES[name](picture, desk, key) if name in _PAGES else _pool_page(picture, key)
        counts = count(picture.items)
        return self._env.get_template(f"{DEFECT if shape == DEFECT else name}.html").render(
            page=name, key=key, picture=picture, seen=picture.seen, parts=_Safe(parts, values), numbers=values,
            since=version, counts=counts, **more,
        )  # fmt: skip

    def later(self, picture: Picture, parts: Mapping[str, str], values: Mapping[str, Any], desk: Desk) -> str:
        """The tiles of the overview, of which there may be a thousand."""
        assert picture.side is not None
        vips = picture.side.known.spec.vips
        lines = desk.traffic.lines([("vip", name, "queries") for name in vips])
        tiles = self._env.get_template("tiles.html")
        return tiles.render(vips=vips, lines=lines, parts=_Safe(parts, values), numbers=values)

    def defect(self, defect: Defect) -> str:
        """What is shown in the place of LATER where that cannot be made."""
        return str(self._macros.defect(str(defect)))

    def render(self, name: str, **values: Any) -> str:
        """A page that is made for one request: a form, or what came of one."""
        return self._env.get_template(name).render(key="", since="", **values)

    def fragment(self, macro: str, *args: object) -> str:
        """A part of a page for one visitor alone, from visitor.html."""
        return str(getattr(self._forms, macro)(*args))

    def _common(self, picture: Picture, items: Sequence[AttentionItem], *, own_page: bool = False) -> dict[str, str]:
        stale = str(self._macros.stale(picture.stale)) if picture.stale is not None else ""
        return {"attention": str(self._macros.attention(items, own_page)), "stale": stale}

    def _overview(self, picture: Picture) -> Content:
        side = picture.side
        parts = {**self._common(picture, picture.items), "switch": str(self._macros.switch(picture, picture.seen))}
        if side is None:
            return Content("nothing", parts)
        health = {name: self._health_of(picture, views) for name, views in _pools(picture).items()}
        parts.update({f"vip-{n}": health.get(vip.pool, "") for n, vip in enumerate(side.known.spec.vips.values())})
        values: dict[str, Any] = {"q": 0.0, "p": 0.0}
        for n, name in enumerate(side.known.spec.vips):
            for letter, unit in (("q", "queries"), ("p", "packets")):
                rate = picture.rates.get(("vip", name, unit))
                values[f"{letter}{n}"] = numbers.rounded(rate)
                values[letter] += rate or 0.0
        values.update({letter: numbers.rounded(values[letter]) for letter in ("q", "p")})
        return Content(f"{picture.seen.bridge} {side.known.state.number}", parts, values)

    def _health_of(self, picture: Picture, views: Sequence[PoolView]) -> str:
        """Who is in service in a pool: made anew where that has changed, since there may be a thousand pools."""
        titles, key = tuple(view.title for view in views), (views, views[0].name in picture.seen.panics)
        known = self._health.get(titles)
        if known is None or known[0] != key:
            if len(self._health) >= 2 * len(picture.pools):
                self._health.clear()  # those of pools that are gone
            known = self._health[titles] = key, str(self._macros.health(views, picture.seen))
        return known[1]

    def _pools_list(self, picture: Picture) -> Content:
        side = picture.side
        parts = self._common(picture, ())
        if side is None:
            return Content("nothing", parts)
        rows = {f"pool-{n}": self._health_of(picture, [view]) for n, view in enumerate(picture.pools)}
        values = {f"q{n}": numbers.rounded(pool_rate(picture, v)) for n, v in enumerate(picture.pools)}
        return Content(f"{picture.seen.bridge} {side.known.state.number}", {**parts, **rows}, values)

    def _pool(self, name: str, picture: Picture, desk: Desk) -> Content:
        side = picture.side
        assert side is not None
        items = [item for item in picture.items if item.pool == name or item.stale]
        parts, values = self._common(picture, items, own_page=True), dict[str, Any]()
        views = _pools(picture)[name]
        for n, view in enumerate(views):
            pool_parts(self._macros, n, view, picture, desk, parts, values)
        return Content(f"{picture.seen.bridge} {side.known.state.number} {len(views)}", parts, values)

    def _changes(self, picture: Picture, desk: Desk, states: States) -> Content:
        overlay = picture.side.overlay if picture.side is not None else Overlay()
        current = picture.side.known.state.number if picture.side is not None else 0
        parts = {
            **self._common(picture, ()),
            "maintenance": str(self._macros.maintenance(overlay, picture)),
            "seen": str(self._macros.changes_seen(desk.log.changes, picture.seen)),
            "states": str(self._macros.states(states, current, rolled_back(states.states))),
        }
        return Content("changes", parts)


class _Safe:
    """Parts that are HTML already, by name. Numbers that they leave out, as these change more often, are filled in."""

    def has(self, name: str) -> bool:
        """Whether the page has that part."""
        return name in self._parts

    def __init__(self, parts: Mapping[str, str], values: Mapping[str, Any]) -> None:
        self._parts, self._values = parts, values

    def __getitem__(self, name: str) -> str:
        filled = _LEFT_OUT.sub(lambda m: m[1] + numbers.number(self._values.get(m[2])), self._parts[name])
        return Markup(filled)  # made by our own templates, which escape


_LEFT_OUT = re.compile(r'(data-number="([\w-]+)">)' + numbers.UNKNOWN)


def _places(values: Sequence[int], wanted: int) -> list[int]:
    return [place for place, value in enumerate(values) if value == wanted]


def pool_rate(picture: Picture, view: PoolView, unit: str = "queries") -> float | None:
    """The rate of all backends of a pool; None where one is not known."""
    found = [picture.rates.get(("backend", view.name, backend.name, unit)) for backend in view.backends]
    known = [rate for rate in found if rate is not None]
    return sum(known) if len(known) == len(found) else None


def _pools(picture: Picture) -> dict[str, list[PoolView]]:
    found: dict[str, list[PoolView]] = {}
    for view in picture.pools:
        found.setdefault(view.name, []).append(view)
    return found


def _overview_page(picture: Picture, desk: Desk, key: str) -> dict[str, Any]:
    return {"vips": picture.side.known.spec.vips if picture.side is not None else {}}


def _pool_page(picture: Picture, key: str) -> dict[str, Any]:
    assert picture.side is not None
    spec = picture.side.known.spec
    name = key[5:]
    return {
        "name": name,
        "views": _pools(picture)[name],
        "vips": [v for v, vip in spec.vips.items() if vip.pool == name],
    }


_PAGES: Mapping[str, Callable[[Picture, Desk, str], dict[str, Any]]] = {
    "overview": _overview_page,
    "pools": lambda picture, desk, key: {},
    "changes": lambda picture, desk, key: {},
    PATH: lambda picture, desk, key: path_page(picture, key),
    OFFLOAD: lambda picture, desk, key: offload_page(picture, key),
}
