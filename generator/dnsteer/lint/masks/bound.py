# SPDX-License-Identifier: Apache-2.0
"""The upper bound on the masks that any traffic can create with a plan's tables."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from dnsteer.lint.masks.classifier import Lookups
from dnsteer.lint.masks.mask_sets import MaskSet, contains, masks_in, merged_masks, size
from dnsteer.lint.masks.traversal import Traversal, TraversalEnd
from dnsteer.plan.plan import Plan
from dnsteer.render.flows import Flow, Group, flows_of, groups_of
from dnsteer.render.templates import port_name
from dnsteer.slots.dp_hash import hash_values, hash_values_newer
from dnsteer.switch.masks import WIDTHS, Mask
from dnsteer.tables.access_tree import AccessWindow
from dnsteer.tables.ingress import ProbeRow
from dnsteer.tables.order import PIPELINE, TABLES

BUCKET = re.compile(r"bucket=bucket_id:\d+,actions=(.*?)(?=,bucket=|$)")
"""A bucket of a rendered group, with its actions."""
_SOURCE = re.compile(r"\b(nw_src|ipv6_src)=([^,/]+)(?:/(\d+))?")
_BUCKETS = PIPELINE.tables["client_meter"].number
_OF_BUCKET = re.compile(rf"{PIPELINE.registers['bucket'].field}=\w+,?")
_METER = re.compile(r"meter:\d+,")
_COUNTED = 100_000
"""Above this many masks duplicates are not removed: the bound is then the sum of the sets' sizes."""


@dataclass(frozen=True)
class MaskGroup:
    """Masks of one kind of packet whose path ends in one table. *many* lists fields with several masks and their number."""

    kind: str
    table: str
    masks: int
    many: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        times = " times ".join(f"{count} of {name}" for name, count in self.many)
        count = f"{self.masks} mask{'' if self.masks == 1 else 's'}"
        return f"{self.kind}, ending in table {self.table}: {count}{f' ({times})' if times else ''}"


@dataclass(frozen=True)
class MaskBound:
    """The bound: at most *total* masks. The *parts* may share masks, so their sum may be larger.

    *mask_sets* has the masks of all Open vSwitch releases. Releases use different hash widths, so it may have more masks
    than any one release creates.
    """

    total: int
    parts: tuple[MaskGroup, ...]
    mask_sets: tuple[MaskSet, ...] = field(repr=False, default=())
    kinds: Mapping[str, frozenset[MaskSet]] = field(repr=False, default_factory=dict)

    @property
    def why(self) -> list[str]:
        """The parts as text, the largest first; only parts where a field has several masks, if there are any."""
        many = [p for p in self.parts if p.many] or self.parts
        return [str(p) for p in sorted(many, key=lambda p: -p.masks)]

    @property
    def by_kind(self) -> dict[str, int]:
        """The number of masks by ethertype. Masks that IPv4 and IPv6 share count for both."""
        return {kind: _count(merged_masks(mask_sets)) for kind, mask_sets in self.kinds.items()}

    def allows(self, mask: Mask) -> bool:
        """Whether the bound contains a mask as read from the datapath's dump."""
        return any(contains(_shown(mask_set), mask) for mask_set in self.mask_sets)


def _shown(mask_set: MaskSet) -> MaskSet:
    """Return the set as a dump shows it: flags and option type of neighbour discovery are matched but not printed."""
    if not any(name == "nd_target" for name, _ in mask_set):
        return mask_set
    return frozenset(part for part in mask_set if part[0] not in ("tcp_flags", "igmp_group_ip4"))


def mask_bound(plan: Plan) -> MaskBound:
    """Return the mask bound of a plan. Raises UnknownError for flows that the classifier model does not cover."""
    flows = foreign_flows(plan)
    return bound_of(_same_prefixes(flows) if plan.rows.of(AccessWindow) else flows, groups_of(plan))


def foreign_flows(plan: Plan) -> Iterator[Flow]:
    """Yield the flows but for those of the port for probes: nobody but the agent sends there.

    Of the buckets of a limit of clients, which differ in their meters alone, there is one, for all values of the bits.
    """
    own = {f"in_port={port_name(row.name)}" for row in plan.rows.of(ProbeRow)}
    seen = set[Flow]()
    for flow in flows_of(plan):
        if flow.table == _BUCKETS and flow.priority:
            flow = replace(flow, match=_OF_BUCKET.sub("", flow.match), actions=_METER.sub("", flow.actions))
            if flow in seen:
                continue
            seen.add(flow)
        if own.isdisjoint(flow.match.split(",")):
            yield flow


def _same_prefixes(flows: Iterable[Flow]) -> Iterator[Flow]:
    """Yield flows of access lists with the prefix of their length that is all zeros, and of those that are then alike one.

    What a packet unwildcards there depends on the lengths alone, and a list may have 20,000 prefixes: with these all that
    is possible still is, since each lies within each shorter one.
    """
    tables = {t.number for t in TABLES if AccessWindow in t.uses.values()}
    seen = set[Flow]()
    for flow in flows:
        if flow.table not in tables:
            yield flow
            continue
        match = _SOURCE.sub(_zeros, flow.match)
        one = replace(flow, match=match, cookie=0)
        if one not in seen:
            seen.add(one)
            yield one


def _zeros(found: re.Match[str]) -> str:
    whole = 32 if found[1] == "nw_src" else 128
    length = int(found[3] or whole)
    return f"{found[1]}={'0.0.0.0' if whole == 32 else '::'}{'' if length == whole else f'/{length}'}"


def bound_of(flows: Iterable[Flow], groups: Iterable[Group] = ()) -> MaskBound:
    """Return the mask bound of flows and groups in ovs-ofctl's syntax. Raises UnknownError as mask_bound does."""
    tables = Lookups(flows)
    buckets = {g.number: BUCKET.findall(g.text) for g in groups}
    # Releases differ in the number of hash values per group, and so in which groups share a mask: use the larger bound.
    sizes = set(map(len, buckets.values()))
    slot_counts = {tuple(map(slots, sizes)): slots for slots in (hash_values_newer, hash_values)}
    found = sorted(
        (_bound(Traversal(tables, buckets, slots).run()) for slots in slot_counts.values()), key=lambda b: -b.total
    )
    return replace(found[0], mask_sets=tuple(dict.fromkeys(mask_set for each in found for mask_set in each.mask_sets)))


def _bound(ends: Collection[TraversalEnd]) -> MaskBound:
    found: dict[tuple[str, int], set[MaskSet]] = defaultdict(set)
    for end in ends:
        name = f"{end.kind.name} after {end.recirculated_by}" if end.recirculated_by else end.kind.name
        found[name, end.table].add(end.mask_set)
    names = {t.number: t.name for t in TABLES}
    parts = tuple(
        MaskGroup(kind, names.get(table, str(table)), _count(merged_masks(mask_sets)), _many(mask_sets))
        for (kind, table), mask_sets in sorted(found.items())
    )
    mask_sets = merged_masks(mask_set for each in found.values() for mask_set in each)
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
