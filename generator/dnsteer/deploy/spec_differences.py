# SPDX-License-Identifier: Apache-2.0
"""What differs between two specs, in the operator's words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dnsteer.spec.errors import Path, counted, show_path, some_of
from dnsteer.spec.model.access import AccessRules
from dnsteer.spec.model.spec import Backend, Pool, Service, Spec, Vip
from dnsteer.spec.yaml_text import yaml_text


@dataclass(frozen=True)
class SpecDifference:
    """One difference: its kind (`backend changed`), the object that it is about, and the sentence.

    *path* is that of the object in the new spec; empty for one that is removed.
    """

    kind: str
    about: str
    text: str
    path: Path = ()

    def as_json(self) -> dict[str, str]:
        """As a JSON object."""
        return {
            "kind": self.kind,
            "object": self.about,
            "text": self.text,
            "path": show_path(self.path) if self.path else "",
        }


def compare_specs(old: Spec | None, new: Spec) -> list[SpecDifference]:
    """Return all differences, VIPs first, since clients see these. Without *old* everything is added."""
    pools, vips = (old.pools, old.vips) if old else ({}, {})
    out = [*_vips(vips, new.vips), *_pools(pools, new.pools)]
    return out + (list(_switch(old, new)) if old else [])


def _vips(old: Mapping[str, Vip], new: Mapping[str, Vip]) -> Iterator[SpecDifference]:
    for name, vip in new.items():
        about = f"VIP {name}"
        if name not in old:
            addresses, services = some_of(vip.addresses), some_of(_service(s) for s in vip.services)
            text = f"{about} added: {addresses}, {services}, pool {vip.pool}, {vip.forwarding.value}"
            yield SpecDifference("vip added", about, text, ("vips", name))
        elif old[name] != vip:
            yield from _fields("vip changed", about, old[name], vip, ("vips", name))
    for name, vip in old.items():
        if name not in new:
            yield SpecDifference("vip removed", f"VIP {name}", f"VIP {name} removed: {some_of(vip.addresses)}")


def _pools(old: Mapping[str, Pool], new: Mapping[str, Pool]) -> Iterator[SpecDifference]:
    for name, pool in new.items():
        about = f"pool {name}"
        if name not in old:
            members = some_of(f"{b.name} (weight {b.weight})" for b in pool.backends)
            yield SpecDifference("pool added", about, f"{about} added: {members}", ("pools", name))
        elif old[name] != pool:
            yield from _fields("pool changed", about, old[name], pool, ("pools", name), leave=("backends",))
            yield from _backends(name, old[name], pool)
    for name in old:
        if name not in new:
            yield SpecDifference("pool removed", f"pool {name}", f"pool {name} removed")


def _backends(pool: str, old: Pool, new: Pool) -> Iterator[SpecDifference]:
    was: dict[str, Backend] = {b.name: b for b in old.backends}
    now: dict[str, Backend] = {b.name: b for b in new.backends}
    for i, (name, backend) in enumerate(now.items()):
        about, path = f"backend {pool}/{name}", ("pools", pool, "backends", i)
        if name not in was:
            addresses = some_of(a for a in (backend.ipv4, backend.ipv6) if a is not None)
            yield SpecDifference("backend added", about, f"{about} added: {addresses}, weight {backend.weight}", path)
        elif was[name] != backend:
            yield from _fields("backend changed", about, was[name], backend, path)
            if was[name].port_offset != backend.port_offset:
                ports = [f"target ports{f' + {b.port_offset}' if b.port_offset else ''}" for b in (was[name], backend)]
                yield SpecDifference("backend changed", about, f"{about}: listens at {ports[0]} -> {ports[1]}", path)
    for name in was:
        if name not in now:
            yield SpecDifference("backend removed", f"backend {pool}/{name}", f"backend {pool}/{name} removed")
    if list(was) != list(now) and set(was) == set(now):
        text = f"pool {pool}: its backends are listed in another order"
        yield SpecDifference("pool changed", f"pool {pool}", text, ("pools", pool))


def _switch(old: Spec, new: Spec) -> Iterator[SpecDifference]:
    if old.switch == new.switch:
        return
    yield from _fields("switch changed", "switch", old.switch, new.switch, ("switch",), leave=("uplinks", "ports"))
    for part, one in (("uplinks", "uplink"), ("ports", "port")):
        was, now = getattr(old.switch, part), getattr(new.switch, part)
        for name in {**now, **was}:
            about = f"{one} {name}"
            if name not in was or name not in now:
                what = "added" if name in now else "removed"
                path = ("switch", part, name) if name in now else ()
                yield SpecDifference(f"{one} {what}", about, f"{about} {what}", path)
            elif was[name] != now[name]:
                yield from _fields(f"{one} changed", about, was[name], now[name], ("switch", part, name))


def _fields(
    kind: str, about: str, old: BaseModel, new: BaseModel, path: Path, leave: tuple[str, ...] = ()
) -> Iterator[SpecDifference]:
    for key, text, at in _changes(old, new, leave):
        yield SpecDifference(kind, about, f"{about}: {key} {text}", (*path, *at))


def _changes(old: BaseModel, new: BaseModel, leave: tuple[str, ...] = ()) -> Iterator[tuple[str, str, Path]]:
    """The keys that differ, such as `balance.window`, each with how, and its place. Of parts that both have their keys."""
    if isinstance(new, AccessRules):
        yield from _entries(old, new)
        return
    fields = (Backend if isinstance(new, Backend) else type(new)).model_fields
    for name, field in fields.items():
        was, now = getattr(old, name), getattr(new, name)
        if was == now or name in leave:
            continue
        if isinstance(was, list) and isinstance(now, list) and not _alike(was, now):
            yield name, _list_change(was, now), (name,)
        else:
            key = field.alias or name
            yield from _change(key, was, now, (key,), field)


def _change(
    key: str, was: Any, now: Any, path: Path, field: FieldInfo | None = None
) -> Iterator[tuple[str, str, Path]]:
    if was == now:
        return
    if isinstance(was, AccessRules) or isinstance(now, AccessRules):
        for inner, text, at in _entries(was or _NO_LIST, now or _NO_LIST):
            yield f"{key}.{inner}", text, (*path, *at) if now else ()
    elif isinstance(was, BaseModel) and type(was) is type(now):
        for inner, text, at in _changes(was, now):
            yield f"{key}.{inner}", text, (*path, *at)
    elif isinstance(was, list) and isinstance(now, list) and _alike(was, now):
        for i, (one, other) in enumerate(zip(was, now, strict=True)):
            yield from _change(f"{key}[{i}]" if len(now) > 1 else key, one, other, (*path, i))
    elif isinstance(was, dict) and isinstance(now, dict):
        for name in {**was, **now}:
            yield from _change(f"{key}.{name}", was.get(name), now.get(name), (*path, name) if name in now else path)
    else:
        yield key, f"{yaml_text(was, field)} -> {yaml_text(now, field)}", path


_NO_LIST = AccessRules()


def _entries(was: BaseModel, now: BaseModel) -> Iterator[tuple[str, str, Path]]:
    """The changes of an access list: how many entries are added and removed, the first of them by their prefixes."""
    for key in ("deny", "allow"):
        one, other = ([str(entry) for entry in getattr(each, key) or ()] for each in (was, now))
        if one != other:
            yield key, entries_text(*changed_entries(one, other)) or "in another order", (key,)


def changed_entries(was: Sequence[str], now: Sequence[str]) -> tuple[list[str], list[str]]:
    """The entries of an access list that were added, and those that were removed."""
    old, new = set(was), set(now)
    return [x for x in now if x not in old], [x for x in was if x not in new]


def entries_text(added: Sequence[str], removed: Sequence[str]) -> str:
    """Entries that were added and removed in words: how many, and the first of them. Empty where there are none."""
    changes = (("+", added), ("-", removed))
    return "; ".join(f"{sign}{counted(len(x), 'entry', 'entries')}: {some_of(x)}" for sign, x in changes if x)


def _alike(was: list[Any], now: list[Any]) -> bool:
    """Whether two lists have parts that can be compared one by one, such as checks."""
    parts = [*was, *now]
    return len(was) == len(now) and all(isinstance(x, BaseModel) and not isinstance(x, Service) for x in parts)


def _list_change(was: list[Any], now: list[Any]) -> str:
    added, gone = [x for x in now if x not in was], [x for x in was if x not in now]
    parts = [f"{sign}{_shown(x)}" for sign, found in (("+", added), ("-", gone)) for x in found]
    return " ".join(parts) or "in another order"


def _shown(value: Any) -> str:
    return _service(value) if isinstance(value, Service) else yaml_text(value)


def _service(entry: str | Service) -> str:
    if isinstance(entry, str):
        return entry
    target = f" to {entry.target_port}" if entry.target_port else ""
    return f"{entry.protocol.value}/{entry.port}{target}"
