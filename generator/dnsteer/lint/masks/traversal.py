# SPDX-License-Identifier: Apache-2.0
"""Follow all paths of all packets through the tables and collect what each unwildcards.

Packets are distinguished by port, ethertype, VLAN, protocol, fragment and destination MAC, as far as flows match these. Any
other field is unknown until a flow matches or writes it. Where a field is unknown every possibility is followed, so this
may find masks that no packet creates, but misses none that a packet can create. (Exception: chance hash collisions.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, reduce
from itertools import product
from typing import NamedTuple

from dnsteer.lint.masks import fields
from dnsteer.lint.masks.classifier import Lookups
from dnsteer.lint.masks.fields import ARP, ICMP, ICMPV6, IPV4, IPV6, RARP
from dnsteer.lint.masks.flow_syntax import (
    ApplyMeter,
    CommitConnection,
    Conntrack,
    FieldBits,
    FlowAction,
    GotoTable,
    MoveBits,
    Output,
    SelectBucket,
    SetField,
    parse_actions,
)
from dnsteer.lint.masks.mask_sets import EMPTY, MaskSet, combined, merged_masks, unwildcarded

OTHER = -1
"""A value that no flow matches."""
LATER = 3
FRAGMENTS = (0, 1, LATER)
"""Whole packets, first and later fragments, as bits of nw_frag."""
_L2 = frozenset(("dl_dst", "dl_src", "vlan_pcp"))
_VLAN_ID, _PRIORITY = 0x0FFF, 0xE000
_ARP_FIELDS = frozenset(("nw_src", "nw_dst", "nw_proto", "arp_sha", "arp_tha"))


class PacketKind(NamedTuple):
    """A packet as received: ethertype, protocol and fragment bits. -1 stands for every value that no flow matches."""

    ethertype: int
    protocol: int = 0
    fragment: int = 0

    @property
    def name(self) -> str:
        return {IPV4: "IPv4", IPV6: "IPv6", ARP: "ARP", RARP: "RARP"}.get(self.ethertype, "other ethertypes")


class TraversalState(NamedTuple):
    """Packets about to enter a table: the field values known so far and the bits unwildcarded so far."""

    kind: PacketKind
    table: int
    known: frozenset[tuple[str, FieldBits]]
    mask_set: MaskSet
    recirculated_by: str


class TraversalEnd(NamedTuple):
    """Masks of packets of a kind whose path ended in a table. *recirculated_by* is empty if nothing recirculated them."""

    kind: PacketKind
    table: int
    recirculated_by: str
    mask_set: MaskSet


class Traversal:
    """A traversal of all paths through the tables. *hash_slots* maps a number of buckets to the number of hash values."""

    def __init__(self, tables: Lookups, buckets: Mapping[int, list[str]], hash_slots: Callable[[int], int]) -> None:
        self._tables = tables
        self._buckets = buckets
        self._hash_slots = hash_slots
        self.ends: set[TraversalEnd] = set()
        self._visited: set[TraversalState] = set()
        self._todo: list[TraversalState] = []

    def run(self) -> set[TraversalEnd]:
        """Follow every packet to the end of its path. Raises UnknownError for a flow that the model does not cover."""
        for state in self._starts():
            self._enqueue(state)
        while self._todo:
            self._step(self._todo.pop())
        return self.ends

    def _starts(self) -> Iterator[TraversalState]:
        first = self._tables.first
        values: dict[str, set[int | str]] = defaultdict(set)
        partial: set[str] = set()
        for name, bits in self._tables.named():
            values[name].add(bits.value)
            if bits.mask != fields.full_mask(name):
                partial.add(name)
        ports: list[int | str] = [*sorted(map(str, values["in_port"])), ""]
        macs = [None] if "dl_dst" in partial else [*values["dl_dst"], OTHER]
        vlans = [*values["vlan_tci"], OTHER] if values["vlan_tci"] else [None]
        protocols = [None] if "nw_proto" in partial else [*values["nw_proto"], OTHER]
        zero = {f"reg{n}": FieldBits(0, fields.full_mask(f"reg{n}")) for n in range(fields.REGISTERS)}
        for ethertype in {ARP, IPV4, IPV6, *map(_number, values["dl_type"]), OTHER}:
            ip = ethertype in (IPV4, IPV6)
            for port, mac, vlan, protocol, fragment in product(
                ports, macs, vlans, protocols if ip else [None], FRAGMENTS if ip else [None]
            ):
                known = dict(zero)
                for name, value in (
                    ("in_port", port),
                    ("dl_type", ethertype),
                    ("dl_dst", mac),
                    ("vlan_tci", vlan),
                    ("nw_proto", protocol),
                    ("nw_frag", fragment),
                ):
                    if value is not None:
                        known[name] = FieldBits(value, fields.full_mask(name))
                kind = PacketKind(ethertype, _number(protocol or 0), fragment or 0)
                yield self._state(kind, first, known, EMPTY, "")

    def _state(
        self, kind: PacketKind, table: int, known: Mapping[str, FieldBits], mask_set: MaskSet, recirculated_by: str
    ) -> TraversalState:
        live = self._tables.live(table)
        kept = frozenset((n, b) for n, b in known.items() if n in live)
        return TraversalState(kind, table, kept, mask_set, recirculated_by)

    def _enqueue(self, state: TraversalState) -> None:
        if state not in self._visited:
            self._visited.add(state)
            self._todo.append(state)

    def _end(self, state: TraversalState, mask_set: MaskSet) -> None:
        self.ends.add(TraversalEnd(state.kind, state.table, state.recirculated_by, in_datapath(state.kind, mask_set)))

    def _step(self, state: TraversalState) -> None:
        if state.table not in self._tables:
            self._end(state, state.mask_set)
            return
        known = dict(state.known)
        if state.kind.fragment:  # flows see the ports of fragments as 0
            known.update({port: FieldBits(0, fields.full_mask(port)) for port in fields.PORTS})
        for rule_class, unwildcards in self._tables.lookup(state.table, known).items():
            mask_sets = merged_masks(combined(state.mask_set, more) for more in unwildcards)
            if rule_class is None:
                for mask_set in mask_sets:
                    self._end(state, mask_set)
            else:
                self._apply(state, rule_class.actions, {**dict(state.known), **dict(rule_class.values)}, mask_sets)

    def _apply(
        self,
        state: TraversalState,
        actions: tuple[FlowAction, ...],
        known: dict[str, FieldBits],
        mask_sets: set[MaskSet],
    ) -> None:
        unwildcards = EMPTY
        for nth, action in enumerate(actions):
            if isinstance(action, SetField):
                unwildcards = combined(unwildcards, action_unwildcards(state.kind, action, vlan_known(known)))
                write_known(action, known)
            elif isinstance(action, MoveBits):
                if action.source.field in fields.PORTS and state.kind.fragment == LATER:
                    continue  # a later fragment has no ports, so nothing is copied
                move_known(action, known)
                unwildcards = combined(unwildcards, action_unwildcards(state.kind, action))
            elif not isinstance(action, Output | ApplyMeter | CommitConnection):
                if nth != len(actions) - 1:
                    raise fields.UnknownError(
                        "a flow goes on after it sent the packet elsewhere, which the model does not cover"
                    )
                self._follow(state, action, known, {combined(each, unwildcards) for each in mask_sets})
                return
        for each in mask_sets:
            self._end(state, combined(each, unwildcards))

    def _follow(
        self,
        state: TraversalState,
        action: GotoTable | Conntrack | SelectBucket,
        known: dict[str, FieldBits],
        mask_sets: set[MaskSet],
    ) -> None:
        kind = state.kind
        if isinstance(action, GotoTable):
            if action.table <= state.table:
                raise fields.UnknownError(f"table {state.table} leads back to {action.table}")
            for mask_set in mask_sets:
                self._enqueue(self._state(kind, action.table, known, mask_set, state.recirculated_by))
            return
        for mask_set in mask_sets:
            self._end(state, mask_set)
        if isinstance(action, Conntrack):
            kept = {n: b for n, b in known.items() if not (action.rewrites and n in REWRITTEN)}
            # The tracker puts fragments together, and makes others of the result; what is none stays none.
            for fragment in FRAGMENTS if kind.fragment else (0,):
                parts = {**kept, "nw_frag": FieldBits(fragment, 3)}
                recirculated_by = PacketKind(kind.ethertype, kind.protocol, fragment)
                self._enqueue(self._state(recirculated_by, action.table, parts, EMPTY, "the connection tracker"))
            return
        buckets = self._buckets.get(action.group)
        if buckets is None:
            return
        hashed = unwildcarded(EMPTY, {"dp_hash": self._hash_slots(len(buckets)) - 1})
        for bucket in set(buckets):
            chosen = TraversalState(kind, state.table, state.known, hashed, "the datapath's hash")
            self._apply(chosen, parse_actions(bucket), dict(known), {hashed})


_WITH_PROTOCOL = ("nw_src", "nw_dst", "ipv6_src", "ipv6_dst", "ipv6_label", "nw_tos", "nw_ttl")
REWRITTEN = ("nw_src", "nw_dst", "ipv6_src", "ipv6_dst", "tp_src", "tp_dst")
"""Fields that the connection tracker may rewrite by NAT."""


def _number(value: int | str) -> int:
    return value if isinstance(value, int) else 0


def _needs(kind: PacketKind, name: str) -> dict[str, int]:
    """Return the bits that the switch unwildcards before it uses a field, to check that the packet has the field."""
    if name in ("nd_target", "igmp_group_ip4") or (
        name in ("arp_sha", "arp_tha", "tcp_flags") and kind.ethertype == IPV6
    ):
        return {"nw_proto": 0xFF, "tp_src": 0xFFFF, "tp_dst": 0xFFFF}
    return {"nw_proto": 0xFF} if name in fields.PORTS or name == "tcp_flags" else {}


def write_known(action: SetField, known: dict[str, FieldBits]) -> None:
    """Note in *known* what an action writes."""
    name, mask = action.field, action.mask
    have = known.get(name)
    if mask == fields.full_mask(name):
        known[name] = FieldBits(action.value, mask)
    elif have is not None and isinstance(have.value, int):
        known[name] = FieldBits(have.value & ~mask | action.value & mask, have.mask | mask)


def move_known(action: MoveBits, known: dict[str, FieldBits]) -> None:
    """Note in *known* what an action copies: a value is known where the whole of a known field is."""
    source, target = action.source, action.target
    have = known.get(source.field)
    known.pop(target.field, None)
    copied_whole = source.mask == fields.full_mask(source.field) and target.mask == fields.full_mask(target.field)
    if copied_whole and have is not None and have.mask == source.mask:
        known[target.field] = have


def vlan_known(known: Mapping[str, FieldBits]) -> int | None:
    """The VLAN ID that packets are known to have."""
    found = known.get("vlan_tci")
    return None if found is None or not isinstance(found.value, int) else found.value & _VLAN_ID


@lru_cache(maxsize=1 << 12)
def action_unwildcards(kind: PacketKind, action: SetField | MoveBits, vlan: int | None = None) -> MaskSet:
    """What an action unwildcards that reads or writes fields of a packet with a *vlan*; None where that is not known.

    A tag that changes is taken off and put on anew, which unwildcards all of it. What has no tag shows no priority.
    """
    if isinstance(action, SetField) and action.field == "vlan_tci":
        if vlan == action.value & _VLAN_ID and not action.mask & _PRIORITY:
            return EMPTY
        return unwildcarded(EMPTY, {"vlan_pcp": 7 if vlan else (0, 7)})
    if isinstance(action, SetField) and action.field in fields.TUNNEL_ENDS:
        return unwildcarded(EMPTY, {"nw_tos": 3})  # the header outside has the ECN field of the packet inside
    if isinstance(action, MoveBits):
        places = (action.source, action.target)
        return reduce(unwildcarded, ({**_needs(kind, each.field), each.field: each.mask} for each in places), EMPTY)
    found = unwildcarded(EMPTY, {**_needs(kind, action.field), action.field: action.mask})
    if action.field in _WITH_PROTOCOL and kind.ethertype in (IPV4, IPV6):
        found = unwildcarded(found, {"nw_proto": 0xFF})  # in all releases with the fix for CVE-2023-1668
    if action.field in fields.PORTS and kind.protocol in (ICMP, ICMPV6):
        found = unwildcarded(found, dict.fromkeys(fields.PORTS, 0xFF))  # written together in the datapath
    return found


def in_datapath(kind: PacketKind, mask_set: MaskSet) -> MaskSet:
    """Reduce a mask set to the datapath's: only fields that a packet of this kind has."""
    if kind.ethertype in (IPV4, IPV6):
        absent = {"nw_src", "nw_dst"} if kind.ethertype == IPV6 else {"ipv6_src", "ipv6_dst", "ipv6_label", "nd_target"}
        absent |= {"arp_sha", "arp_tha"} if kind.ethertype == IPV4 else set()
        if kind.fragment == LATER:
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
