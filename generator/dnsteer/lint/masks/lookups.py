"""Lookups in the tables of a pipeline: what each may find, and unwildcard on the way, by what is known of the packet.

Unwildcarding adds bits to a packet's mask whatever is in it already, so that a lookup is computed once, for an empty mask.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from dnsteer.lint.masks.classifier import ClassifierTable, RuleClass, Subtable
from dnsteer.lint.masks.mask_sets import EMPTY, MaskSet, combined, merged_masks
from dnsteer.lint.masks.matches import FieldBits
from dnsteer.render.flows import Flow

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
        live: set[str] = {"dl_type", "nw_proto", "nw_frag"}
        self._live: dict[int, frozenset[str]] = {}
        for number in sorted(self._tables, reverse=True):
            live |= self._tables[number].matched
            self._live[number] = frozenset(live)
        self._found: dict[tuple[int, frozenset[tuple[str, FieldBits]]], Outcomes] = {}

    def __contains__(self, number: int) -> bool:
        """Whether a table has flows."""
        return number in self._tables

    def live(self, number: int) -> frozenset[str]:
        """The fields that a table or a later one matches."""
        return self._live.get(number, frozenset())

    def named(self) -> Iterator[tuple[str, FieldBits]]:
        """Yield every field and its bits that flows match."""
        return (part for table in self._tables.values() for part in table.named())

    def lookup(self, number: int, known: Mapping[str, FieldBits]) -> Outcomes:
        """What a lookup in a table may find."""
        table = self._tables[number]
        matched = {n: b for n, b in known.items() if n in table.matched}
        key = number, frozenset(matched.items())
        found = self._found.get(key)
        if found is None:
            later = next((self._live[n] for n in sorted(self._live) if n > number), frozenset[str]())
            found = self._found[key] = _Lookup(matched, later).outcomes_of(table)
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
