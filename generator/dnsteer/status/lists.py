# SPDX-License-Identifier: Apache-2.0
"""The access lists and limits of the applied spec: their entries and files, and the packets that they dropped."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Literal

from dnsteer.slots.denial import Denial
from dnsteer.spec.document import Document
from dnsteer.spec.errors import SpecError
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.limits import show_rate
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.parts.followed_lists import FollowedList, followed_lists
from dnsteer.spec.parts.list_files import text_digest
from dnsteer.spec.parts.reread_lists import read_lists
from dnsteer.status.denying_flows import DENYING_FLOWS, parse_denying_flows
from dnsteer.switch.meters import read_meter_counts
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.tools import SwitchError
from dnsteer.tables.access import AccessList, entries_by_number, lists_of_spec
from dnsteer.tables.meter_rows import limits_by_meter

MOST = 5
"""Entries of a list that are named: those that deny most."""
FileIs = Literal["as applied", "changed", "gone", "wrong", "elsewhere"]
"""What a file holds now. wrong: it cannot be read or is no list; elsewhere: it was read on another machine."""


@dataclass(frozen=True)
class ListFileView:
    """A file of a list: the name that the spec has, its path, SHA-256 and entries when it was applied, and what it is now.

    Of entries and what it is now None where nobody has looked.
    """

    name: str
    path: str
    key: str
    entries: int | None
    sha256: str
    now: FileIs | None = None

    def as_json(self) -> dict[str, Any]:
        """As a JSON object. `now` is null where the files are not looked at: from another machine than the switch's."""
        return {
            "name": self.name,
            "path": self.path,
            "key": self.key,
            "entries": self.entries,
            "sha256": self.sha256,
            "now": self.now,
        }


@dataclass(frozen=True)
class EntryView:
    """An entry of a list that has denied packets, with its file and line. Clients that no entry allows have no line."""

    text: str
    packets: int
    where: str = ""

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {"entry": self.text, "packets": self.packets, "where": self.where or None}


@dataclass(frozen=True)
class ListView:
    """An access list: the switch's, or that of *vips*. *denied* is how many packets its flows have dropped since they were
    loaded, None where that is not known, and *most* has the entries that dropped most."""

    title: str
    vips: tuple[str, ...]
    deny: int
    allow: int
    files: tuple[ListFileView, ...] = ()
    denied: int | None = None
    most: tuple[EntryView, ...] = ()

    @property
    def is_closed(self) -> bool:
        """Whether everybody is denied who is not allowed."""
        return bool(self.allow) and not self.deny

    @property
    def counts(self) -> str:
        """Its entries in words."""
        parts = [f"{word} {n:,}" for word, n in (("deny", self.deny), ("allow", self.allow)) if n]
        return ", ".join(parts) + (", closed" if self.is_closed else "")

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "list": self.title,
            "vips": [*self.vips],
            "deny": self.deny,
            "allow": self.allow,
            "closed": self.is_closed,
            "files": [one.as_json() for one in self.files],
            "denied_packets": self.denied,
            "denied_most": [one.as_json() for one in self.most],
        }


@dataclass(frozen=True)
class LimitView:
    """A limit of a VIP, or of its *service* alone: packets a second and at once, and how many were dropped, where known."""

    vip: str
    service: str
    rate: int
    burst: int
    per: str
    dropped: int | None = None

    @property
    def shown_rate(self) -> str:
        """The rate as the spec spells it."""
        return show_rate(self.rate)

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "vip": self.vip,
            "service": self.service or None,
            "packets_per_second": self.rate,
            "burst": self.burst,
            "per": self.per,
            "dropped_packets": self.dropped,
        }


def view_lists(spec: Spec, text: str, denials: Sequence[Denial]) -> list[ListView]:
    """The lists of a spec of this *text*, quickly: without what their files have and are, and what was denied.

    VIPs that share a list do not where other clients are denied by hand for one of them.
    """
    files = followed_lists(text)
    out = []
    for one in lists_of_spec(spec, denials):
        mine = [(file, path) for file in files for path in file.lists if path[:-1] == one.path]
        views = tuple(ListFileView(f.name, f.file, str(path[-1]), None, f.sha256) for f, path in mine)
        out.append(ListView(one.title, one.vips, len(one.access.deny or ()), len(one.access.allow or ()), views))
    return out


def _with_files(views: Iterable[ListView], loaded: Loaded, *, looks: bool) -> list[ListView]:
    """The lists with what their files have, and if somebody *looks* are."""
    by_name = {one.name: one for one in followed_lists(loaded.document.text)}
    states = {name: _state_of(one, loaded) for name, one in by_name.items()} if looks else {}
    out = []
    for view in views:
        path = ("switch", "access") if not view.vips else ("vips", view.vips[0], "access")
        files = tuple(
            replace(f, entries=len(_entries_of(loaded.document, f.name, (*path, f.key))), now=states.get(f.name))
            for f in view.files
        )
        out.append(replace(view, files=files))
    return out


def _entries_of(doc: Document, name: str, path: tuple[str | int, ...]) -> list[str]:
    """The entries that the list at *path* has of a file, as a line of the file has them."""
    value: Any = doc.value
    for step in path:
        value = value[step]
    words = [f"{e['prefix']} {e['port']}" if isinstance(e, dict) else str(e) for e in value]
    return [text for i, text in enumerate(words) if doc.part((*path, i)) == name]


def _state_of(one: FollowedList, loaded: Loaded) -> FileIs:
    try:
        text = read_lists(loaded.file, [one])[one.name]
    except SpecError:
        if os.path.lexists(one.file):
            return "wrong"
        return "gone" if one.host == os.uname().nodename else "elsewhere"
    if text_digest(text) == one.sha256:
        return "as applied"
    lines = [" ".join(line.partition("#")[0].split()) for line in text.splitlines()]
    same = [line for line in lines if line] == _entries_of(loaded.document, one.name, one.lists[0])
    return "as applied" if same else "changed"


def count_denied(
    client: OpenFlow, loaded: Loaded, denials: Sequence[Denial], views: Sequence[ListView]
) -> list[ListView]:
    """The lists with what they denied. Raises as OpenFlow does."""
    if not views:
        return []
    packets: Counter[tuple[int, int]] = Counter()
    for flow in parse_denying_flows(client.ofctl("dump-flows", DENYING_FLOWS, "--stats")):
        packets[flow.list, flow.entry] += flow.packets
    out = []
    for view, one in zip(views, lists_of_spec(loaded.spec, denials), strict=True):
        mine = Counter({entry: n for (number, entry), n in packets.items() if number == one.number})
        names = entries_by_number(one) if mine else {}
        most = tuple(_entry(names.get(entry), n, one, loaded) for entry, n in mine.most_common(MOST))
        out.append(replace(view, denied=mine.total(), most=most))
    return out


def _entry(place: tuple[str, int] | None, packets: int, one: AccessList, loaded: Loaded) -> EntryView:
    if place is None:
        return EntryView("everybody else", packets)
    key, i = place
    where = loaded.document.where((*one.path, key, i), PurePath(loaded.file).name.partition(" (state ")[0])
    return EntryView(str(getattr(one.access, key)[i]), packets, where)


def view_limits(spec: Spec, dropped: Mapping[int, int] = MappingProxyType({})) -> list[LimitView]:
    """The limits of VIPs. *dropped* has what is known of the packets that meters dropped, by their numbers."""
    out = []
    for number, (vip, service) in limits_by_meter(spec).items():
        limits = spec.vips[vip].limits if vip else None
        if limits is not None:
            out.append(LimitView(vip, service, limits.queries, limits.burst_size, limits.per, dropped.get(number)))
    return out


def whole_view(
    client: OpenFlow | None, loaded: Loaded, denials: Sequence[Denial], *, looks: bool
) -> tuple[list[ListView], list[LimitView]]:
    """The lists and limits of a spec, with what they dropped as far as the *client* tells."""
    lists = _with_files(view_lists(loaded.spec, loaded.document.text, denials), loaded, looks=looks)
    limits = view_limits(loaded.spec)
    if client is not None:
        with suppress(SwitchError, PermissionError):  # which is said of the tables
            lists = count_denied(client, loaded, denials, lists)
            counts = read_meter_counts(client) if limits else {}
            limits = view_limits(loaded.spec, {number: count.dropped for number, count in counts.items()})
    return lists, limits
