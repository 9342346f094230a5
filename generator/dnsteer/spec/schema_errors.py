# SPDX-License-Identifier: Apache-2.0
"""Turn pydantic's validation errors into findings: one per mistake, with the line and what was found."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from dnsteer.spec.document import Document
from dnsteer.spec.errors import MAX_FINDINGS, Finding, Path, near, shorten, show_value
from dnsteer.spec.model.access import AccessEntry, AccessRules
from dnsteer.spec.model.announce import Announce, AnnouncedPrefix, LastResort, VipAnnounce
from dnsteer.spec.model.balance import Balance, MetricSource
from dnsteer.spec.model.bringup import BringUp, Hugepages, ScalableFunction
from dnsteer.spec.model.client_prefix import ClientPrefix
from dnsteer.spec.model.console import Console
from dnsteer.spec.model.extension import Budgets, Extension, ExtensionPort
from dnsteer.spec.model.file import OWN_KEYS, BackendDefaults, Defaults, PoolDefaults, SpecFile, VipDefaults
from dnsteer.spec.model.gratuitous import Gratuitous
from dnsteer.spec.model.health import Expect, HealthCheck, Query
from dnsteer.spec.model.limits import ClientLimits, ClientPrefixes, SwitchLimits, VipLimits
from dnsteer.spec.model.lint import Accept, Lint
from dnsteer.spec.model.next_hop import RouterAddresses
from dnsteer.spec.model.part import Device, keys_of
from dnsteer.spec.model.probe import Probe
from dnsteer.spec.model.spec import Backend, Backup, Pool, Port, Service, Switch, Uplink, Vip
from dnsteer.spec.model.tracking import Tracking
from dnsteer.spec.model.tunnel import Tunnel

_UNION_TAGS = frozenset(["mapping", "word"])  # steps that pydantic adds for unions with a word
_UNIONS = (
    ("vips", "*", "services", "*"),
    ("vips", "*", "announce"),
    ("defaults", "vips", "services", "*"),
    ("defaults", "vips", "announce"),
    ("switch", "announce", "when_none_pass"),
    ("switch", "uplinks", "*", "next_hop"),
)  # where a value is a mapping or a word
_ACCESS_ENTRIES = tuple(f"{of}.access.{key}.#" for of in ("switch", "vips.*") for key in ("deny", "allow"))
_KEY = "[key]"  # step that pydantic adds when a mapping's key is at fault
_MAX_KEY = 64  # characters of a wrong key that are looked at
_ALIKE = 0.85  # how alike a key of another part must be, where 1 is the same

_PLAIN = {
    "model_type": "a mapping",
    "dict_type": "a mapping",
    "list_type": "a list",
    "string_type": "text, in quotes where YAML reads something else",
    "bool_type": "true or false",
    "too_short": "at least one entry",
}


def findings_of(error: ValidationError, doc: Document, base: Path = ()) -> list[Finding]:
    """The findings that *error* stands for, each once; of more than MAX_FINDINGS one more than that.

    *base* is the path of what was validated.
    """
    out: dict[tuple[Path, str], Finding] = {}
    misspelt: set[tuple[Path, str]] = set()
    missing: list[tuple[Path, str]] = []
    for item in error.errors(include_url=False):
        path = _path((*base, *item["loc"]), item["type"], doc)
        finding = _finding(path, dict(item), doc)
        key = (path, finding.found)
        out.setdefault(key, finding)
        if item["type"] == "missing":
            missing.append(key)
        elif item["type"] == "extra_forbidden" and finding.hint.startswith("did you mean"):
            misspelt.add((path[:-1], finding.hint.split('"')[1]))
        if len(out) > MAX_FINDINGS:
            break
    for key in missing:
        if (key[0], key[1].split('"')[1]) in misspelt:
            del out[key]  # the misspelt key is the one that is missing
    return list(out.values())


def _path(loc: tuple[int | str, ...], kind: str, doc: Document) -> Path:
    """The document's path of a location: pydantic's own steps left out, a missing key too."""
    path = loc
    pool_health = _is_path_to(path[:3], ("pools", "*", "health")) or path[:3] == ("defaults", "pools", "health")
    if pool_health and path[:4] not in doc.lines:
        path = (*path[:3], *path[4:])  # a single check, written without a list
    for union in _UNIONS:
        at = len(union)
        if _is_path_to(path[:at], union) and path[at : at + 1] and path[at] in _UNION_TAGS:
            path = (*path[:at], *path[at + 1 :])
    if path and isinstance(path[-1], int) and path not in doc.lines and path[:-1] in doc.lines:
        path = path[:-1]  # a single word of a list, written without it
    if path and path[-1] == _KEY and kind != "extra_forbidden":
        path = path[:-1]
    return path[:-1] if kind == "missing" else path


def _finding(path: Path, item: Mapping[str, Any], doc: Document) -> Finding:
    value, kind, ctx = item["input"], str(item["type"]), item.get("ctx", {})
    if kind == "missing":
        key = str(item["loc"][-1])
        return doc.finding(path, f'no key "{key}"', f'the key "{key}"', f"add it: {_describe((*path, key))}")
    if kind == "extra_forbidden":
        key = str(path[-1])
        keys = _keys(path[:-1])
        if path[:1] == ("defaults",) and key in OWN_KEYS.get(str(path[1]), ()):
            hint = f"each of the {path[1]} has its own"
            return doc.finding(path, f'the key "{key}", which has no default', _one_of(keys), hint)
        return doc.finding(path, f'the unknown key "{shorten(key)}"', _one_of(keys), _elsewhere(key, keys))
    found, hint = show_value(value), ""
    if kind == "dnsteer":
        expected, hint = ctx["expected"], ctx["hint"]
    elif kind in ("enum", "literal_error"):
        expected = ctx["expected"].replace("'", "")
        hint = near(value, expected.replace(" or ", ", ").split(", ")) if isinstance(value, str) else ""
        hint = hint if hint.startswith("did you mean") else ""
    else:
        expected = _PLAIN.get(kind, str(item["msg"]))
        hint = _wrong_kind(path, kind, value)
    if value is None and path and isinstance(path[-1], int):
        hint = "the entry has no value: give it one or remove it"
    elif value is None and path:
        hint = "the key has no value: give it one" + ("" if _is_required(path) else " or remove the key")
    return doc.finding(path, found, expected, hint)


def _wrong_kind(path: Path, kind: str, value: Any) -> str:
    """What to do about a value of a wrong kind."""
    if kind == "list_type" and not isinstance(value, dict):
        return f"write it as a list: [{shorten(str(value))}]"
    if kind == "list_type":
        return 'each entry begins with "- "'
    if kind == "dict_type" and isinstance(value, list):
        return 'write each entry as "NAME:" followed by its keys, without "- "'
    if kind == "model_type":
        return f"its keys are {', '.join(_keys(path))}"
    if kind == "bool_type":
        word = {"yes": "true", "on": "true", "no": "false", "off": "false"}.get(str(value).lower(), str(value).lower())
        return f"write {word}, without quotes" if word in ("true", "false") else ""
    return _describe(path)


@dataclass(frozen=True)
class _Part:
    """A mapping of the spec: what it is called, its *model*, and where it is: `*` is any name or index, `#` an index.

    Without *title* it is not named in hints.
    """

    title: str
    model: type[BaseModel]
    paths: tuple[str, ...]

    def is_at(self, path: Path) -> bool:
        """Whether a path leads to such a mapping, or to one that is a default."""
        if path[:1] == ("defaults",) and len(path) > 2:
            path = (path[1], "*", *path[2:])
        return any(_is_path_to(path, place.split(".") if place else []) for place in self.paths)


def _is_path_to(path: Path, steps: Sequence[str]) -> bool:
    return len(path) == len(steps) and all(
        isinstance(found, int) if step == "#" else step in ("*", found) for step, found in zip(steps, path, strict=True)
    )


_PARTS = (
    _Part("the document", SpecFile, ("",)),
    _Part("defaults", Defaults, ("defaults",)),
    _Part("", VipDefaults, ("defaults.vips",)),
    _Part("", PoolDefaults, ("defaults.pools",)),
    _Part("", BackendDefaults, ("defaults.backends",)),
    _Part("switch", Switch, ("switch",)),
    _Part("an uplink", Uplink, ("switch.uplinks.*",)),
    _Part("a next hop", RouterAddresses, ("switch.uplinks.*.next_hop",)),
    _Part("a member of a bond", Device, ("switch.uplinks.*.members.*",)),
    _Part("", Port, ("switch.ports.*",)),  # its keys are those of an uplink, too
    _Part("a pool", Pool, ("pools.*",)),
    _Part("a client_prefix", ClientPrefix, ("pools.*.client_prefix",)),
    _Part("a backend", Backend, ("pools.*.backends.*",)),
    _Part("the limits of the switch", SwitchLimits, ("switch.limits",)),
    _Part("the limits of a VIP", VipLimits, ("vips.*.limits", "defaults.vips.limits")),
    _Part("the clients of a VIP's limits", ClientLimits, ("vips.*.limits.clients", "defaults.vips.limits.clients")),
    _Part(
        "the prefixes of a VIP's limits",
        ClientPrefixes,
        ("vips.*.limits.clients.prefix", "defaults.vips.limits.clients.prefix"),
    ),
    _Part("the backup of a pool", Backup, ("pools.*.backup",)),
    _Part("the balance of a pool", Balance, ("pools.*.balance",)),
    _Part("the source of a metric", MetricSource, ("pools.*.balance.source",)),
    _Part("a health check", HealthCheck, ("pools.*.health", "pools.*.health.#")),
    _Part("the query of a health check", Query, ("pools.*.health.query", "pools.*.health.#.query")),
    _Part(
        "the expected answer of a health check",
        Expect,
        ("pools.*.health.query.expect", "pools.*.health.#.query.expect"),
    ),
    _Part("a VIP", Vip, ("vips.*",)),
    _Part("a service", Service, ("vips.*.services.*",)),
    _Part("switch.bringup", BringUp, ("switch.bringup",)),
    _Part("switch.bringup.hugepages", Hugepages, ("switch.bringup.hugepages",)),
    _Part("a scalable function", ScalableFunction, ("switch.bringup.functions.*",)),
    _Part("switch.probe", Probe, ("switch.probe",)),
    _Part("switch.tracking", Tracking, ("switch.tracking",)),
    _Part("switch.tunnel", Tunnel, ("switch.tunnel",)),
    _Part("switch.announce", Announce, ("switch.announce",)),
    _Part("a prefix of switch.announce", AnnouncedPrefix, ("switch.announce.prefixes.#",)),
    _Part("switch.announce.when_none_pass", LastResort, ("switch.announce.when_none_pass",)),
    _Part("the announce of a VIP", VipAnnounce, ("vips.*.announce",)),
    _Part("switch.gratuitous", Gratuitous, ("switch.gratuitous",)),
    _Part("switch.console", Console, ("switch.console",)),
    _Part("an access list", AccessRules, ("switch.access", "vips.*.access")),
    _Part("an entry of an access list", AccessEntry, _ACCESS_ENTRIES),
    _Part("switch.extension", Extension, ("switch.extension",)),
    _Part("a port of the extension", ExtensionPort, ("switch.extension.ingress", "switch.extension.egress")),
    _Part("switch.extension.budgets", Budgets, ("switch.extension.budgets",)),
    _Part("lint", Lint, ("lint",)),
    _Part("an accepted finding", Accept, ("lint.accept.*",)),
)
_TITLED = tuple(part for part in _PARTS if part.title)


def _model_at(path: Path) -> type[BaseModel] | None:
    """The model that describes the mapping at *path*."""
    return next((part.model for part in _PARTS if part.is_at(path)), None)


def _keys(path: Path) -> list[str]:
    model = _model_at(path)
    return list(keys_of(model)) if model else []


def _one_of(keys: list[str]) -> str:
    return f"one of {', '.join(keys)}"


def _elsewhere(key: str, keys: list[str]) -> str:
    """The hint about an unknown key: a similar key here, or the part that has a key of this name."""
    hint, parts = near(key, keys), _parts_with_key(key)
    if hint.startswith("did you mean"):
        return f'{hint} "{key}" is a key of {parts}' if parts else hint
    if parts:
        return f'"{key}" is a key of {parts}'
    known = [name for part in _TITLED for name in keys_of(part.model)]
    alike = difflib.get_close_matches(key[:_MAX_KEY].lower(), known, n=1, cutoff=_ALIKE)
    if alike:
        return f'"{alike[0]}" is a key of {_parts_with_key(alike[0])}'
    return "no key of the spec has this name: remove it"


def _parts_with_key(key: str) -> str:
    return " and of ".join(part.title for part in _TITLED if key in keys_of(part.model))


def _field(path: Path) -> FieldInfo | None:
    model = _model_at(path[:-1])
    return keys_of(model).get(str(path[-1])) if model else None


def _is_required(path: Path) -> bool:
    field = _field(path)
    return field is None or field.is_required()


def _describe(path: Path) -> str:
    field = _field(path)
    if field is None or not field.description:
        return ""
    text = field.description.split(". ")[0].rstrip(".").replace("`", "")
    if isinstance(field.annotation, type) and issubclass(field.annotation, Enum):
        text += f" ({', '.join(member.value for member in field.annotation)})"
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
