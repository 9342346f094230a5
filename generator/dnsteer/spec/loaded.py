# SPDX-License-Identifier: Apache-2.0
"""A spec with the document that it came from: while it is checked, and once it is valid, with its digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from dnsteer.spec import derived
from dnsteer.spec.document import Document
from dnsteer.spec.errors import Finding, Path, show_path
from dnsteer.spec.model.part import Part
from dnsteer.spec.model.spec import Pool, Selection, Spec, Vip


@dataclass
class Conflict:
    """Two entries that conflict: the paths of the later and the earlier one, and the values that they share."""

    path: Path
    earlier: Path
    shared: list[str] = field(default_factory=list)

    def shown(self) -> str:
        """The shared values, shortened."""
        shared = list(dict.fromkeys(self.shared))
        return ", ".join(shared[:4]) + (f" and {len(shared) - 4} more" if len(shared) > 4 else "")


@dataclass(frozen=True)
class Scope:
    """A well-formed spec and its document."""

    spec: Spec
    doc: Document

    def finding(self, path: Path, found: str, expected: str, hint: str = "", kind: str = "") -> Finding:
        """A finding at *path*, with its line."""
        return self.doc.finding(path, found, expected, hint, kind)

    def where(self, path: Path) -> str:
        """Point to another place of the document: of a default, to the object that has it."""
        place = self.doc.place(path)
        if place.default_of:
            path = place.default_of
            place = self.doc.place(path)
        line = self.doc.where(path) if self.doc.parts else f"line {place.line}"
        return f"{line}, {show_path(place.path)}"


_IGNORED_KEYS: dict[str, Any] = {"lint": True, "switch": {"hardware", "link_gbps", "bringup"}}
"""Keys that change no flow."""
_AGENT_KEYS = ("serves", "health", "panic", "keep_at_least", "slow_start", "hold_max", "backup", "balance")
"""Keys of a pool for the agent; where they are left out, the digest is what it was before there were any."""
_LATER_SWITCH_KEYS = (
    "routed",
    "limits",
    "probe",
    "repair",
    "console",
    "gratuitous",
    "announce",
    "datapath_type",
    "pair",
    "rules",
    "access",
    "follow_lists",
    "tracking",
    "own_traffic",
    "tunnel",
)
"""Keys of the switch that came later; where they are left out, the digest is what it was before."""
_LATER_SWITCH_LIMIT_KEYS = ("backends",)
_LATER_PORT_KEYS = ("vlan", "members", "mode")
_LATER_POOL_KEYS = ("passes", "client_prefix")
_LATER_VIP_KEYS = ("announce", "limits", "access", "keep", "errors")
_LATER_LIMIT_KEYS = ("clients", "tcp_syn")
_LATER_BALANCE_KEYS = ("policy", "source", "to", "above", "below", "change", "least", "half_life")
"""Keys of a pool's balance that its first release did not have."""
_EARLIER_DEFAULT_SLOTS = 1024


@dataclass(frozen=True)
class Loaded:
    """A valid spec, the document it came from (for line numbers) and its warnings.

    *kept* are the numbers of slots, by pool, that the document does not name and that are not those of a new pool.
    """

    spec: Spec
    document: Document
    warnings: tuple[Finding, ...]
    kept: Mapping[str, int] = field(default_factory=dict)

    @property
    def file(self) -> str:
        return self.document.file

    @cached_property
    def digest(self) -> str:
        """The digest that identifies the spec; computed once."""
        return digest(self.spec, self.kept)


def _defaults_of(part: Part, keys: Iterable[str]) -> set[str]:
    """The *keys* that have their default values."""
    return {key for key in keys if getattr(part, key) == type(part).model_fields[key].default}


def _ignored_pool_keys(pool: Pool) -> dict[str, Any]:
    """What of a pool does not count: keys for the agent that have their defaults, and workers, which are backends here."""
    about: dict[str, Any] = dict.fromkeys(_defaults_of(pool, (*_AGENT_KEYS, *_LATER_POOL_KEYS)), True)
    about["backends"] = {"__all__": {"workers"}}  # so the digest is what it was before the key was there
    if all(backend.vlan is None for backend in pool.backends):
        about["backends"]["__all__"].add("vlan")
    if pool.health and all(check.per == "backend" for check in pool.health):
        about["health"] = {"__all__": {"per"}}
    if pool.balance is not None:
        about["balance"] = _defaults_of(pool.balance, _LATER_BALANCE_KEYS)
    return about


def _ignored_vip_keys(vip: Vip) -> dict[str, Any]:
    about: dict[str, Any] = dict.fromkeys(_defaults_of(vip, _LATER_VIP_KEYS), True)
    if vip.limits is not None:
        about["limits"] = _defaults_of(vip.limits, _LATER_LIMIT_KEYS)
    return about


def with_slots(spec: Spec, slots: Mapping[str, int | None]) -> Spec:
    """The same with other numbers of slots, by pool."""
    if not slots:
        return spec
    pools = {name: pool.model_copy(update={"slots": slots.get(name, pool.slots)}) for name, pool in spec.pools.items()}
    return spec.model_copy(update={"pools": pools})


def digest(spec: Spec, kept: Mapping[str, int] = MappingProxyType({})) -> str:
    """SHA-256 (hex) of what the spec says about forwarding, with the numbers of slots that pools have kept.

    Comments, format, the spelling of addresses and the order of an object's keys do not change it. The order in which
    objects are listed does (it is the order of the flows).
    """
    numbers: dict[str, int | None] = {}
    for name, pool in spec.pools.items():
        if (pool.slots is None and pool.selection is not Selection.DP_HASH) or name in kept:
            number = kept.get(name) or derived.slot_count(spec, pool)
            # With the earlier default it is left out, so that a spec that was applied then has the same digest today.
            numbers[name] = None if number == _EARLIER_DEFAULT_SLOTS else number
    about = _IGNORED_KEYS
    if spec.switch.vlans == "untagged":  # so the digest is what it was before the key was there
        about = {**_IGNORED_KEYS, "switch": {*_IGNORED_KEYS["switch"], "vlans"}}
    # Likewise for these keys, most of them the agent's.
    about = {**about, "switch": {*about["switch"], *_defaults_of(spec.switch, _LATER_SWITCH_KEYS)}}
    if spec.switch.probe is not None and not spec.switch.probe.watch:
        about = {**about, "switch": {**dict.fromkeys(about["switch"], True), "probe": {"watch"}}}
    ports = {
        part: {
            name: _defaults_of(port, [key for key in _LATER_PORT_KEYS if hasattr(port, key)])
            for name, port in found.items()
        }
        for part, found in (("uplinks", spec.switch.uplinks), ("ports", spec.switch.ports))
    }
    limits: dict[str, Any] = {}
    if spec.switch.limits is not None:
        limits["limits"] = _defaults_of(spec.switch.limits, _LATER_SWITCH_LIMIT_KEYS)
    of_switch = about["switch"]
    about = {
        **about,
        "switch": {**(of_switch if isinstance(of_switch, dict) else dict.fromkeys(of_switch, True)), **ports, **limits},
    }
    about = {**about, "pools": {name: _ignored_pool_keys(pool) for name, pool in spec.pools.items()}}
    about = {**about, "vips": {name: _ignored_vip_keys(vip) for name, vip in spec.vips.items()}}
    return hashlib.sha256(with_slots(spec, numbers).model_dump_json(exclude=about).encode()).hexdigest()
