# SPDX-License-Identifier: Apache-2.0
"""The upper bound on the megaflows that somebody can make of a plan's tables.

All paths are followed as for masks (traversal.py). Each has, beside the bits that it unwildcards, what is known of the
packets that take it (choices.py): the values of the flows that they matched, those of all flows before these, which they did
not match, and what the sender can choose. A path makes at most as many megaflows as its packets can have values of the bits
that it unwildcards. Two paths never share a megaflow, so the bound is their sum.
"""

from __future__ import annotations

import gc
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from dnsteer.lint.masks import fields
from dnsteer.lint.masks.arrivals import arrivals
from dnsteer.lint.masks.attackers import Attacker
from dnsteer.lint.masks.bound import BUCKET, foreign_flows
from dnsteer.lint.masks.choices import Choices, OneOf, Values, common, joined
from dnsteer.lint.masks.classifier import Known, Lookups, RuleClass, class_of, is_known
from dnsteer.lint.masks.fields import ICMP, ICMPV6, IPV4, IPV6, TCP, UDP
from dnsteer.lint.masks.flow_syntax import (
    ApplyMeter,
    CommitConnection,
    Conntrack,
    FieldBits,
    FlowAction,
    GotoTable,
    Match,
    MoveBits,
    Output,
    SelectBucket,
    SetField,
    parse_actions,
)
from dnsteer.lint.masks.list_flows import all_flows_of_lists, without_lists
from dnsteer.lint.masks.mask_sets import EMPTY, MaskSet, combined, masks_in, merged_masks, size, unwildcarded
from dnsteer.lint.masks.traversal import (
    FRAGMENTS,
    LATER,
    OTHER,
    REWRITTEN,
    PacketKind,
    action_unwildcards,
    in_datapath,
    move_known,
    write_known,
)
from dnsteer.lint.masks.value_sources import BitOrigin, ValueSources, fields_in, whole_field
from dnsteer.plan.plan import Plan
from dnsteer.render.flows import Flow, Group, groups_of
from dnsteer.slots.dp_hash import hash_values, hash_values_newer
from dnsteer.switch.masks import Mask
from dnsteer.tables.meter_rows import MeterRow
from dnsteer.tables.order import PIPELINE, TABLES

_MOST_MASKS = 4096
"""If a path has more masks than this, each is counted as all of them together, which has no fewer values."""
_DEEPEST = 8
"""Recirculations that are followed. More would be a loop of the tables."""
_NO_BITS = frozenset((EMPTY,))
_AS_SENT = ValueSources()
_TRACKED = ("ct_state", "ct_zone", "ct_mark", "ct_label")
_GOOD = frozenset(PIPELINE.tables[name].number for name in ("egress", "extension"))
"""Tables that send queries and answers on."""
_QUERIES = frozenset(PIPELINE.tables[name].number for name in ("recirculate", "slot"))
"""Tables that recirculate queries, and nothing else."""
_PROTOCOLS = {UDP: "UDP", TCP: "TCP", ICMP: "ICMP", ICMPV6: "ICMPv6", OTHER: "other protocols"}


@dataclass(frozen=True)
class MegaflowKind:
    """Megaflows of one kind of packet that ends in one table. *served*: they are good traffic's, which is sent on.

    *many* has the fields that make many of them, and how many values each has.
    """

    kind: str
    table: str
    megaflows: int
    served: bool
    many: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        times = " times ".join(f"{show_count(count)} of {name}" for name, count in self.many)
        return (
            f"{self.kind}, ending in table {self.table}: {show_count(self.megaflows)}{f' ({times})' if times else ''}"
        )


@dataclass(frozen=True)
class MegaflowBound:
    """The most megaflows that an attacker makes, by kind, those that make most first."""

    attacker: str
    kinds: tuple[MegaflowKind, ...]

    @property
    def total(self) -> int:
        return sum(kind.megaflows for kind in self.kinds)

    @property
    def beyond(self) -> int:
        """Megaflows beside those of good traffic."""
        return sum(kind.megaflows for kind in self.kinds if not kind.served)


_EXACT = 10_000_000


def show_count(count: int) -> str:
    """Return a number as text; a large one as a power of two that is no smaller."""
    return f"{count:,}" if count <= _EXACT else f"2^{(count - 1).bit_length()}"


IDLE_SECONDS = 10
"""How long a megaflow stays that nothing uses: Open vSwitch's `other_config:max-idle` as it is when nobody sets it."""


def megaflow_bounds(plan: Plan, attackers: Sequence[Attacker]) -> list[MegaflowBound]:
    """Return the bound of a plan for each attacker. Raises UnknownError for flows that the model does not cover."""
    passed = {meter.number: IDLE_SECONDS * meter.rate + meter.burst for meter in plan.rows.of(MeterRow)}
    found = bounds_of(without_lists(foreign_flows(plan)), groups_of(plan), attackers, passed)
    listed = all_flows_of_lists(plan)
    return [_with_lists(bound, listed * attacker.link_values) for bound, attacker in zip(found, attackers, strict=True)]


def _with_lists(bound: MegaflowBound, listed: int) -> MegaflowBound:
    """Return the bound with the megaflows of queries that access lists look at."""
    if not listed:
        return bound
    kind = MegaflowKind("queries that an access list looks at", "access", listed, served=False, many=())
    return replace(bound, kinds=tuple(sorted((*bound.kinds, kind), key=_order)))


def _order(kind: MegaflowKind) -> tuple[int, str, str]:
    return -kind.megaflows, kind.kind, kind.table


def bounds_of(
    flows: Iterable[Flow],
    groups: Iterable[Group],
    attackers: Iterable[Attacker],
    passed: Mapping[int, int] | None = None,
) -> list[MegaflowBound]:
    """Return the bound of flows and groups for each attacker. Raises UnknownError as megaflow_bounds does.

    *passed*: how many packets a meter lets pass, by its number, while a megaflow stays that nothing uses. Behind a
    recirculation these make at most one megaflow each.
    """
    tables = Lookups(flows)
    buckets = {group.number: BUCKET.findall(group.text) for group in groups}
    collects = gc.isenabled()
    gc.disable()  # nothing of it is in a cycle, and the collector would take more than half of the time
    try:
        return _Count(tables, buckets, list(attackers), passed or {}).run()
    finally:
        if collects:
            gc.enable()


class _State(NamedTuple):
    """Packets about to enter a table. *mask_sets*: what they may have unwildcarded, the same packets one or the other.

    *arrived* and *now*: sources of fields as this pass began, and as actions left them.

    *held*: packet bits that were in registers when the packets were recirculated: each value of them has an identifier.
    *meters*: those that packets passed in this pass and, as *limits*, in earlier ones.
    """

    kind: PacketKind
    table: int
    known: frozenset[tuple[str, FieldBits]]
    mask_sets: frozenset[MaskSet]
    arrived: ValueSources
    now: ValueSources
    held: int
    recirculations: int
    recirculated_by: str
    meters: frozenset[int] = frozenset()
    limits: frozenset[int] = frozenset()


_Buckets = Mapping[int, list[str]]
_Batch = Mapping[Choices, int]
"""Packets of one state: what is known of them, and how many values the fields have that every megaflow matches."""


class _Key(NamedTuple):
    """What megaflows are counted by."""

    attacker: int
    kind: str
    table: str
    served: bool
    recirculations: int
    limits: frozenset[int]


class _Outcome(NamedTuple):
    """What is known of packets that end a lookup with one class of flows: values that they have, and that they have not."""

    hit: tuple[int, Values]
    missed: tuple[tuple[int, Values], ...]


class _Count:
    """The traversal for some attackers, whose packets are followed together."""

    def __init__(
        self, tables: Lookups, buckets: Mapping[int, list[str]], attackers: list[Attacker], passed: Mapping[int, int]
    ) -> None:
        self._tables = tables
        self._buckets = buckets
        self._attackers = attackers
        self._passed = passed
        self._todo: dict[tuple[int, int], dict[_State, dict[Choices, int]]] = {}
        self._outcomes: dict[tuple[object, ...], dict[RuleClass | None, _Outcome]] = {}
        self._of_actions: dict[tuple[PacketKind, int], tuple[tuple[FlowAction, ...], MaskSet]] = {}
        self._found: dict[_Key, int] = defaultdict(int)
        self._many: dict[_Key, dict[str, int]] = defaultdict(dict)

    def run(self) -> list[MegaflowBound]:
        """Follow all packets of the attackers, and count."""
        for number, attacker in enumerate(self._attackers):
            for sender in attacker.senders:
                for kind, known, choices, times in arrivals(self._tables, sender):
                    state = _State(kind, self._tables.first, known, _NO_BITS, _AS_SENT, _AS_SENT, 0, 0, "")
                    self._enqueue(state, {choices._replace(attacker=number): times})
        while self._todo:
            for state, batch in self._todo.pop(min(self._todo)).items():
                self._step(state, batch if self._tables.recirculates(state.table) else joined(batch))
        return [self._bound(number, attacker.name) for number, attacker in enumerate(self._attackers)]

    def _bound(self, number: int, name: str) -> MegaflowBound:
        kinds = sorted(self._limited_kinds(number), key=_order)
        return MegaflowBound(name, tuple(kinds))

    def _limited_kinds(self, number: int) -> Iterator[MegaflowKind]:
        """Yield the kinds. Where a meter lets fewer packets pass than would make all of them, one kind stands for them."""
        behind: dict[tuple[int, int], list[MegaflowKind]] = defaultdict(list)
        for key, count in self._found.items():
            if key.attacker != number:
                continue
            kind = MegaflowKind(key.kind, key.table, count, key.served, _most_first(self._many[key]))
            meter = min((n for n in key.limits if n in self._passed), key=lambda n: (self._passed[n], n), default=None)
            if meter is None:
                yield kind
            else:
                behind[meter, key.recirculations].append(kind)
        for (meter, _), kinds in behind.items():
            most = self._passed[meter]
            if sum(kind.megaflows for kind in kinds) <= most:
                yield from kinds
            else:
                largest = max(kinds, key=lambda kind: kind.megaflows)
                yield MegaflowKind(
                    f"{largest.kind}, as meter {meter} lets pass", largest.table, most, served=False, many=()
                )

    def _enqueue(self, state: _State, batch: _Batch) -> None:
        live = self._tables.live(state.table)
        known = frozenset(each for each in state.known if each[0] in live)
        now = state.now if self._tables.recirculates(state.table) else state.now.only(live)
        state = state._replace(known=known, now=now)
        found = self._todo.setdefault((state.recirculations, state.table), {}).setdefault(state, {})
        for choices, count in batch.items():
            found[choices] = found.get(choices, 0) + count

    def _step(self, state: _State, batch: _Batch) -> None:
        if state.table not in self._tables:
            self._end(state, state.mask_sets, batch, served=False)
            return
        known, now = dict(state.known), state.now
        if state.kind.fragment:  # flows see the ports of fragments as 0
            for port in fields.PORTS:
                known[port] = FieldBits(0, fields.full_mask(port))
                now = now.written(port, fields.full_mask(port), 0)
        found = self._outcomes_of(state.table, known, now)
        for rule_class, unwildcards in self._tables.lookup(state.table, known).items():
            left = _narrowed(batch, found[rule_class]) if rule_class in found else {}
            if not left:
                continue  # no packet ends with these flows
            mask_sets = merged_masks(combined(one, more) for one in state.mask_sets for more in unwildcards)
            if rule_class is None:
                self._end(state, mask_sets, left, served=False)
            else:
                self._apply(state, rule_class.actions, dict((*state.known, *rule_class.values)), mask_sets, left)

    def _outcomes_of(self, table: int, known: Known, now: ValueSources) -> Mapping[RuleClass | None, _Outcome]:
        """What ending with each class of a table's flows tells of a packet."""
        matched = self._tables.table(table).matched
        here = frozenset((n, b) for n, b in known.items() if n in matched)
        key = table, here, now.part(matched)
        found = self._outcomes.get(key)
        if found is None:
            found = self._outcomes[key] = dict(self._compare(table, known, now))
        return found

    def _compare(self, table: int, known: Known, now: ValueSources) -> Iterator[tuple[RuleClass | None, _Outcome]]:
        later = self._tables.later(table)
        hits: dict[RuleClass, list[tuple[int, int]]] = defaultdict(list)
        flows: list[tuple[int, list[tuple[int, int]]]] = []
        certain = -1
        for subtable in self._tables.table(table).subtables:
            origins = {name: now.origin(name, mask) for name, mask in subtable.masks.items()}
            bits = 0
            for origin in origins.values():
                bits |= origin.mask
            # What is no packet bit must be known to match, else a packet may miss a flow though it has the flow's values.
            sure = all(origin.whole or is_known(known, n, subtable.masks[n]) for n, origin in origins.items())
            values: list[tuple[int, int]] = []
            for rule in subtable.matching(known):
                value = _as_packet_bits(rule[0], origins, now)
                if value is not None:
                    values.append((rule[1], value))
                    hits[class_of(rule, later)].append((bits, value))
            if sure and bits:
                flows.append((bits, values))
            elif sure:  # whatever the packet, it matches one of these
                certain = max([certain, *(priority for priority, _ in values)])
        for rule_class in (*hits, None):
            least = -1 if rule_class is None else rule_class.priority
            if least < certain:
                continue
            missed = [
                (bits, frozenset(value for priority, value in values if priority > least)) for bits, values in flows
            ]
            hit = (0, frozenset((0,))) if rule_class is None else common(hits[rule_class])
            yield rule_class, _Outcome(hit, tuple(each for each in missed if each[1]))

    def _apply(
        self,
        state: _State,
        actions: tuple[FlowAction, ...],
        known: dict[str, FieldBits],
        mask_sets: set[MaskSet],
        batch: _Batch,
    ) -> None:
        unwildcards, now, sent = self._unwildcards(state.kind, actions), state.now, False
        later = None if self._tables.recirculates(state.table) else self._tables.later(state.table)
        for action in actions:
            if isinstance(action, SetField):
                write_known(action, known)
                if later is None or action.field in later:
                    now = now.written(action.field, action.mask, action.value)
            elif isinstance(action, MoveBits):
                source, target = action.source, action.target
                from_port = source.field in fields.PORTS
                if from_port and state.kind.fragment == LATER:
                    continue  # a later fragment has no ports, so nothing is copied
                move_known(action, known)
                pretended = from_port and state.kind.fragment  # a first fragment's are 0
                if later is None or target.field in later:
                    now = now.written(target.field, target.mask, 0) if pretended else now.moved(source, target)
            elif isinstance(action, Output):
                sent = True
            elif isinstance(action, CommitConnection):
                continue
            elif isinstance(action, ApplyMeter):
                state = state._replace(meters=state.meters | {action.number})
            else:
                after = state._replace(known=frozenset(known.items()), now=now)
                self._follow(after, action, {combined(each, unwildcards) for each in mask_sets}, batch)
                return
        served = sent and state.table in _GOOD
        self._end(state, {combined(each, unwildcards) for each in mask_sets}, batch, served=served)

    def _unwildcards(self, kind: PacketKind, actions: tuple[FlowAction, ...]) -> MaskSet:
        """What actions unwildcard that read or write fields."""
        found = self._of_actions.get((kind, id(actions)))
        if found is None:
            unwildcards = EMPTY
            for action in actions:
                missing = (
                    kind.fragment == LATER and isinstance(action, MoveBits) and action.source.field in fields.PORTS
                )
                if isinstance(action, SetField | MoveBits) and not missing:
                    unwildcards = combined(unwildcards, action_unwildcards(kind, action))
            found = self._of_actions[kind, id(actions)] = actions, unwildcards  # kept, so that no others get their id
        return found[1]

    def _follow(
        self, state: _State, action: GotoTable | Conntrack | SelectBucket, mask_sets: set[MaskSet], batch: _Batch
    ) -> None:
        if isinstance(action, GotoTable):
            self._enqueue(state._replace(table=action.table, mask_sets=frozenset(mask_sets)), batch)
            return
        self._end(state, mask_sets, batch, served=state.table in _QUERIES)
        if state.recirculations == _DEEPEST:
            raise fields.UnknownError(f"table {state.table} recirculates packets more than {_DEEPEST} times")
        by = "the connection tracker" if isinstance(action, Conntrack) else "the datapath's hash"
        again = state._replace(
            mask_sets=_NO_BITS,
            held=state.held | state.now.held(),
            recirculations=state.recirculations + 1,
            recirculated_by=by,
            meters=frozenset(),
            limits=state.limits | state.meters,
        )
        if isinstance(action, Conntrack):
            self._track(again, action, batch)
        elif action.group in self._buckets:
            self._select(again, self._buckets[action.group], batch)

    def _track(self, state: _State, action: Conntrack, batch: _Batch) -> None:
        """Go on after the connection tracker, which may have put fragments together, or passed one on."""
        rewritten = REWRITTEN if action.rewrites else ()
        now = state.now.chosen_by_switch((*rewritten, *_TRACKED, "nw_frag"))
        kept = {n: b for n, b in state.known if n not in rewritten}
        for fragment in FRAGMENTS if state.kind.fragment else (0,):
            left = _narrowed(batch, _Outcome(_packet_values(now, "nw_frag", {fragment}), ()))
            kind = PacketKind(state.kind.ethertype, state.kind.protocol, fragment)
            known = frozenset({**kept, "nw_frag": FieldBits(fragment, 3)}.items())
            again = state._replace(kind=kind, table=action.table, known=known, arrived=now, now=now)
            self._enqueue(again, left)

    def _select(self, state: _State, buckets: list[str], batch: _Batch) -> None:
        """Go on in each bucket of a group. All have one weight, so none gets more hash values than its share, rounded up."""
        values = max(hash_values(len(buckets)), hash_values_newer(len(buckets)))
        now = state.now.chosen_by_switch(("dp_hash",))
        hashed = unwildcarded(EMPTY, {"dp_hash": values - 1})
        for bucket, times in Counter(buckets).items():
            most = times * -(-values // len(buckets))
            allowed = OneOf(now.origin("dp_hash", values - 1).mask, None, most)
            left = {each._replace(allowed=each.allowed | {allowed}): count for each, count in batch.items()}
            again = state._replace(arrived=now, now=now)
            self._apply(again, parse_actions(bucket), dict(state.known), {hashed}, left)

    def _end(self, state: _State, mask_sets: Iterable[MaskSet], batch: _Batch, *, served: bool) -> None:
        table = _NAMES.get(state.table, str(state.table))
        counted = _Key(0, _label(state), table, served, state.recirculations, state.limits)
        for mask, times in _distinct_masks(in_datapath(state.kind, each) for each in mask_sets).items():
            bits = state.arrived.of_mask(mask) | state.held
            for choices, count in batch.items():
                most = count * times * choices.count(bits)
                if most:
                    key = counted._replace(attacker=choices.attacker)
                    self._found[key] += most
                    self._note_many(key, choices, bits)

    def _note_many(self, key: _Key, choices: Choices, bits: int) -> None:
        many = self._many[key]
        for name in fields_in(bits):
            many[name] = max(many.get(name, 0), choices.count(bits & whole_field(name)))


def _distinct_masks(mask_sets: Iterable[MaskSet]) -> dict[Mask, int]:
    """Return the masks of some sets, each once. Of a large set one mask stands for all, and how many they are."""
    found: dict[Mask, int] = {}
    for mask_set in merged_masks(mask_sets):
        if size(mask_set) > _MOST_MASKS:
            union = frozenset((name, _union(masks)) for name, masks in mask_set)
            found[union] = max(found.get(union, 0), size(mask_set))
        else:
            for mask in masks_in(mask_set):
                found.setdefault(mask, 1)
    return found


_NAMES = {table.number: table.name for table in TABLES}


def _union(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def _most_first(many: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(((n, c) for n, c in many.items() if c > 1), key=lambda item: (-item[1], item[0])))


def _as_packet_bits(match: Match, origins: Mapping[str, BitOrigin], now: ValueSources) -> int | None:
    """Return what a flow matches as a value of packet bits; None if it does not match what actions wrote."""
    found = 0
    for name, origin in origins.items():
        value = match[name].value
        if isinstance(value, int):
            if (value ^ origin.value) & origin.written:
                return None
            if origin.mask:
                found |= now.origin(name, value).mask
    return found


def _narrowed(batch: _Batch, outcome: _Outcome) -> dict[Choices, int]:
    """Return the packets that have such an outcome."""
    left: dict[Choices, int] = {}
    for choices, count in batch.items():
        found = choices.with_one_of(*outcome.hit)
        for missed in outcome.missed:
            found = found and found.with_none_of(*missed)
        if found is not None:
            left[found] = left.get(found, 0) + count
    return left


def _packet_values(now: ValueSources, name: str, values: Iterable[int]) -> tuple[int, Values]:
    """Return values of a whole field as those of packet bits."""
    return now.origin(name, fields.full_mask(name)).mask, frozenset(now.origin(name, v).mask for v in values)


def _label(state: _State) -> str:
    kind = state.kind
    protocol = _PROTOCOLS.get(kind.protocol, "" if not kind.protocol else f"protocol {kind.protocol}")
    parts = [kind.name, *([protocol] if protocol and kind.ethertype in (IPV4, IPV6) else [])]
    fragments = ["fragments"] if kind.fragment else []
    after = [f"after {state.recirculated_by}"] if state.recirculated_by else []
    return " ".join([*parts, *fragments, *after])
