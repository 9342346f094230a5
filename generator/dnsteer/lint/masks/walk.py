"""Walk all paths of all packets through the tables and collect what each unwildcards.

Packets are distinguished by port, ethertype, VLAN, protocol, fragment and destination MAC, as far as flows match these. Any
other field is unknown until a flow matches or writes it. Where a field is unknown the walk follows every possibility, so it
may find masks that no packet creates, but misses none that a packet can create. (Exception: chance hash collisions.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from dnsteer.lint.masks import fields
from dnsteer.lint.masks.actions import (
    Conntrack,
    FlowAction,
    GotoTable,
    MoveBits,
    Output,
    SelectBucket,
    SetField,
    parse_actions,
)
from dnsteer.lint.masks.classifier import ClassifierTable, RuleClass, Subtable
from dnsteer.lint.masks.fields import ARP, ICMP, ICMPV6, IPV4, IPV6, RARP
from dnsteer.lint.masks.mask_sets import EMPTY, MaskSet, merged, unwildcarded
from dnsteer.lint.masks.matches import FieldBits
from dnsteer.render.flows import Flow

_OTHER = -1
"""A value that no flow matches."""
_FRAGMENTS = (0, 1, 3)
_L2 = frozenset(("dl_dst", "dl_src"))
_ARP_FIELDS = frozenset(("nw_src", "nw_dst", "nw_proto", "arp_sha", "arp_tha"))


@dataclass(frozen=True)
class PacketKind:
    """A packet as received: ethertype, protocol and fragment bits. -1 stands for every value that no flow matches."""

    ethertype: int
    protocol: int = 0
    fragment: int = 0

    @property
    def name(self) -> str:
        """The kind's name in reports."""
        return {IPV4: "IPv4", IPV6: "IPv6", ARP: "ARP", RARP: "RARP"}.get(self.ethertype, "other ethertypes")


@dataclass(frozen=True)
class WalkState:
    """Packets about to enter a table: the field values known so far and the bits unwildcarded so far."""

    kind: PacketKind
    table: int
    known: frozenset[tuple[str, FieldBits]]
    mask_set: MaskSet
    recirculated_by: str


@dataclass(frozen=True)
class WalkEnd:
    """Masks of packets of a kind whose path ended in a table. *recirculated_by* is empty if nothing recirculated them."""

    kind: PacketKind
    table: int
    recirculated_by: str
    mask_set: MaskSet


class Walk:
    """A walk over all paths through the tables. *hash_slots* maps a number of buckets to the number of hash values."""

    def __init__(
        self, flows: Iterable[Flow], buckets: Mapping[int, list[str]], hash_slots: Callable[[int], int]
    ) -> None:
        by_table: dict[int, list[Flow]] = defaultdict(list)
        for flow in flows:
            by_table[flow.table].append(flow)
        self._tables = {number: ClassifierTable(found) for number, found in by_table.items()}
        self._buckets = buckets
        self._hash_slots = hash_slots
        live: set[str] = {"dl_type", "nw_proto", "nw_frag"}
        self._live: dict[int, frozenset[str]] = {}
        for number in sorted(self._tables, reverse=True):
            live |= self._tables[number].matched
            self._live[number] = frozenset(live)
        self.ends: set[WalkEnd] = set()
        self._visited: set[WalkState] = set()
        self._todo: list[WalkState] = []

    def run(self) -> set[WalkEnd]:
        """Follow every packet to the end of its path. Raises UnknownError for a flow that the model does not cover."""
        for state in self._starts():
            self._enqueue(state)
        while self._todo:
            self._step(self._todo.pop())
        return self.ends

    def _starts(self) -> Iterator[WalkState]:
        first = min(self._tables)
        values: dict[str, set[int | str]] = defaultdict(set)
        partial: set[str] = set()
        for table in self._tables.values():
            for name, bits in table.named():
                values[name].add(bits.value)
                if bits.mask != fields.full_mask(name):
                    partial.add(name)
        ports: list[int | str] = [*sorted(map(str, values["in_port"])), ""]
        macs = [None] if "dl_dst" in partial else [*values["dl_dst"], _OTHER]
        vlans = [*values["vlan_tci"], _OTHER] if values["vlan_tci"] else [None]
        protocols = [None] if "nw_proto" in partial else [*values["nw_proto"], _OTHER]
        zero = {f"reg{n}": FieldBits(0, fields.full_mask(f"reg{n}")) for n in range(fields.REGISTERS)}
        for ethertype in {ARP, IPV4, IPV6, *map(_number, values["dl_type"]), _OTHER}:
            ip = ethertype in (IPV4, IPV6)
            for port, mac, vlan, protocol, fragment in product(
                ports, macs, vlans, protocols if ip else [None], _FRAGMENTS if ip else [None]
            ):
                known = dict(zero)
                for name, value in (
                    ("in_port", port), ("dl_type", ethertype), ("dl_dst", mac), ("vlan_tci", vlan),
                    ("nw_proto", protocol),
                    ("nw_frag", fragment),
                ):  # fmt: skip
                    if value is not None:
                        known[name] = FieldBits(value, fields.full_mask(name))
                kind = PacketKind(ethertype, _number(protocol or 0), fragment or 0)
                yield self._state(kind, first, known, EMPTY, "")

    def _state(
        self, kind: PacketKind, table: int, known: Mapping[str, FieldBits], mask_set: MaskSet, recirculated_by: str
    ) -> WalkState:
        live = self._live.get(table, frozenset())
        kept = frozenset((n, b) for n, b in known.items() if n in live)
        return WalkState(kind, table, kept, mask_set, recirculated_by)

    def _enqueue(self, state: WalkState) -> None:
        if state not in self._visited:
            self._visited.add(state)
            self._todo.append(state)

    def _end(self, state: WalkState, mask_set: MaskSet) -> None:
        self.ends.add(WalkEnd(state.kind, state.table, state.recirculated_by, _in_datapath(state.kind, mask_set)))

    def _step(self, state: WalkState) -> None:
        table = self._tables.get(state.table)
        if table is None:
            self._end(state, state.mask_set)
            return
        known = dict(state.known)
        if state.kind.fragment:  # flows see the ports of fragments as 0
            known.update({port: FieldBits(0, fields.full_mask(port)) for port in fields.PORTS})
        later = self._after(state.table)
        mask_sets, best = {state.mask_set}, -1
        self._visit(state, table.groups, known, later, mask_sets, best, None)

    def _after(self, table: int) -> frozenset[str]:
        return next((self._live[n] for n in sorted(self._live) if n > table), frozenset())

    def _visit(
        self, state: WalkState, groups: list[list[Subtable]], known: dict[str, FieldBits], later: frozenset[str],
        mask_sets: set[MaskSet], best: int, rule_class: RuleClass | None,
    ) -> None:  # fmt: skip
        """Look up in the groups of subtables. *best* is the priority of *rule_class*, the best match so far."""
        if not groups or groups[0][0].priority <= best:
            self._found(state, rule_class, mask_sets)
            return
        group, rest = groups[0], groups[1:]
        top = group[0].priority
        for nth, subtable in enumerate(group):
            hits = [t for t in subtable.rule_classes(known, later) if t.priority == top]
            if not hits:
                continue
            before = set(mask_sets)
            for other in (*group[:nth], *group[nth + 1 :]):  # visited before this one, or not
                before = merged(before | self._passed(other, known, later, before, top))
            full = merged(unwildcarded(mask_set, subtable.masks) for mask_set in before)
            for hit in hits:
                self._found(state, hit, full)
        # No match with the group's priority: all its subtables are visited, and each may match with a lower priority.
        branches: list[tuple[set[MaskSet], int, RuleClass | None]] = [(mask_sets, best, rule_class)]
        for subtable in group:
            after: list[tuple[set[MaskSet], int, RuleClass | None]] = []
            lower = [t for t in subtable.rule_classes(known, later) if t.priority < top]
            for found, priority, chosen in branches:
                missed = merged(b for mask_set in found for b in subtable.failed(known, mask_set))
                if missed:
                    after.append((missed, priority, chosen))
                for hit in lower:
                    full = merged(unwildcarded(mask_set, subtable.masks) for mask_set in found)
                    better = hit.priority > priority
                    after.append((full, hit.priority if better else priority, hit if better else chosen))
            branches = after
        for found, priority, chosen in branches:
            self._visit(state, rest, known, later, found, priority, chosen)

    def _passed(
        self, subtable: Subtable, known: dict[str, FieldBits], later: frozenset[str], mask_sets: set[MaskSet], top: int
    ) -> set[MaskSet]:
        """Return the mask sets after a lookup in a subtable that yields no better match."""
        out = {b for mask_set in mask_sets for b in subtable.failed(known, mask_set)}
        if any(t.priority < top for t in subtable.rule_classes(known, later)):
            out |= {unwildcarded(mask_set, subtable.masks) for mask_set in mask_sets}
        return out

    def _found(self, state: WalkState, rule_class: RuleClass | None, mask_sets: set[MaskSet]) -> None:
        for mask_set in mask_sets:
            if rule_class is None:
                self._end(state, mask_set)
            else:
                known = {**dict(state.known), **dict(rule_class.values)}
                self._apply(state, rule_class.actions, known, mask_set)

    def _apply(
        self, state: WalkState, actions: tuple[FlowAction, ...], known: dict[str, FieldBits], mask_set: MaskSet
    ) -> None:
        """Follow the actions of a flow."""
        kind = state.kind
        for nth, action in enumerate(actions):
            if isinstance(action, SetField):
                mask_set = _write(kind, action, known, mask_set)
            elif isinstance(action, MoveBits):
                mask_set = _move(kind, action, known, mask_set)
            elif isinstance(action, Output):
                continue
            else:
                if nth != len(actions) - 1:
                    raise fields.UnknownError(
                        "a flow goes on after it sent the packet elsewhere, which the model does not cover"
                    )
                self._follow(state, action, known, mask_set)
                return
        self._end(state, mask_set)

    def _follow(
        self,
        state: WalkState,
        action: GotoTable | Conntrack | SelectBucket,
        known: dict[str, FieldBits],
        mask_set: MaskSet,
    ) -> None:
        kind = state.kind
        if isinstance(action, GotoTable):
            if action.table <= state.table:
                raise fields.UnknownError(f"table {state.table} leads back to {action.table}")
            self._enqueue(self._state(kind, action.table, known, mask_set, state.recirculated_by))
            return
        self._end(state, mask_set)
        if isinstance(action, Conntrack):
            kept = {n: b for n, b in known.items() if not (action.rewrites and n in _REWRITTEN)}
            for fragment in _FRAGMENTS:
                parts = {**kept, "nw_frag": FieldBits(fragment, 3)}
                recirculated_by = PacketKind(kind.ethertype, kind.protocol, fragment)
                self._enqueue(self._state(recirculated_by, action.table, parts, EMPTY, "the connection tracker"))
            return
        buckets = self._buckets.get(action.group)
        if buckets is None:
            return
        hashed = unwildcarded(EMPTY, {"dp_hash": self._hash_slots(len(buckets)) - 1})
        for bucket in set(buckets):
            chosen = WalkState(kind, state.table, state.known, hashed, "the datapath's hash")
            self._apply(chosen, parse_actions(bucket), dict(known), hashed)


_WITH_PROTOCOL = ("nw_src", "nw_dst", "ipv6_src", "ipv6_dst", "ipv6_label", "nw_tos", "nw_ttl")
_REWRITTEN = ("nw_src", "nw_dst", "ipv6_src", "ipv6_dst", "tp_src", "tp_dst")


def _number(value: int | str) -> int:
    return value if isinstance(value, int) else 0


def _needs(kind: PacketKind, name: str) -> dict[str, int]:
    """Return the bits that the switch unwildcards before it uses a field, to check that the packet has the field."""
    if name in ("nd_target", "igmp_group_ip4") or (
        name in ("arp_sha", "arp_tha", "tcp_flags") and kind.ethertype == IPV6
    ):
        return {"nw_proto": 0xFF, "tp_src": 0xFFFF, "tp_dst": 0xFFFF}
    return {"nw_proto": 0xFF} if name in fields.PORTS or name == "tcp_flags" else {}


def _write(kind: PacketKind, action: SetField, known: dict[str, FieldBits], mask_set: MaskSet) -> MaskSet:
    name, mask = action.field, action.mask
    have = known.get(name)
    if mask == fields.full_mask(name):
        known[name] = FieldBits(action.value, mask)
    elif have is not None and isinstance(have.value, int):
        known[name] = FieldBits(have.value & ~mask | action.value & mask, have.mask | mask)
    mask_set = unwildcarded(mask_set, {**_needs(kind, name), name: mask})
    if name in _WITH_PROTOCOL and kind.ethertype in (IPV4, IPV6):
        mask_set = unwildcarded(mask_set, {"nw_proto": 0xFF})  # in all releases with the fix for CVE-2023-1668
    if name in fields.PORTS and kind.protocol in (ICMP, ICMPV6):
        mask_set = unwildcarded(mask_set, dict.fromkeys(fields.PORTS, 0xFF))  # written together in the datapath
    return mask_set


def _move(kind: PacketKind, action: MoveBits, known: dict[str, FieldBits], mask_set: MaskSet) -> MaskSet:
    source, target = action.source, action.target
    if source.field in fields.PORTS and kind.fragment == 3:
        return mask_set  # a later fragment has no ports, so nothing is copied
    have = known.get(source.field)
    known.pop(target.field, None)
    copied_whole = source.mask == fields.full_mask(source.field) and target.mask == fields.full_mask(target.field)
    if copied_whole and have is not None and have.mask == source.mask:
        known[target.field] = have
    for place in (source, target):
        mask_set = unwildcarded(mask_set, {**_needs(kind, place.field), place.field: place.mask})
    return mask_set


def _in_datapath(kind: PacketKind, mask_set: MaskSet) -> MaskSet:
    """Reduce a mask set to the datapath's: only fields that a packet of this kind has."""
    if kind.ethertype in (IPV4, IPV6):
        absent = {"nw_src", "nw_dst"} if kind.ethertype == IPV6 else {"ipv6_src", "ipv6_dst", "ipv6_label", "nd_target"}
        absent |= {"arp_sha", "arp_tha"} if kind.ethertype == IPV4 else set()
        if kind.fragment == 3:
            absent |= set(fields.PORTS)
        mask_set = unwildcarded(mask_set, {"nw_frag": 3})
        if kind.protocol in (ICMP, ICMPV6):
            mask_set = _narrowed(mask_set)
        return frozenset((n, m) for n, m in mask_set if n not in absent)
    has = _ARP_FIELDS if kind.ethertype in (ARP, RARP) else frozenset()
    return frozenset((n, m) for n, m in mask_set if n in _L2 or n in has or fields.stage(n) == 0)


def _narrowed(mask_set: MaskSet) -> MaskSet:
    """Reduce port masks to 8 bits, the width of ICMP's type and code."""
    out = []
    for name, masks in mask_set:
        if name in fields.PORTS:
            masks = frozenset(mask & 0xFF for mask in masks)
            if masks == {0}:
                continue
        out.append((name, masks))
    return frozenset(out)
