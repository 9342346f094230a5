"""All ways of all packets through the tables, and what was looked at on each.

Packets are told apart by port, ethertype, VLAN, protocol, fragment and destination MAC, as far as flows match these; of
every other field nothing is known until a flow matches or writes it. Where the walk knows too little it takes all that is
possible, so it may find masks that no packet makes, but none that is made is missing. (What it leaves out: hashes that
collide by chance.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from dnsteer.lint.masks import fields
from dnsteer.lint.masks.actions import Action, Goto, Move, Select, Send, Track, Write, parse_actions
from dnsteer.lint.masks.box import EMPTY, Box, folded, tidy
from dnsteer.lint.masks.classifier import Subtable, Table, Turn
from dnsteer.lint.masks.fields import ARP, ICMP, ICMPV6, IPV4, IPV6, RARP
from dnsteer.lint.masks.matches import Bits
from dnsteer.render.flows import Flow

_OTHER = -1
"""A value that no flow matches."""
_FRAGMENTS = (0, 1, 3)
_L2 = frozenset(("dl_dst", "dl_src"))
_ARP_FIELDS = frozenset(("nw_src", "nw_dst", "nw_proto", "arp_sha", "arp_tha"))


@dataclass(frozen=True)
class Kind:
    """What a packet was when it came in: ethertype, protocol and fragment bits; -1 for any that no flow names."""

    ethertype: int
    protocol: int = 0
    fragment: int = 0

    @property
    def name(self) -> str:
        """The kind's name for people."""
        return {IPV4: "IPv4", IPV6: "IPv6", ARP: "ARP", RARP: "RARP"}.get(self.ethertype, "other ethertypes")


@dataclass(frozen=True)
class State:
    """Packets before a table: what is known of them and what was looked at."""

    kind: Kind
    table: int
    known: frozenset[tuple[str, Bits]]
    box: Box
    again: str


@dataclass(frozen=True)
class End:
    """Masks of packets of a kind whose way ended in a table. *again*: the reason of their further pass, if it was one."""

    kind: Kind
    table: int
    again: str
    box: Box


class Walk:
    """All ways through the tables. *hash_slots* tells how many slots the datapath's hash has for so many buckets."""

    def __init__(
        self, flows: Iterable[Flow], buckets: Mapping[int, list[str]], hash_slots: Callable[[int], int]
    ) -> None:
        by_table: dict[int, list[Flow]] = defaultdict(list)
        for flow in flows:
            by_table[flow.table].append(flow)
        self._tables = {number: Table(found) for number, found in by_table.items()}
        self._buckets = buckets
        self._hash_slots = hash_slots
        live: set[str] = {"dl_type", "nw_proto", "nw_frag"}
        self._live: dict[int, frozenset[str]] = {}
        for number in sorted(self._tables, reverse=True):
            live |= self._tables[number].matched
            self._live[number] = frozenset(live)
        self.ends: set[End] = set()
        self._seen: set[State] = set()
        self._todo: list[State] = []

    def run(self) -> set[End]:
        """Follow every packet to its end. Raises UnknownError for a flow that the model does not cover."""
        for state in self._starts():
            self._meet(state)
        while self._todo:
            self._step(self._todo.pop())
        return self.ends

    def _starts(self) -> Iterator[State]:
        first = min(self._tables)
        values: dict[str, set[int | str]] = defaultdict(set)
        partial: set[str] = set()
        for table in self._tables.values():
            for name, bits in table.named():
                values[name].add(bits.value)
                if bits.mask != fields.whole(name):
                    partial.add(name)
        ports: list[int | str] = [*sorted(map(str, values["in_port"])), ""]
        macs = [None] if "dl_dst" in partial else [*values["dl_dst"], _OTHER]
        vlans = [*values["vlan_tci"], _OTHER] if values["vlan_tci"] else [None]
        protocols = [None] if "nw_proto" in partial else [*values["nw_proto"], _OTHER]
        zero = {f"reg{n}": Bits(0, fields.whole(f"reg{n}")) for n in range(fields.REGISTERS)}
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
                        known[name] = Bits(value, fields.whole(name))
                kind = Kind(ethertype, _number(protocol or 0), fragment or 0)
                yield self._state(kind, first, known, EMPTY, "")

    def _state(self, kind: Kind, table: int, known: Mapping[str, Bits], box: Box, again: str) -> State:
        live = self._live.get(table, frozenset())
        kept = frozenset((n, b) for n, b in known.items() if n in live)
        return State(kind, table, kept, box, again)

    def _meet(self, state: State) -> None:
        if state not in self._seen:
            self._seen.add(state)
            self._todo.append(state)

    def _end(self, state: State, box: Box) -> None:
        self.ends.add(End(state.kind, state.table, state.again, _in_datapath(state.kind, box)))

    def _step(self, state: State) -> None:
        table = self._tables.get(state.table)
        if table is None:
            self._end(state, state.box)
            return
        known = dict(state.known)
        if state.kind.fragment:  # the switch shows no ports of fragments to flows
            known.update({port: Bits(0, fields.whole(port)) for port in fields.PORTS})
        later = self._after(state.table)
        boxes, best = {state.box}, -1
        self._visit(state, table.groups, known, later, boxes, best, None)

    def _after(self, table: int) -> frozenset[str]:
        return next((self._live[n] for n in sorted(self._live) if n > table), frozenset())

    def _visit(
        self, state: State, groups: list[list[Subtable]], known: dict[str, Bits], later: frozenset[str],
        boxes: set[Box], best: int, turn: Turn | None,
    ) -> None:  # fmt: skip
        """Go through the groups of subtables. *best* is the priority of *turn*, the flow found so far."""
        if not groups or groups[0][0].priority <= best:
            self._found(state, turn, boxes)
            return
        group, rest = groups[0], groups[1:]
        top = group[0].priority
        for nth, subtable in enumerate(group):
            hits = [t for t in subtable.turns(known, later) if t.priority == top]
            if not hits:
                continue
            before = set(boxes)
            for other in (*group[:nth], *group[nth + 1 :]):  # visited before this one, or not
                before = tidy(before | self._passed(other, known, later, before, top))
            full = tidy(folded(box, subtable.masks) for box in before)
            for hit in hits:
                self._found(state, hit, full)
        # Nothing of the highest priority: all of the group are visited, and each may find a flow of a lower one.
        ways: list[tuple[set[Box], int, Turn | None]] = [(boxes, best, turn)]
        for subtable in group:
            after: list[tuple[set[Box], int, Turn | None]] = []
            lower = [t for t in subtable.turns(known, later) if t.priority < top]
            for found, priority, chosen in ways:
                missed = tidy(b for box in found for b in subtable.failed(known, box))
                if missed:
                    after.append((missed, priority, chosen))
                for hit in lower:
                    full = tidy(folded(box, subtable.masks) for box in found)
                    better = hit.priority > priority
                    after.append((full, hit.priority if better else priority, hit if better else chosen))
            ways = after
        for found, priority, chosen in ways:
            self._visit(state, rest, known, later, found, priority, chosen)

    def _passed(
        self, subtable: Subtable, known: dict[str, Bits], later: frozenset[str], boxes: set[Box], top: int
    ) -> set[Box]:
        """What a visit adds that finds nothing as good."""
        out = {b for box in boxes for b in subtable.failed(known, box)}
        if any(t.priority < top for t in subtable.turns(known, later)):
            out |= {folded(box, subtable.masks) for box in boxes}
        return out

    def _found(self, state: State, turn: Turn | None, boxes: set[Box]) -> None:
        for box in boxes:
            if turn is None:
                self._end(state, box)
            else:
                known = {**dict(state.known), **dict(turn.values)}
                self._do(state, turn.actions, known, box)

    def _do(self, state: State, actions: tuple[Action, ...], known: dict[str, Bits], box: Box) -> None:
        """Follow the actions of a flow."""
        kind = state.kind
        for nth, action in enumerate(actions):
            if isinstance(action, Write):
                box = _write(kind, action, known, box)
            elif isinstance(action, Move):
                box = _move(kind, action, known, box)
            elif isinstance(action, Send):
                continue
            else:
                if nth != len(actions) - 1:
                    raise fields.UnknownError(
                        "a flow goes on after it sent the packet elsewhere, which the model does not cover"
                    )
                self._go(state, action, known, box)
                return
        self._end(state, box)

    def _go(self, state: State, action: Goto | Track | Select, known: dict[str, Bits], box: Box) -> None:
        kind = state.kind
        if isinstance(action, Goto):
            if action.table <= state.table:
                raise fields.UnknownError(f"table {state.table} leads back to {action.table}")
            self._meet(self._state(kind, action.table, known, box, state.again))
            return
        self._end(state, box)
        if isinstance(action, Track):
            kept = {n: b for n, b in known.items() if not (action.rewrites and n in _REWRITTEN)}
            for fragment in _FRAGMENTS:
                parts = {**kept, "nw_frag": Bits(fragment, 3)}
                again = Kind(kind.ethertype, kind.protocol, fragment)
                self._meet(self._state(again, action.table, parts, EMPTY, "the connection tracker"))
            return
        buckets = self._buckets.get(action.group)
        if buckets is None:
            return
        hashed = folded(EMPTY, {"dp_hash": self._hash_slots(len(buckets)) - 1})
        for bucket in set(buckets):
            chosen = State(kind, state.table, state.known, hashed, "the datapath's hash")
            self._do(chosen, parse_actions(bucket), dict(known), hashed)


_WITH_PROTOCOL = ("nw_src", "nw_dst", "ipv6_src", "ipv6_dst", "ipv6_label", "nw_tos", "nw_ttl")
_REWRITTEN = ("nw_src", "nw_dst", "ipv6_src", "ipv6_dst", "tp_src", "tp_dst")


def _number(value: int | str) -> int:
    return value if isinstance(value, int) else 0


def _needs(kind: Kind, name: str) -> dict[str, int]:
    """What the switch looks at before it reads or writes a field: whether the packet has it."""
    if name in ("nd_target", "igmp_group_ip4") or (
        name in ("arp_sha", "arp_tha", "tcp_flags") and kind.ethertype == IPV6
    ):
        return {"nw_proto": 0xFF, "tp_src": 0xFFFF, "tp_dst": 0xFFFF}
    return {"nw_proto": 0xFF} if name in fields.PORTS or name == "tcp_flags" else {}


def _write(kind: Kind, action: Write, known: dict[str, Bits], box: Box) -> Box:
    name, mask = action.field, action.mask
    have = known.get(name)
    if mask == fields.whole(name):
        known[name] = Bits(action.value, mask)
    elif have is not None and isinstance(have.value, int):
        known[name] = Bits(have.value & ~mask | action.value & mask, have.mask | mask)
    box = folded(box, {**_needs(kind, name), name: mask})
    if name in _WITH_PROTOCOL and kind.ethertype in (IPV4, IPV6):
        box = folded(box, {"nw_proto": 0xFF})  # in all releases since the repair of CVE-2023-1668
    if name in fields.PORTS and kind.protocol in (ICMP, ICMPV6):
        box = folded(box, dict.fromkeys(fields.PORTS, 0xFF))  # written together in the datapath
    return box


def _move(kind: Kind, action: Move, known: dict[str, Bits], box: Box) -> Box:
    source, target = action.source, action.target
    if source.field in fields.PORTS and kind.fragment == 3:
        return box  # it has none, so nothing is copied
    have = known.get(source.field)
    known.pop(target.field, None)
    whole = source.mask == fields.whole(source.field) and target.mask == fields.whole(target.field)
    if whole and have is not None and have.mask == source.mask:
        known[target.field] = have
    for place in (source, target):
        box = folded(box, {**_needs(kind, place.field), place.field: place.mask})
    return box


def _in_datapath(kind: Kind, box: Box) -> Box:
    """What is left of the masks in the datapath: of fields that a packet of this kind has."""
    if kind.ethertype in (IPV4, IPV6):
        absent = {"nw_src", "nw_dst"} if kind.ethertype == IPV6 else {"ipv6_src", "ipv6_dst", "ipv6_label", "nd_target"}
        absent |= {"arp_sha", "arp_tha"} if kind.ethertype == IPV4 else set()
        if kind.fragment == 3:
            absent |= set(fields.PORTS)
        box = folded(box, {"nw_frag": 3})
        if kind.protocol in (ICMP, ICMPV6):
            box = _narrowed(box)
        return frozenset((n, m) for n, m in box if n not in absent)
    has = _ARP_FIELDS if kind.ethertype in (ARP, RARP) else frozenset()
    return frozenset((n, m) for n, m in box if n in _L2 or n in has or fields.stage(n) == 0)


def _narrowed(box: Box) -> Box:
    """ICMP's type and code have 8 bits."""
    out = []
    for name, masks in box:
        if name in fields.PORTS:
            masks = frozenset(mask & 0xFF for mask in masks)
            if masks == {0}:
                continue
        out.append((name, masks))
    return frozenset(out)
