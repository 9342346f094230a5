# SPDX-License-Identifier: Apache-2.0
"""An OpenFlow table as Open vSwitch's classifier stores it, and what a failed lookup may have unwildcarded.

Flows with the same fields and masks form a subtable. A lookup visits the subtables by descending highest priority until no
later one can give a better match. In each it checks metadata first, then layers 2, 3 and 4, and stops at the first stage
where no flow equals the packet. Before the stage of an address it checks a prefix tree, and after the last stage the tree
of ports; on a miss there, only the bits needed to distinguish the packet from all flows are unwildcarded.
(lib/classifier.c)
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from dnsteer.lint.masks import fields
from dnsteer.lint.masks.flow_syntax import (
    Conntrack,
    FieldBits,
    FlowAction,
    GotoTable,
    Match,
    SelectBucket,
    parse_actions,
    parse_match,
)
from dnsteer.lint.masks.mask_sets import EMPTY, MaskSet, combined, merged_masks, unwildcarded
from dnsteer.render.flows import Flow
from dnsteer.switch.masks import prefix

_WRITES_TAG = "->vlan_tci"
_NEXT = re.compile(r"\b(?:goto_table:|ct\((?:[^()]*,)?table=)(\d+)")
_ALWAYS = frozenset(("dl_type", "nw_proto", "nw_frag"))
_MANY = 4096
"""If a table has more addresses than this, every prefix length is assumed possible."""
Rule = tuple[Match, int, str]
"""A flow: its match, priority and actions."""
Known = Mapping[str, FieldBits]
"""The known values of a packet's fields."""


@dataclass(frozen=True, eq=False)
class RuleClass:
    """Flows that differ only in values that no later table matches: priority, actions and the values that matter.

    Equal ones are one object (`_rule_class`): they are keys of every lookup, and to hash their actions takes long.
    """

    priority: int
    actions: tuple[FlowAction, ...]
    values: tuple[tuple[str, FieldBits], ...]


class SubtableLookup(NamedTuple):
    """The flows of a subtable that a packet can match: *hits* have its highest priority, *lower* a lower one.

    *misses*: what a lookup that matches none may unwildcard; empty if it is sure to match.
    """

    hits: list[RuleClass]
    lower: list[RuleClass]
    misses: set[MaskSet]


def can_match(known: Known, field: str, bits: FieldBits) -> bool:
    """Whether a packet with these *known* fields can match the *bits* of a field."""
    have = known.get(field)
    if have is None:
        return True
    if isinstance(have.value, str) or isinstance(bits.value, str):
        return have.value == bits.value
    return have.value >= 0 and not (have.value ^ bits.value) & have.mask & bits.mask


class Subtable:
    """The flows of one table with the same fields and masks."""

    def __init__(self, masks: Mapping[str, int], rules: Sequence[Rule], lengths: Mapping[str, Sequence[int]]) -> None:
        self.masks = masks
        self.unwildcards = unwildcarded(EMPTY, masks)
        self.priority = max(priority for _, priority, _ in rules)
        self._rules = rules
        self._lengths = lengths
        self._stages = sorted({fields.stage(name) for name in masks})
        self._found: dict[tuple[object, ...], list[Rule]] = {}
        self._indices: dict[tuple[str, ...], defaultdict[tuple[int | str, ...], list[Rule]]] = {}
        self._lookups: dict[tuple[object, ...], SubtableLookup] = {}

    def _matching(self, known: Known, stage: int) -> list[Rule]:
        names = tuple(n for n in self.masks if n in known and fields.stage(n) <= stage)
        key = (names, *(known[n] for n in names))
        found = self._found.get(key)
        if found is None:
            if all(self.masks[n] == known[n].mask == fields.full_mask(n) for n in names):
                found = self._indexed(names).get(tuple(known[n].value for n in names), [])
            else:
                found = [r for r in self._rules if all(can_match(known, n, r[0][n]) for n in names)]
            self._found[key] = found
        return found

    def _indexed(self, names: tuple[str, ...]) -> Mapping[tuple[int | str, ...], list[Rule]]:
        index = self._indices.get(names)
        if index is None:
            index = self._indices[names] = defaultdict(list)
            for rule in self._rules:
                index[tuple(rule[0][n].value for n in names)].append(rule)
        return index

    def matching(self, known: Known) -> Sequence[Rule]:
        """Return the flows that a packet can match."""
        return self._matching(known, fields.STAGES)

    def lookup(self, known: Known, live: frozenset[str]) -> SubtableLookup:
        """Return what a packet can find. *live*: fields that later tables match."""
        key = (live, *map(known.get, self.masks))
        found = self._lookups.get(key)
        if found is None:
            rule_classes = self._rule_classes(known, live)
            hits = [each for each in rule_classes if each.priority == self.priority]
            lower = [each for each in rule_classes if each.priority < self.priority]
            found = self._lookups[key] = SubtableLookup(hits, lower, merged_masks(self._missed(known)))
        return found

    def _rule_classes(self, known: Known, live: frozenset[str]) -> list[RuleClass]:
        """The flows that a packet can match, equivalent ones merged."""
        distinct = {(priority, actions, _live_values(match, live)) for match, priority, actions in self.matching(known)}
        return [_rule_class(*each) for each in distinct]

    def _missed(self, known: Known) -> Iterator[MaskSet]:
        passed = EMPTY
        certain = True  # whether all fields checked so far are known and so equal a flow's
        for stage in self._stages:
            here = {n: m for n, m in self.masks.items() if fields.stage(n) == stage}
            certain = certain and all(is_known(known, n, m) for n, m in here.items())
            left = self._matching(known, stage)
            if not (certain and left):
                yield from (combined(passed, more) for more in self._missed_at(stage, here))
            if not left:
                break
            passed = unwildcarded(passed, here)

    def _missed_at(self, stage: int, here: Mapping[str, int]) -> Iterator[MaskSet]:
        for name in fields.PREFIX_TREES:
            if name in here and _is_prefix(name, here[name]):
                masks = [prefix(fields.width(name), n) for n in self._lengths[name] if n <= here[name].bit_count()]
                yield unwildcarded(EMPTY, {name: masks})
        ports = {n: m for n, m in here.items() if n in fields.PORTS}
        if stage != self._stages[-1] or not ports:
            yield unwildcarded(EMPTY, here)
            return
        # Until 3.1 nothing else of the last stage is unwildcarded then; later releases unwildcard the rest of it.
        rest = {n: m for n, m in here.items() if n not in ports}
        for base in {EMPTY, unwildcarded(EMPTY, rest)}:
            yield from (combined(base, more) for more in _missed_ports(ports))


def class_of(rule: Rule, live: frozenset[str]) -> RuleClass:
    """Return the class of a flow. *live*: fields that later tables match."""
    match, priority, actions = rule
    return _rule_class(priority, actions, _live_values(match, live))


def _live_values(match: Match, live: frozenset[str]) -> tuple[tuple[str, FieldBits], ...]:
    return tuple((n, b) for n, b in match.items() if n in live)


@lru_cache(maxsize=1 << 16)
def _rule_class(priority: int, actions: str, values: tuple[tuple[str, FieldBits], ...]) -> RuleClass:
    return RuleClass(priority, parse_actions(actions), values)


def _missed_ports(ports: Mapping[str, int]) -> Iterator[MaskSet]:
    """What a miss in the tree of ports may unwildcard, which treats source and destination port as one number."""
    source, target = ports.get("tp_src", 0), ports.get("tp_dst", 0)
    if source:
        yield unwildcarded(EMPTY, {"tp_src": [source & prefix(16, n) for n in range(1, 17)]})
    if target:
        yield unwildcarded(EMPTY, {"tp_src": source, "tp_dst": [target & prefix(16, n) for n in range(1, 17)]})


def is_known(known: Known, name: str, mask: int) -> bool:
    """Whether all of these bits of a field are known."""
    have = known.get(name)
    return have is not None and have.mask & mask == mask


def _is_prefix(name: str, mask: int) -> bool:
    return mask == prefix(fields.width(name), mask.bit_count())


class ClassifierTable:
    """The flows of one OpenFlow table."""

    def __init__(self, flows: Iterable[Flow]) -> None:
        by_mask: dict[tuple[tuple[str, int], ...], list[Rule]] = defaultdict(list)
        matches: dict[str, Match] = {}
        for flow in flows:
            match = matches.get(flow.match)
            if match is None:
                match = matches[flow.match] = parse_match(flow.match)
            shape = tuple(sorted((name, bits.mask) for name, bits in match.items()))
            by_mask[shape].append((match, flow.priority, flow.actions))
        self.matched = frozenset(name for shape in by_mask for name, _ in shape)
        self.actions = frozenset(actions for rules in by_mask.values() for _, _, actions in rules)
        self._values = [match for rules in by_mask.values() for match, _, _ in rules]
        lengths = {name: self._lengths(name) for name in fields.PREFIX_TREES}
        subtables = [Subtable(dict(shape), rules, lengths) for shape, rules in by_mask.items()]
        self.subtables = sorted(subtables, key=lambda s: -s.priority)

    def _lengths(self, name: str) -> Sequence[int]:
        """Return the prefix lengths that may distinguish an address from all addresses in the table."""
        width = fields.width(name)
        have = {
            (int(m[name].value), m[name].mask.bit_count())
            for m in self._values
            if name in m and _is_prefix(name, m[name].mask)
        }
        if len(have) > _MANY:
            return range(1, width + 1)
        starts = {(value >> width - n, n) for value, length in have for n in range(1, length + 1)}
        return sorted({n for start, n in starts if (start ^ 1, n) not in starts})

    def named(self) -> Iterator[tuple[str, FieldBits]]:
        """Yield every field and its bits that flows match."""
        return (part for match in self._values for part in match.items())

    @cached_property
    def groups(self) -> list[list[Subtable]]:
        """The subtables grouped by priority, highest first. The switch visits those of one group in any order."""
        found: dict[int, list[Subtable]] = defaultdict(list)
        for subtable in self.subtables:
            found[subtable.priority].append(subtable)
        return [found[priority] for priority in sorted(found, reverse=True)]


Outcomes = Mapping[RuleClass | None, set[MaskSet]]
"""What a lookup may unwildcard, by the match that it ends with."""


class Lookups:
    """The lookups in all tables."""

    def __init__(self, flows: Iterable[Flow]) -> None:
        by_table: dict[int, list[Flow]] = defaultdict(list)
        for flow in flows:
            by_table[flow.table].append(flow)
        self._tables = {number: ClassifierTable(found) for number, found in by_table.items()}
        self.first = min(self._tables)
        leads_to = {number: self._leads_to(number) for number in self._tables}
        own = {number: frozenset(self._used_in(number)) for number in self._tables}
        self._live: dict[int, frozenset[str]] = {}
        self._later: dict[int, frozenset[str]] = {}
        found: dict[int, frozenset[str]] | None = None
        while found != self._live:  # the tracker leads back, so that one round is not enough
            found = dict(self._live)
            for number in sorted(self._tables, reverse=True):
                self._later[number] = _ALWAYS.union(*(self._live.get(n, own[n]) for n in leads_to[number]))
                self._live[number] = own[number] | self._later[number]
        self._found: dict[tuple[int, frozenset[tuple[str, FieldBits]]], Outcomes] = {}

    def _leads_to(self, number: int) -> set[int]:
        """The tables to which flows of a table send packets on; with a group all later ones."""
        actions = self._tables[number].actions
        found = {int(target) for text in actions for target in _NEXT.findall(text)}
        if any("group:" in text for text in actions):
            found |= {later for later in self._tables if later > number}
        return found & self._tables.keys()

    def _used_in(self, number: int) -> Iterator[str]:
        """The fields on which it depends what a table does."""
        yield from self._tables[number].matched
        if any(_WRITES_TAG in actions for actions in self._tables[number].actions):
            yield "vlan_tci"  # whether a tag changes depends on what it was

    @cached_property
    def _recirculating(self) -> frozenset[int]:
        found: set[int] = set()
        for number in sorted(self._tables, reverse=True):
            actions = [action for text in self._tables[number].actions for action in parse_actions(text)]
            leads_there = any(isinstance(each, GotoTable) and each.table in found for each in actions)
            if leads_there or any(isinstance(each, (Conntrack, SelectBucket)) for each in actions):
                found.add(number)
        return frozenset(found)

    def recirculates(self, number: int) -> bool:
        """Whether a table, or one that it leads to, recirculates packets."""
        return number in self._recirculating

    def __contains__(self, number: int) -> bool:
        return number in self._tables

    def live(self, number: int) -> frozenset[str]:
        """The fields that a table matches, or one that it leads to."""
        return self._live.get(number, frozenset())

    def named(self) -> Iterator[tuple[str, FieldBits]]:
        """Yield every field and its bits that flows match."""
        return (part for table in self._tables.values() for part in table.named())

    def table(self, number: int) -> ClassifierTable:
        """The flows of a table."""
        return self._tables[number]

    def later(self, number: int) -> frozenset[str]:
        """The fields that the tables match to which this one leads."""
        return self._later.get(number, frozenset())

    def lookup(self, number: int, known: Mapping[str, FieldBits]) -> Outcomes:
        """What a lookup in a table may find."""
        table = self._tables[number]
        matched = {n: b for n, b in known.items() if n in table.matched}
        key = number, frozenset(matched.items())
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = _Lookup(matched, self.later(number)).outcomes_of(table)
        return found


class _Lookup:
    """One lookup of a packet with these *known* fields. *live*: fields that later tables match."""

    def __init__(self, known: Mapping[str, FieldBits], live: frozenset[str]) -> None:
        self._known = known
        self._live = live
        self._outcomes: dict[RuleClass | None, set[MaskSet]] = defaultdict(set)

    def outcomes_of(self, table: ClassifierTable) -> Outcomes:
        """Look up in a table."""
        self._visit(table.groups, {EMPTY}, -1, None)
        return self._outcomes

    def _visit(
        self, groups: list[list[Subtable]], mask_sets: set[MaskSet], best: int, rule_class: RuleClass | None
    ) -> None:
        """Look up in the groups of subtables. *best* is the priority of *rule_class*, the best match so far."""
        if not groups or groups[0][0].priority <= best:
            self._outcomes[rule_class] |= mask_sets
            return
        group = [(subtable, *subtable.lookup(self._known, self._live)) for subtable in groups[0]]
        for subtable, hits, _, _ in group:
            if hits:
                before = mask_sets
                for other, _, lower, misses in group:  # visited before this one, or not
                    if other is not subtable:
                        passed = misses | {other.unwildcards} if lower else misses
                        before = merged_masks(before | _each(before, passed))
                full = _each(before, {subtable.unwildcards})
                for hit in hits:
                    self._outcomes[hit] |= full
        # No match with the group's priority: all its subtables are visited, and each may match with a lower priority.
        branches = [(mask_sets, best, rule_class)]
        for subtable, _, lower, misses in group:
            after = [(_each(found, misses), priority, chosen) for found, priority, chosen in branches if misses]
            for found, priority, chosen in branches:
                for hit in lower:
                    better = hit.priority > priority
                    full = _each(found, {subtable.unwildcards})
                    after.append((full, hit.priority if better else priority, hit if better else chosen))
            branches = after
        for found, priority, chosen in branches:
            self._visit(groups[1:], found, priority, chosen)


def _each(mask_sets: Collection[MaskSet], unwildcards: Collection[MaskSet]) -> set[MaskSet]:
    """Each set with the bits of each of *unwildcards* unwildcarded as well."""
    return merged_masks({combined(each, more) for each in mask_sets for more in unwildcards})
