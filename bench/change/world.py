# SPDX-License-Identifier: Apache-2.0
"""The specs of the campaign: one lab has all servers, and each spec is a part of it. Random, from a seed.

The world knows by itself what every command should lead to: which spec and which backends out. It is compared with the lab.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import yaml

from dnsteer.checks.load import check_document
from dnsteer.plan.pool_slots import slots_of
from dnsteer.slots.maintenance import Kind, Maintenance
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.read import parse_document

POOLS = {"one": 8, "two": 4}
"""Servers of each pool. VIP `dns` asks pool one (direct server return), `second` pool two (NAT); both are always there."""
SLOTS = {"one": 128, "two": 64}
GUESTS = ("guest1", "guest2", "guest3")
"""VIPs that come and go."""
PERMANENT = {"dns": "one", "second": "two"}
_LEAST_BACKENDS, _MAX_WEIGHT = 2, 5


def _backend(pool: str, number: int) -> dict[str, Any]:
    net = 1 if pool == "one" else 2
    return {
        "name": f"{pool}{number}",
        "ipv4": f"192.0.2.{net * 32 + number}",
        "ipv6": f"2001:db8::{net}:{number}",
        "mac": f"02:00:00:00:{net:02x}:{number:02x}",
        "weight": 1,
    }


def _vip(name: str, pool: str, keep: bool = False) -> dict[str, Any]:
    number = 53 if name == "dns" else 54 if name == "second" else 60 + GUESTS.index(name)
    forwarding = "nat" if pool == "two" else "dsr"
    return {
        "addresses": [f"198.51.100.{number}", f"2001:db8:1::{number}"],
        "services": ["dns"],
        "pool": pool,
        "forwarding": forwarding,
        **({"keep": "connections"} if keep else {}),
    }


def whole(*, keep: bool = False) -> dict[str, Any]:
    """The spec with everything: the lab is built from it. *keep*: the VIPs that are always there keep connections."""
    vips = {name: _vip(name, pool, keep) for name, pool in PERMANENT.items()}
    return {
        "apiVersion": "dnsteer/v1",
        "switch": {
            "name": "campaign",
            "flavor": "ovs-netdev",
            "bridge": "br-dns",
            "mac": "02:00:00:00:00:53",
            "gateways": ["192.0.2.1", "2001:db8::1"],
            "uplinks": {"p0": {"next_hop": "02:00:00:00:00:fe"}},
        },
        "pools": {
            pool: {"slots": SLOTS[pool], "backends": [_backend(pool, n + 1) for n in range(count)]}
            for pool, count in POOLS.items()
        },
        "vips": {**vips, **{name: _vip(name, "one") for name in GUESTS}},
    }


def slots_behind() -> dict[str, int]:
    """The addresses of the VIPs that are always there, each with the number of slots of its pool."""
    vips = whole()["vips"]
    return {address: SLOTS[pool] for name, pool in PERMANENT.items() for address in vips[name]["addresses"]}


@dataclass(frozen=True)
class Step:
    """A change: its kind, and the words of the command after `dnsteer`; with *applies* the spec is applied."""

    kind: str
    words: tuple[str, ...] = ()
    applies: dict[str, Any] | None = None


@dataclass
class World:
    """A spec and the backends that are out, and random steps from there."""

    random: random.Random
    value: dict[str, Any] = field(default_factory=whole)
    out: list[tuple[str, str, Kind]] = field(default_factory=list)
    weights: dict[tuple[str, str], int] = field(default_factory=dict)
    """Weights that were given by hand, by pool and backend."""
    states: dict[int, dict[str, Any]] = field(default_factory=dict)
    current: int = 0

    def keep_theirs(self, pool: str) -> set[str]:
        """The backends of a pool that keep their connections: those of the spec that are not down."""
        down = {name for of, name, kind in self.out if of == pool and kind == "down"}
        return {b["name"] for b in self.value["pools"][pool]["backends"]} - down

    def step(self) -> Step:
        """A random step that changes something."""
        of_spec = ["weight", "weight", "backend added", "backend removed", "vip added", "vip removed"]
        of_people = ["drain", "undrain", "down", "up", "swap", "rollback", "gradual drain"]
        kinds = [*of_spec, *of_people, "given weight", "weight taken back"]
        while True:
            step: Step | None = getattr(self, "_" + self.random.choice(kinds).replace(" ", "_"))()
            if step is not None:
                return step

    def done(self, step: Step, state: int) -> None:
        """Note that *step* was carried out and that the switch says it has *state* now."""
        if step.applies is not None:
            self.value = step.applies
            has = {(p, b["name"]): b["weight"] for p, pool in self.value["pools"].items() for b in pool["backends"]}
            self.out = [o for o in self.out if o[:2] in has]
            # One that the spec gives as well has ended.
            self.weights = {key: weight for key, weight in self.weights.items() if has.get(key, weight) != weight}
            self.states[state] = copy.deepcopy(self.value)
            self.current = state
            return
        verb, name = step.words[0], step.words[1]
        pool, backend = name.split("/")
        if verb == "weight":
            self.weights.pop((pool, backend), None)
            if "--undo" not in step.words:
                self.weights[pool, backend] = int(step.words[2])
            return
        kind: Kind = "drain" if "drain" in verb else "down"
        self.out = [o for o in self.out if o != (pool, backend, kind)]
        if verb in ("drain", "down"):
            self.out.append((pool, backend, kind))

    def spec(self) -> Spec:
        """The spec."""
        return check_document(parse_document("campaign.yaml", yaml.safe_dump(self.value, sort_keys=False))).spec

    def owners(self, spec: Spec, pool: str) -> tuple[str, ...]:
        """The backend of each slot of a pool."""
        maintenance = [
            Maintenance(p, b, kind, "2026-01-01T00:00:00+00:00", "bench") for p, b, kind in self.out if p == pool
        ]
        maintenance += [
            Maintenance(p, b, "weight", "2026-01-01T00:00:00+00:00", "bench", weight=weight)
            for (p, b), weight in self.weights.items()
            if p == pool
        ]
        return slots_of(spec, spec.pools[pool], "ipv4", maintenance)

    def _changed(self, kind: str) -> tuple[dict[str, Any], Step]:
        value = copy.deepcopy(self.value)
        return value, Step(kind, applies=value)

    def _some(self, value: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
        pool = self.random.choice(list(POOLS))
        return pool, value["pools"][pool]["backends"]

    def _weight(self) -> Step | None:
        value, step = self._changed("weight")
        backend = self.random.choice(self._some(value)[1])
        backend["weight"] = self.random.choice([w for w in range(1, _MAX_WEIGHT + 1) if w != backend["weight"]])
        return step

    def _backend_added(self) -> Step | None:
        value, step = self._changed("backend added")
        pool, backends = self._some(value)
        missing = [
            b for n in range(POOLS[pool]) if (b := _backend(pool, n + 1))["name"] not in {x["name"] for x in backends}
        ]
        if not missing:
            return None
        backends.insert(self.random.randint(0, len(backends)), self.random.choice(missing))
        return step

    def _backend_removed(self) -> Step | None:
        value, step = self._changed("backend removed")
        pool, backends = self._some(value)
        leaving = self.random.choice(backends)
        backends.remove(leaving)
        out = {b for p, b, _ in self.out if p == pool}
        return step if len([b for b in backends if b["name"] not in out]) >= _LEAST_BACKENDS else None

    def _vip_added(self) -> Step | None:
        value, step = self._changed("vip added")
        missing = [g for g in GUESTS if g not in value["vips"]]
        if not missing:
            return None
        name = self.random.choice(missing)
        value["vips"][name] = _vip(name, "one")
        return step

    def _vip_removed(self) -> Step | None:
        value, step = self._changed("vip removed")
        there = [g for g in GUESTS if g in value["vips"]]
        if not there:
            return None
        del value["vips"][self.random.choice(there)]
        return step

    def _take_out(self, verb: Kind, *more: str) -> Step | None:
        pool, backends = self._some(self.value)
        out = {b for p, b, _ in self.out if p == pool}
        here = [b["name"] for b in backends if b["name"] not in out]
        if len(here) <= _LEAST_BACKENDS:
            return None
        return Step("gradual drain" if more else verb, (verb, f"{pool}/{self.random.choice(here)}", *more))

    def _drain(self) -> Step | None:
        return self._take_out("drain")

    def _gradual_drain(self) -> Step | None:
        return self._take_out("drain", "--over", "2s") if self.random.random() < 0.3 else None

    def _down(self) -> Step | None:
        return self._take_out("down")

    def _bring_back(self, kind: Kind, verb: str) -> Step | None:
        there = [f"{p}/{b}" for p, b, k in self.out if k == kind]
        return Step(verb, (verb, self.random.choice(there))) if there else None

    def _undrain(self) -> Step | None:
        return self._bring_back("drain", "undrain")

    def _up(self) -> Step | None:
        return self._bring_back("down", "up")

    def _given_weight(self) -> Step | None:
        pool, backends = self._some(self.value)
        backend = self.random.choice(backends)
        now = self.weights.get((pool, backend["name"]), backend["weight"])
        weight = self.random.choice([w for w in range(1, _MAX_WEIGHT + 1) if w not in (now, backend["weight"])])
        over = ("--over", "2s") if self.random.random() < 0.3 else ()
        return Step("given weight", ("weight", f"{pool}/{backend['name']}", str(weight), *over))

    def _weight_taken_back(self) -> Step | None:
        given = [f"{p}/{b}" for p, b in self.weights]
        return Step("weight taken back", ("weight", self.random.choice(given), "--undo")) if given else None

    def _swap(self) -> Step | None:
        """Another spec altogether: other backends, weights and guests."""
        value, step = whole(keep="keep" in self.value["vips"]["dns"]), Step("swap")
        for pool, parts in value["pools"].items():
            out = {b for p, b, _ in self.out if p == pool}
            many = self.random.randint(_LEAST_BACKENDS + 1, POOLS[pool])
            parts["backends"] = self.random.sample(parts["backends"], many)
            for backend in parts["backends"]:
                backend["weight"] = self.random.randint(1, _MAX_WEIGHT)
            if len([b for b in parts["backends"] if b["name"] not in out]) < _LEAST_BACKENDS:
                return None
        for guest in GUESTS:
            if self.random.random() < 0.5:
                del value["vips"][guest]
        return Step(step.kind, applies=value)

    def _rollback(self) -> Step | None:
        kept = [n for n in self.states if self.current - 10 < n < self.current]
        if not kept:
            return None
        number = self.random.choice(kept)
        value = copy.deepcopy(self.states[number])
        for pool, parts in value["pools"].items():
            out = {b for p, b, _ in self.out if p == pool}
            if len([b for b in parts["backends"] if b["name"] not in out]) < _LEAST_BACKENDS:
                return None
        return Step("rollback", ("rollback", str(number)), applies=value)


def least(before: tuple[str, ...], after: tuple[str, ...]) -> int:
    """The fewest slots that must move for the backends to get as many slots as they have *after*."""
    had, has = Counter(before), Counter(after)
    return sum(max(0, count - has[name]) for name, count in had.items())
