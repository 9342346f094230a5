"""The most masks that any traffic can make of a plan's tables."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from dnsteer.lint.masks.box import Box, holds, masks_in, size, tidy
from dnsteer.lint.masks.walk import End, Walk
from dnsteer.plan.plan import Plan
from dnsteer.render.flows import Flow, Group, flows_of, groups_of
from dnsteer.slots.dp_hash import values, values_fourfold
from dnsteer.switch.masks import WIDTHS, Mask
from dnsteer.tables.order import TABLES

_BUCKET = re.compile(r"bucket=bucket_id:\d+,actions=(.*?)(?=,bucket=|$)")
_COUNTED = 100_000
"""More masks than this are not told apart: the bound then is a sum of products."""


@dataclass(frozen=True)
class Part:
    """Masks of one kind of packet whose way ends in one table. *many*: fields with several masks, and how many each."""

    kind: str
    table: str
    masks: int
    many: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        times = " times ".join(f"{count} of {name}" for name, count in self.many)
        count = f"{self.masks} mask{'' if self.masks == 1 else 's'}"
        return f"{self.kind} as far as table {self.table}: {count}{f' ({times})' if times else ''}"


@dataclass(frozen=True)
class Bound:
    """At most *total* masks. The *parts* may share masks, so they need not add up.

    *boxes* has all masks of any release; where a hash has another width in some, that is more than one of them makes.
    """

    total: int
    parts: tuple[Part, ...]
    boxes: tuple[Box, ...] = field(repr=False, default=())
    kinds: Mapping[str, frozenset[Box]] = field(repr=False, default_factory=dict)

    @property
    def why(self) -> list[str]:
        """Where masks come from, the most first; those of parts that multiply alone, where any does."""
        many = [p for p in self.parts if p.many] or self.parts
        return [str(p) for p in sorted(many, key=lambda p: -p.masks)]

    @property
    def by_kind(self) -> dict[str, int]:
        """Masks by ethertype. Those that IPv4 and IPv6 share count for both."""
        return {kind: _count(tidy(boxes)) for kind, boxes in self.kinds.items()}

    def allows(self, mask: Mask) -> bool:
        """Whether a mask is among those that were computed, as the datapath's dump shows them."""
        return any(holds(_shown(box), mask) for box in self.boxes)


def _shown(box: Box) -> Box:
    """Flags and option type of neighbour discovery are matched but not printed."""
    if not any(name == "nd_target" for name, _ in box):
        return box
    return frozenset(part for part in box if part[0] not in ("tcp_flags", "igmp_group_ip4"))


def mask_bound(plan: Plan) -> Bound:
    """The bound of a plan. Raises UnknownError for flows that the model of the classifier does not cover."""
    return bound_of(flows_of(plan), groups_of(plan))


def bound_of(flows: Iterable[Flow], groups: Iterable[Group] = ()) -> Bound:
    """The bound of any flows and groups, spelt as ovs-ofctl prints them. Raises UnknownError as mask_bound does."""
    rules = list(flows)
    buckets = {g.number: _BUCKET.findall(g.text) for g in groups}
    # Releases differ in how many slots a hash has, and so in which groups share a mask: the worse counts.
    ways = (values, values_fourfold) if buckets else (values,)
    found = sorted((_bound(Walk(rules, buckets, way).run()) for way in ways), key=lambda b: -b.total)
    return replace(found[0], boxes=tuple(dict.fromkeys(box for each in found for box in each.boxes)))


def _bound(ends: Collection[End]) -> Bound:
    found: dict[tuple[str, int], set[Box]] = defaultdict(set)
    for end in ends:
        name = f"{end.kind.name} after {end.again}" if end.again else end.kind.name
        found[name, end.table].add(end.box)
    names = {t.number: t.name for t in TABLES}
    parts = tuple(
        Part(kind, names.get(table, str(table)), _count(tidy(boxes)), _many(boxes))
        for (kind, table), boxes in sorted(found.items())
    )
    boxes = tidy(box for each in found.values() for box in each)
    kinds: dict[str, set[Box]] = defaultdict(set)
    for end in ends:
        kinds[end.kind.name].add(end.box)
    return Bound(_count(boxes), parts, tuple(boxes), {kind: frozenset(of) for kind, of in sorted(kinds.items())})


def _count(boxes: set[Box]) -> int:
    if sum(map(size, boxes)) > _COUNTED:
        return sum(map(size, boxes))
    return len({mask for box in boxes for mask in masks_in(box)})


def _many(boxes: Iterable[Box]) -> tuple[tuple[str, int], ...]:
    most: dict[str, int] = {}
    for box in boxes:
        for name, masks in box:
            most[name] = max(most.get(name, 0), len(masks))
    return tuple((name, most[name]) for name in WIDTHS if most.get(name, 0) > 1)
