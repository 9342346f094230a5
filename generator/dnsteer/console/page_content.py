# SPDX-License-Identifier: Apache-2.0
"""Pages from templates: their parts as HTML, the numbers in them, and whole pages. All that templates print is escaped."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup, escape

from dnsteer.console.offload_page import KEY as OFFLOAD
from dnsteer.console.offload_page import OffloadParts, OffloadPoller
from dnsteer.console.overview_page import KEY as OVERVIEW
from dnsteer.console.overview_page import OverviewParts, is_overview, overview_values
from dnsteer.console.page_data import PageData, PageHistory
from dnsteer.console.page_reading import Defect, DefectError
from dnsteer.console.path_page import KEY as PATH
from dnsteer.console.path_page import MAX_LISTED, PathPoller, PathReader, is_key, path_parts, path_values
from dnsteer.console.pool_page import pool_parts
from dnsteer.console.prediction import Predict
from dnsteer.console.vip_page import PREFIX as VIP
from dnsteer.console.vip_page import vip_parts, vip_values
from dnsteer.deploy.rollback import rolled_back
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.errors import file_of_part
from dnsteer.status.pools import PoolView
from dnsteer.switch.state import AppliedState, DamagedError
from dnsteer.view import drawing, wording
from dnsteer.view.attention_item import AttentionItem, count_levels
from dnsteer.view.html_file import page_environment

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
FOLDER = Path(__file__).parent
DEFECT = "defect"
"""The shape of a page that cannot be made because of a defect."""
MAX_ITEMS = 5
"""What needs attention that is shown on pages of other things; the page of all has the rest."""
_ATTENTION = "attention"
_OF_POOL = f"{_ATTENTION}?pool="


def link_vips(text: str, names: Collection[str], before: str = "VIP") -> Markup:
    """A text, escaped, in which each of these VIPs is a link where its name follows the word *before*."""
    out, at = Markup(), 0
    for found in re.finditer(rf"\b{before} ({_NAME})", text):
        name = found[1]
        if name in names:
            out += escape(text[at : found.start(1)]) + link_vip(name)
            at = found.end(1)
    return out + escape(text[at:])


def link_vip(name: str) -> Markup:
    """A link to the page of a VIP."""
    return Markup('<a href="/vips/{}">{}</a>').format(quote(name, safe=""), name)


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
class RecordedStates:
    """The recorded states, newest first, as of the record *key*; *error* is why they could not be read."""

    key: object = None
    states: tuple[AppliedState | DamagedError, ...] = ()
    error: str = ""


@cache
def _templates() -> jinja2.Environment:
    env = page_environment(FOLDER / "pages", interactive=True)
    env.filters.update(file_of_part=file_of_part, spark=drawing.spark, places=_places, vips=link_vips)
    env.globals.update(cells=drawing.cells, most_listed=MAX_LISTED)
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
        self._vip_macros: Any = self._env.get_template("vip_parts.html").module
        self._overview = OverviewParts(self._vip_macros, self._health_of)
        self._health: dict[tuple[str, ...], tuple[object, str]] = {}

    def check(self, key: str, data: PageData) -> None:
        """Raise NoPageError if there is no page *key*."""
        known = (
            key in _SINGLE
            or is_key(key)
            or is_overview(key)
            or _named(key, "pool/", _pools(data))
            or _named(key, _OF_POOL, _pools(data))
            or _named(key, VIP, data.snapshot.vips)
        )
        if not known:
            raise NoPageError(key)

    def content(
        self, key: str, data: PageData, history: PageHistory, states: RecordedStates, read: object = None
    ) -> Content:
        """What can change on a page; *read* is what was read for it alone. Raises NoPageError."""
        self.check(key, data)
        if is_overview(key):
            shape, parts, values = self._overview.content(key, data, _pools(data))
            switch = str(self._macros.switch(data, data.snapshot))
            return Content(shape, {**self._common(data, data.items), "switch": switch, **parts}, values)
        if key.startswith(VIP):
            return self._vip(key[len(VIP) :], data, history, read)
        if key == OFFLOAD:
            shape, parts, values = self._offload.content(data, read)
            return Content(shape, {**self._common(data, ()), **parts}, values)
        if is_key(key):
            shape, parts, values = path_parts(self._path_macros, key, data, read)
            return Content(shape, {**self._common(data, ()), **parts}, values)
        if key == "changes":
            return self._changes(data, history, states)
        if key == "pools":
            return self._pools_list(data)
        if key.startswith("pool/"):
            return self._pool(key[5:], data, history)
        pool = key.removeprefix(_OF_POOL) if key != _ATTENTION else ""
        items = [item for item in data.items if item.pool == pool] if pool else data.items
        return Content(key, self._common(data, items, most=len(items)))

    def page(
        self,
        key: str,
        data: PageData,
        shape: str,
        parts: Mapping[str, str],
        values: Mapping[str, Any],
        version: str,
        history: PageHistory,
    ) -> str:
        """The page as a whole."""
        name = key.partition("/")[0].partition("?")[0]
        more: Mapping[str, Any] = {}
        if shape != DEFECT:
            more = _PAGES[name](data, history, key)
        counts = count_levels(data.items)
        return self._env.get_template(f"{DEFECT if shape == DEFECT else name}.html").render(
            page="overview" if name in _BELOW_OVERVIEW else name,
            key=key,
            data=data,
            snapshot=data.snapshot,
            parts=_Safe(parts, values),
            numbers=values,
            since=version,
            counts=counts,
            **more,
        )

    def render(self, name: str, **values: Any) -> str:
        """A page that is made for one request: a form, or what came of one."""
        return self._env.get_template(name).render(key="", since="", **values)

    def fragment(self, macro: str, *args: object) -> str:
        """A part of a page for one visitor alone, from visitor.html."""
        return str(getattr(self._forms, macro)(*args))

    def _common(
        self,
        data: PageData,
        items: Sequence[AttentionItem],
        pool: str = "",
        *,
        most: int = MAX_ITEMS,
        own_page: bool = False,
    ) -> dict[str, str]:
        """What needs attention; of a *pool* alone, where there is a page of it. *own_page*: this is the page of the pool.

        Beside it, why what the page shows may be old.
        """
        address = f"/{_OF_POOL}{quote(pool, safe='')}" if pool else f"/{_ATTENTION}"
        attention = str(self._macros.attention(items, count_levels(items), most, address, data.snapshot.vips, own_page))
        return {
            "attention": attention,
            "stale": str(self._macros.stale(data.stale)) if data.stale is not None else "",
        }

    def _vip(self, name: str, data: PageData, history: PageHistory, read: object) -> Content:
        assert data.applied is not None
        pool = data.applied.known.spec.vips[name].pool
        mine = [
            item
            for item in data.items
            if item.stale
            or (name in [text.partition(" ")[0] for text in item.vips] if item.vips else item.pool == pool)
        ]
        shape, parts, values = vip_parts(self._vip_macros, name, _pools(data).get(pool, []), data, history, read)
        return Content(shape, {**self._common(data, mine, pool), **parts}, values)

    def _health_of(self, data: PageData, views: Sequence[PoolView]) -> str:
        """Who is in service in a pool: made anew where that has changed, since there may be a thousand pools."""
        titles, key = tuple(view.title for view in views), (views, views[0].name in data.snapshot.panics)
        known = self._health.get(titles)
        if known is None or known[0] != key:
            if len(self._health) >= 2 * len(data.pools):
                self._health.clear()  # those of pools that are gone
            known = self._health[titles] = key, str(self._macros.health(views, data.snapshot))
        return known[1]

    def _pools_list(self, data: PageData) -> Content:
        applied = data.applied
        parts = self._common(data, ())
        if applied is None:
            return Content("nothing", parts)
        rows = {f"pool-{n}": self._health_of(data, [view]) for n, view in enumerate(data.pools)}
        values = {f"q{n}": wording.rounded(pool_rate(data, v)) for n, v in enumerate(data.pools)}
        return Content(f"{data.snapshot.bridge} {applied.known.state.number}", {**parts, **rows}, values)

    def _pool(self, name: str, data: PageData, history: PageHistory) -> Content:
        applied = data.applied
        assert applied is not None
        items = [item for item in data.items if item.pool == name or item.stale]
        parts, values = self._common(data, items, name, own_page=True), dict[str, Any]()
        views = _pools(data)[name]
        for n, view in enumerate(views):
            pool_parts(self._macros, n, view, data, history, parts, values)
        return Content(f"{data.snapshot.bridge} {applied.known.state.number} {len(views)}", parts, values)

    def _changes(self, data: PageData, history: PageHistory, states: RecordedStates) -> Content:
        overlay = data.applied.overlay if data.applied is not None else Overlay()
        current = data.applied.known.state.number if data.applied is not None else 0
        parts = {
            **self._common(data, ()),
            "maintenance": str(self._macros.maintenance(overlay.entries, data))
            + str(self._macros.denials(overlay.denials, data)),
            "seen": str(self._macros.changes_seen(list(history.log.changes), data.snapshot)),
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
        filled = _LEFT_OUT.sub(lambda m: m[1] + wording.number(self._values.get(m[2])), self._parts[name])
        return Markup(filled)  # made by our own templates, which escape


_LEFT_OUT = re.compile(r'(data-number="([\w-]+)">)' + wording.UNKNOWN)


def _places(values: Sequence[int], wanted: int) -> list[int]:
    return [place for place, value in enumerate(values) if value == wanted]


def pool_rate(data: PageData, view: PoolView, unit: str = "queries") -> float | None:
    """The rate of all backends of a pool; None where one is not known."""
    found = [data.rates.get(("backend", view.name, backend.name, unit)) for backend in view.backends]
    known = [rate for rate in found if rate is not None]
    return sum(known) if len(known) == len(found) else None


def _pools(data: PageData) -> dict[str, list[PoolView]]:
    found: dict[str, list[PoolView]] = {}
    for view in data.pools:
        found.setdefault(view.name, []).append(view)
    return found


def _named(key: str, prefix: str, names: Collection[str]) -> bool:
    return key.startswith(prefix) and key[len(prefix) :] in names


def _vip_values(data: PageData, history: PageHistory, key: str) -> dict[str, Any]:
    assert data.applied is not None
    name = key[len(VIP) :]
    return vip_values(name, _pools(data).get(data.applied.known.spec.vips[name].pool, []), data, history)


def _pool_values(data: PageData, history: PageHistory, key: str) -> dict[str, Any]:
    assert data.applied is not None
    spec = data.applied.known.spec
    name = key[5:]
    return {
        "name": name,
        "views": _pools(data)[name],
        "vips": [v for v, vip in spec.vips.items() if vip.pool == name],
    }


_PAGES: Mapping[str, Callable[[PageData, PageHistory, str], dict[str, Any]]] = {
    OVERVIEW: overview_values,
    "vip": _vip_values,
    "pool": _pool_values,
    _ATTENTION: lambda data, history, key: {"pool": key.removeprefix(_OF_POOL) if key != _ATTENTION else ""},
    "pools": lambda data, history, key: {},
    "changes": lambda data, history, key: {},
    PATH: lambda data, history, key: path_values(data, key),
    OFFLOAD: lambda data, history, key: {},
}
_BELOW_OVERVIEW = ("vip", _ATTENTION)
_SINGLE = _PAGES.keys() - {"vip", "pool"}
"""Pages of which there is one each."""


class PageReader:
    """Reads what a page alone needs, while browsers have it open. *changed* is called on the event loop when it is read."""

    def __init__(self, switch: TargetSwitch, changed: Callable[[], None], predict: Predict | None = None) -> None:
        self._offload = OffloadPoller(switch, changed, predict)
        self._paths = PathPoller(PathReader(switch), changed)

    @staticmethod
    def needs_reading(key: str) -> bool:
        """Whether the page *key* needs a reading of its own, which may be newer than the picture."""
        return key == OFFLOAD or key.startswith((f"{PATH}?", VIP))

    async def read(self, key: str, data: PageData, watched: Sequence[str], *, wait: bool) -> object:
        """What the page *key* needs beside the picture; None for nothing. *watched* are all pages that are looked at.

        *wait*: somebody asks for this page alone, so wait for its own reading, for a moment. Raises DefectError.
        """
        applied = data.applied
        if applied is None:
            return None
        if key.startswith(f"{PATH}?"):
            followed = [each for each in watched if each.startswith(f"{PATH}?")]
            path = await self._paths.latest(key, applied, followed, wait=wait)
            if path is not None and path.defect is not None:
                raise DefectError(path.defect)
            return path
        if key != OFFLOAD and not key.startswith(VIP):
            return None
        look = await self._offload.latest(applied, wait=wait, predict=key == OFFLOAD)
        if key == OFFLOAD and look.view is not None and look.view.defect is not None:
            raise DefectError(look.view.defect)
        return look

    def close(self) -> None:
        """End the threads, once they are done with what they read."""
        self._offload.close()
        self._paths.close()
