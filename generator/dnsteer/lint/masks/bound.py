"""The most masks that any traffic can make of a plan's tables."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from dnsteer.lint.masks.mask_sets import MaskSet, contains, masks_in, merged, size
from dnsteer.lint.masks.walk import Walk, WalkEnd
from dnsteer.plan.plan import Plan
from dnsteer.render.flows import Flow, Group, flows_of, groups_of
from dnsteer.slots.dp_hash import values, values_fourfold
from dnsteer.switch.masks import WIDTHS, Mask
from dnsteer.tables.order import TABLES

_BUCKET = re.compile(r"bucket=bucket_id:\d+,actions=(.*?)(?=,bucket=|$)")
_COUNTED = 100_000
"""More masks than this are not told apart: the bound then is a sum of products."""


@dataclass(frozen=True)
class MaskGroup:
    """Masks of one kind of packet whose path ends in one table. *many*: fields with several masks, and how many each."""

    kind: str
    table: str
    masks: int
    many: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        times = " times ".join(f"{count} of {name}" for name, count in self.many)
        count = f"{self.masks} mask{'' if self.masks == 1 else 's'}"
        return f"{self.kind} as far as table {self.table}: {count}{f' ({times})' if times else ''}"


@dataclass(frozen=True)
class MaskBound:
    """At most *total* masks. The *parts* may share masks, so they need not add up.

    *mask_sets* has all masks of any release; where a hash has another width in some, that is more than one of them makes.
    """

    total: int
    parts: tuple[MaskGroup, ...]
    mask_sets: tuple[MaskSet, ...] = field(repr=False, default=())
    kinds: Mapping[str, frozenset[MaskSet]] = field(repr=False, default_factory=dict)

    @property
    def why(self) -> list[str]:
        """Where masks come from, the most first; those of parts that multiply alone, where any does."""
        many = [p for p in self.parts if p.many] or self.parts
        return [str(p) for p in sorted(many, key=lambda p: -p.masks)]

    @property
    def by_kind(self) -> dict[str, int]:
        """Masks by ethertype. Those that IPv4 and IPv6 share count for both."""
        return {kind: _count(merged(mask_sets)) for kind, mask_sets in self.kinds.items()}

    def allows(self, mask: Mask) -> bool:
        """Whether a mask is among those that were computed, as the datapath's dump shows them."""
        return any(contains(_shown(mask_set), mask) for mask_set in self.mask_sets)


def _shown(mask_set: MaskSet) -> MaskSet:
    """Flags and option type of neighbour discovery are matched but not printed."""
    if not any(name == "nd_target" for name, _ in mask_set):
        return mask_set
    return frozenset(part for part in mask_set if part[0] not in ("tcp_flags", "igmp_group_ip4"))


def mask_bound(plan: Plan) -> MaskBound:
    """The bound of a plan. Raises UnknownError for flows that the model of the classifier does not cover."""
    return bound_of(flows_of(plan), groups_of(plan))


def bound_of(flows: Iterable[Flow], groups: Iterable[Group] = ()) -> MaskBound:
    """The bound of any flows and groups, spelt as ovs-ofctl prints them. Raises UnknownError as mask_bound does."""
    rules = list(flows)
    buckets = {g.number: _BUCKET.findall(g.text) for g in groups}
    # Releases differ in how many slots a hash has, and so in which groups share a mask: the worse counts.
    slot_counts = (values, values_fourfold) if buckets else (values,)
    found = sorted(
        (_bound(Walk(rules, buckets, hash_slots).run()) for hash_slots in slot_counts), key=lambda b: -b.total
    )
    return replace(found[0], mask_sets=tuple(dict.fromkeys(mask_set for each in found for mask_set in each.mask_sets)))


def _bound(ends: Collection[WalkEnd]) -> MaskBound:
    found: dict[tuple[str, int], set[MaskSet]] = defaultdict(set)
    for end in ends:
        name = f"{end.kind.name} after {end.recirculated_by}" if end.recirculated_by else end.kind.name
        found[name, end.table].add(end.mask_set)
    names = {t.number: t.name for t in TABLES}
    parts = tuple(
        MaskGroup(kind, names.get(table, str(table)), _count(merged(mask_sets)), _many(mask_sets))
        for (kind, table), mask_sets in sorted(found.items())
    )
    mask_sets = merged(mask_set for each in found.values() for mask_set in each)
    kinds: dict[str, set[MaskSet]] = defaultdict(set)
    for end in ends:
        kinds[end.kind.name].add(end.mask_set)
    return MaskBound(
        _count(mask_sets), parts, tuple(mask_sets), {kind: frozenset(of) for kind, of in sorted(kinds.items())}
    )


def _count(mask_sets: set[MaskSet]) -> int:
    if sum(map(size, mask_sets)) > _COUNTED:
        return sum(map(size, mask_sets))
    return len({mask for mask_set in mask_sets for mask in masks_in(mask_set)})


def _many(mask_sets: Iterable[MaskSet]) -> tuple[tuple[str, int], ...]:
    most: dict[str, int] = {}
    for mask_set in mask_sets:
        for name, masks in mask_set:
            most[name] = max(most.get(name, 0), len(masks))
    return tuple((name, most[name]) for name in WIDTHS if most.get(name, 0) > 1)
