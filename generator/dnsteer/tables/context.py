# SPDX-License-Identifier: Apache-2.0
"""State shared by the row builders: the spec, its objects' numbers, its pools with their slots, and the rows so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeVar, cast

from dnsteer.slots.maintenance import Overlay
from dnsteer.slots.membership import Member, Membership
from dnsteer.slots.owners import owners_of
from dnsteer.spec import derived
from dnsteer.spec.errors import Path
from dnsteer.spec.health_checks import own_slots, service_name
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.families import ANY, FAMILIES, FAMILY_NAMES, Family, Reach
from dnsteer.spec.model.spec import Forwarding, Pool, Spec, State, Switch, Vip
from dnsteer.spec.neighbors import Neighbor, neighbors_of
from dnsteer.spec.tunnels import tunnel_kinds
from dnsteer.spec.workers import has_workers
from dnsteer.tables.cookies import OBJECT_BITS, Category, Subject, cookie, number_names
from dnsteer.tables.passes import passes_of
from dnsteer.tables.rows import Rows
from dnsteer.tables.vlans import Vlans

T = TypeVar("T")


class ForwardingMode(Protocol):
    """The part of a forwarding mode that the tables use."""

    @property
    def number(self) -> int:
        """Value of the register `mode`."""

    def reach(self, family: Family) -> Reach:
        """Return the family in which a backend needs an address to serve VIP addresses in *family*; ANY for either."""

    def uses_extension(self, pool: Pool) -> bool:
        """Whether packets to a VIP served by *pool* go through the extension."""

    def stand_in(self, pool: Pool, family: Family) -> str:
        """Return the destination that queries have between two passes, for all VIPs; empty if theirs stays."""


@dataclass(frozen=True)
class PoolSlots:
    """A pool (per family if its families have different backends): its members and the backend of each slot.

    *ways* lists how VIPs use the pool: pairs of the family in which backends are reached and the forwarding mode.
    """

    pool: Pool
    members: Membership
    owners: tuple[str, ...]
    ways: tuple[tuple[Reach, Forwarding], ...]


@dataclass
class Context:
    """A valid spec, an overlay, and the rows and subjects built from them so far.

    *loaded* has the MAC addresses at which neighbours answer.
    """

    loaded: Loaded
    overlay: Overlay
    modes: Mapping[Forwarding, ForwardingMode]
    pipeline: Subject
    rows: Rows = field(default_factory=Rows)
    subjects: dict[int, Subject] = field(default_factory=dict)
    _made: dict[str, object] = field(default_factory=dict)
    _numbers: dict[tuple[str, Reach, str], int] = field(default_factory=dict)

    @property
    def spec(self) -> Spec:
        return self.loaded.spec

    @cached_property
    def neighbors(self) -> list[Neighbor]:
        """The neighbours that are asked for their MAC addresses."""
        return neighbors_of(self.spec)

    @cached_property
    def vlans(self) -> Vlans:
        """What flows match and write of VLAN tags."""
        return Vlans(self.spec)

    @cached_property
    def ports(self) -> dict[str, int]:
        """The port numbers used in registers, by port name."""
        switch = self.spec.switch
        return number_names([*switch.uplinks, *switch.ports, *_extension_ports(switch), *self._tunnel_ports], 16)

    @property
    def _tunnel_ports(self) -> list[str]:
        return [kind.port for kind in tunnel_kinds(self.spec).values()]

    @cached_property
    def pool_numbers(self) -> dict[str, int]:
        """The numbers that register `pool` holds, by the key of the pool's slots (`slots_key`)."""
        either = {vip.pool for vip in self.spec.vips.values() if ANY in self._reached(vip)}
        keys = (
            slots_key(name, pool, to, service)
            for name, pool in self.spec.pools.items()
            for to in ((*FAMILIES, ANY) if name in either else FAMILIES)
            for service in ("", *own_slots(self.spec, name))
        )
        return number_names(keys, 16)

    def pool_number(self, name: str, reached: Reach, service: str) -> int:
        """Return the number of the slots by which a pool serves a service, such as `853/tcp`."""
        asked = name, reached, service
        if asked not in self._numbers:  # by many VIPs
            own = service if service in own_slots(self.spec, name) else ""
            self._numbers[asked] = self.pool_numbers[slots_key(name, self.spec.pools[name], reached, own)]
        return self._numbers[asked]

    @cached_property
    def passes(self) -> Mapping[str, int]:
        """How often queries of each pool pass the datapath, for pools that VIPs use without the extension."""
        return passes_of(self.spec, self.modes)

    @cached_property
    def addresses(self) -> dict[str, list[str]]:
        """The addresses of each VIP as text, made once: it takes long for IPv6."""
        return {name: [str(address) for address in vip.addresses] for name, vip in self.spec.vips.items()}

    @cached_property
    def vips(self) -> dict[str, int]:
        """Numbers of the VIPs' addresses (`NAME/ADDRESS`) and services (`NAME/ADDRESS/PROTOCOL/PORT`)."""
        names: list[str] = []
        for name, vip in self.spec.vips.items():
            services = [f"{e.protocol.value}/{e.port}" for e in derived.endpoints(vip)]
            for address in self.addresses[name]:
                key = f"{name}/{address}"
                names.append(key)
                names += [f"{key}/{service}" for service in services]
        return number_names(names, OBJECT_BITS)

    @cached_property
    def backends(self) -> dict[str, int]:
        """Numbers of backends, by `POOL/BACKEND`."""
        return number_names((f"{p}/{b.name}" for p, pool in self.spec.pools.items() for b in pool.backends), 24)

    @cached_property
    def pools(self) -> dict[str, PoolSlots]:
        """The slots of all pools that a VIP uses, by their keys."""
        used = {
            (vip.pool, self.modes[vip.forwarding].reach(derived.family_of(address)), vip.forwarding)
            for vip in self.spec.vips.values()
            for address in vip.addresses
        }
        found: dict[str, PoolSlots] = {}
        for name, pool in self.spec.pools.items():
            ways = [(to, mode) for to in (*FAMILIES, ANY) for mode in Forwarding if (name, to, mode) in used]
            for service in ("", *own_slots(self.spec, name)):
                for key in dict.fromkeys(slots_key(name, pool, to, service) for to, _ in ways):
                    own = tuple(way for way in ways if slots_key(name, pool, way[0], service) == key)
                    members = self._members(name, key, own[0][0], service)
                    found[key] = PoolSlots(pool, members, owners_of(members, self.overlay.of(name)), own)
        return found

    @cached_property
    def keeping(self) -> dict[tuple[int, Forwarding], bool]:
        """The numbers of pools and the forwarding modes of services whose connections are kept.

        With each is whether packets get another port: the target port is in a register then, since the tracker knows
        connections by the VIP's.
        """
        found: dict[tuple[int, Forwarding], bool] = {}
        for vip in self.spec.vips.values():
            ends = [e for e in derived.endpoints(vip) if e.protocol.value == "tcp"] if derived.keeps(vip) else []
            for family in dict.fromkeys(map(derived.family_of, vip.addresses)):
                reach = self.modes[vip.forwarding].reach(family)
                for e in ends:
                    key = self.pool_number(vip.pool, reach, service_name("tcp", e.port)), vip.forwarding
                    other = e.target_port != e.port or has_workers(self.spec.pools[vip.pool])
                    found[key] = found.get(key, False) or other
        return found

    def subject(self, category: Category, number: int, title: str, path: Path) -> Subject:
        """Return the subject of a cookie, registering it at first use; later titles for the same cookie are ignored."""
        key = cookie(category, number)
        found = self.subjects.get(key)
        if found is None:
            document = self.loaded.document
            place = document.place(path)
            found = Subject(key, title, document.path_in_document(path), place.line, place.part)
            self.subjects[key] = found
        return found

    def subject_by_hand(self, category: Category, number: int, title: str) -> Subject:
        """Return the subject of a cookie for what people have done to the running switch, which the spec does not have."""
        return self.subjects.setdefault(cookie(category, number), Subject(cookie(category, number), title, (), 0))

    def once(self, what: str, make: Callable[[], T]) -> T:
        """Return the result of *make*, which runs only at the first call for *what*."""
        if what not in self._made:
            self._made[what] = make()
        return cast("T", self._made[what])

    def uses_extension(self, vip: Vip) -> bool:
        """Whether packets to a VIP go through the extension."""
        return self.modes[vip.forwarding].uses_extension(self.spec.pools[vip.pool])

    def _reached(self, vip: Vip) -> set[Reach]:
        return {self.modes[vip.forwarding].reach(derived.family_of(a)) for a in vip.addresses}

    def _members(self, name: str, key: str, reached: Reach, service: str) -> Membership:
        pool = self.spec.pools[name]
        one = key in (name, f"{name}:{service}") or reached == ANY
        title = f"pool {name}" if one else f"pool {name} {FAMILY_NAMES[reached]}"
        return Membership(
            pool=name,
            title=f"{title} ({service})" if service else title,
            service=service,
            number=self.pool_numbers[key],
            selection=pool.selection.value,
            slots=derived.slot_count(self.spec, pool),
            on_all_down=pool.on_all_down,
            keeps=any(number == self.pool_numbers[key] for number, _ in self.keeping),
            members=tuple(
                Member(b.name, self.backends[f"{name}/{b.name}"], b.weight, b.state is State.DOWN)
                for b in derived.members(pool, reached)
            ),
        )


def slots_key(name: str, pool: Pool, reached: str, service: str = "") -> str:
    """Return the key of a pool's slots: its name, or `NAME/FAMILY` if its families have different backends.

    Those of one *service* have it after a colon.
    """
    same = all(b.ipv4 is not None and b.ipv6 is not None for b in pool.backends)
    key = name if same else f"{name}/{reached}"
    return f"{key}:{service}" if service else key


def _extension_ports(switch: Switch) -> list[str]:
    part = switch.extension
    return [] if part is None else [part.ingress.port, part.egress.port]
