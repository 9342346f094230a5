# SPDX-License-Identifier: Apache-2.0
"""The changes that turn a bridge's tables into planned or earlier ones, those with other table numbers included."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import filterfalse

from dnsteer.render.flows import Flow, Group, parse_flow
from dnsteer.render.meters import Meter
from dnsteer.switch.bridge_rows import Bridge
from dnsteer.switch.openflow import Key, Tables
from dnsteer.switch.tools import SwitchError
from dnsteer.tables.cookies import FENCE
from dnsteer.tables.order import PIPELINE

_NUMBERS = frozenset(table.number for table in PIPELINE.tables.values())
_SELECTION = PIPELINE.tables["selection"].number
_KEEP = PIPELINE.holding("connections").number
_WAY_BACK = frozenset(table.number for table in PIPELINE.passed_by("answers", "fragments"))
BETWEEN_PASSES = frozenset({_SELECTION, _KEEP, *(table.number for table in PIPELINE.passed_by("clients"))})
"""Tables that begin a further pass of queries."""
_BEHIND = _WAY_BACK | BETWEEN_PASSES
"""Tables that packets in flight may still need: answers, and queries between two passes."""
_OF_SECOND_PASS = frozenset(table.number for table in PIPELINE.passed_by("second_pass", "tracked"))
_POOL = re.compile(rf"\b{PIPELINE.registers['pool'].field}=(\w+)")


def _pool_of(flow: Flow) -> str:
    """The number of the pool that a flow matches, as it is printed; empty if it matches none."""
    found = _POOL.search(flow.match)
    return found[1] if found is not None else ""


_METER = re.compile(r"\bmeter:(\d+)")


@dataclass(frozen=True)
class TableChanges:
    """What must change for the tables to be as planned.

    *restore* are lines that bring back flows and groups of others, *role* those for the flows of the switch's role.
    *renumbered*: the tables on the switch have other numbers, those of another version of dnsteer.
    """

    add: tuple[Flow, ...]
    replace: tuple[Flow, ...]
    remove: tuple[Flow, ...]
    add_groups: tuple[Group, ...]
    replace_groups: tuple[Group, ...]
    remove_groups: tuple[Group, ...]
    restore: tuple[str, ...] = ()
    role: tuple[str, ...] = ()
    renumbered: bool = False
    add_meters: tuple[Meter, ...] = ()
    replace_meters: tuple[Meter, ...] = ()
    remove_meters: tuple[Meter, ...] = ()

    def __len__(self) -> int:
        flows = len(self.add) + len(self.replace) + len(self.remove) + len(self.role)
        groups = len(self.add_groups) + len(self.replace_groups) + len(self.remove_groups)
        return flows + groups + self.meters + len(self.restore)

    @property
    def meters(self) -> int:
        """How many meters are added, changed or removed: beside the bundle, which begins and ends without them."""
        return sum(map(len, self.meters_by_change()))

    def meters_by_change(self) -> tuple[tuple[Meter, ...], ...]:
        """The meters to add, those to change and those to remove."""
        return self.add_meters, self.replace_meters, self.remove_meters

    def split_for_grace(self) -> tuple[TableChanges, TableChanges]:
        """Split into what can be done at once, and what must wait for answers in flight.

        A backend that leaves still has queries. With NAT their answers need the flows that lead back, or they are lost.
        Where a pool of two passes goes, or goes over to one, datapath flows of its first pass last until they are looked at
        again: so what its second pass needs stays too, and so do limits of clients, to which lists lead by a pass.
        Tables that are renumbered leave their flows behind: nothing leads there, but the connection tracker may still give
        packets back to such a number. Where another table has the number now, they would take its packets.
        """
        pools = {_pool_of(f) for f in self.remove if f.table in (_SELECTION, _KEEP)} - {""}
        later = tuple(f for f in self.remove if self._waits(f, pools))
        rest = replace(self, remove=tuple(f for f in self.remove if not self._waits(f, pools)))
        return rest, TableChanges((), (), later, (), (), (), renumbered=self.renumbered)

    def _waits(self, flow: Flow, pools: Collection[str]) -> bool:
        """Whether a flow waits; *pools* are the numbers of those whose second pass ends."""
        if flow.table not in _NUMBERS:
            return True
        if flow.table == _KEEP and _pool_of(flow):  # without it what was kept goes by its slot
            return False
        needed = flow.table in _BEHIND or (flow.table in _OF_SECOND_PASS and _pool_of(flow) in pools)
        return needed and not self.renumbered

    def bundle(self) -> list[str]:
        """Return the bundle's lines. Groups are added before flows that use them, and removed after.

        Flows leave first, so that tables with a limit need no room for both.
        """
        # A changed group is sent whole: insert- and remove-buckets lose slots in OVS before 3.6 (ovs-issues 357).
        return [
            *self.restore,
            *self.role,
            *(f"flow delete_strict {f.spec()}" for f in self.remove),
            *(f"group add {g.text}" for g in self.add_groups if g.number != FENCE),
            *(f"group modify {g.text}" for g in self.replace_groups if g.number != FENCE),
            *(f"flow add {f.line()}" for f in (*self.add, *self.replace)),
            *(f"group delete group_id={g.number}" for g in self.remove_groups),
        ]


def refuse_blocked(flows: Iterable[Flow], have: Tables) -> None:
    """Raise SwitchError if a foreign flow has the table, priority and match of one of dnsteer's."""
    blocked = [have.other[f.key] for f in flows if f.key in have.other]
    if blocked:
        shown = "; ".join(have.line(f) for f in blocked[:3])
        raise SwitchError(
            f"{len(blocked)} flow(s) that are not dnsteer's have the table, priority and match of its own flows: "
            f"{shown}"
        )


def compare_tables(
    lines: Collection[str], groups: Iterable[Group], have: Tables, meters: Iterable[Meter] = ()
) -> TableChanges:
    """Return the changes that turn *have* into the flows of *lines*, each once, and *groups* and *meters*.

    Raises SwitchError where a flow that is not ours is in the way.
    """
    missing = list(filterfalse(have.same.__contains__, lines))
    want = {f.key: f for f in map(parse_flow, missing)}
    more = len(have.same) + len(missing) > len(lines)  # else there is nothing to look for
    stale = {f.key: f for f in map(parse_flow, have.same.difference(lines) if more else ())}
    there = {**stale, **have.flows}
    want_groups = {g.number: g for g in groups}
    want_meters = {m.number: m for m in meters}
    # A meter takes the flows with it that use it, and those of others are theirs.
    used = {int(number) for flow in have.other.values() for number in _METER.findall(flow.actions)}
    refuse_blocked(want.values(), have)
    return TableChanges(
        add=tuple(f for k, f in want.items() if k not in there),
        replace=tuple(f for k, f in want.items() if k in there and (there[k] != f or k in have.flags)),
        remove=tuple(f for k, f in there.items() if k not in want),
        add_groups=tuple(g for n, g in want_groups.items() if n not in have.groups),
        replace_groups=tuple(g for n, g in want_groups.items() if n in have.groups and have.groups[n] != g),
        remove_groups=tuple(g for n, g in have.groups.items() if n not in want_groups),
        add_meters=tuple(m for n, m in want_meters.items() if n not in have.meters),
        replace_meters=tuple(m for n, m in want_meters.items() if n in have.meters and have.meters[n] != m),
        remove_meters=tuple(m for n, m in have.meters.items() if n not in want_meters and n not in used),
    )


def lost_lines(before: Tables, now: Tables) -> tuple[str, ...]:
    """Return bundle lines that restore foreign flows and groups that were there *before* and are gone *now*."""
    groups = [g for n, g in before.other_groups.items() if n not in now.other_groups]
    flows = [f for k, f in before.other.items() if k not in now.other]
    return (*(f"group add {g.text}" for g in groups), *(f"flow add {before.line(f)}" for f in flows))


def lost_meters(before: Tables, now: Tables) -> tuple[Meter, ...]:
    """Return foreign meters that were there *before* and are gone *now*."""
    return tuple(m for n, m in before.other_meters.items() if n not in now.other_meters)


def lines_to_restore(before: Tables, now: Tables) -> list[str]:
    """Return bundle lines that make the tables as they were *before*."""
    groups = [g for n, g in before.groups.items() if n not in now.groups]
    were, are = before.all_flows(), now.all_flows()
    have = {**are, **now.standby}
    flows = [f for k, f in {**were, **before.standby}.items() if have.get(k) != f]
    strange = [f for k, f in are.items() if k not in were]  # such as of a port's old number
    return [
        *lost_lines(before, now),
        *(f"group add {g.text}" for g in groups),
        *(f"flow add {before.line(f)}" for f in flows),
        *(f"flow delete_strict {f.spec()}" for f in strange),
    ]


_TO_TABLE = re.compile(r"(\bgoto_table:|[(,]table=|\bresubmit\(,)(\d+)")


def other_numbers(have: Bridge) -> dict[int, int]:
    """Return what the tables of a bridge are here that have other numbers there, by their numbers there.

    Those are of another version of dnsteer. OVSDB has their names by number, since dnsteer names its tables.
    """
    here = {name: table.number for name, table in PIPELINE.tables.items()}
    found = {number: here[table.name] for number, table in have.tables.items() if table.name in here}
    return {there: number for there, number in found.items() if there != number}


def uses_numbers(flows: Iterable[Flow], numbers: Mapping[int, int]) -> bool:
    """Whether a flow is in a table of another number."""
    return any(flow.table in numbers for flow in flows)


def with_own_numbers(tables: Tables, numbers: Mapping[int, int]) -> Tables:
    """Return the tables of a switch with the numbers that they have here."""

    def actions(text: str) -> str:
        return _TO_TABLE.sub(lambda m: f"{m[1]}{numbers.get(int(m[2]), m[2])}", text)

    def moved(flows: Iterable[Flow]) -> dict[Key, Flow]:
        own = (replace(f, table=numbers.get(f.table, f.table), actions=actions(f.actions)) for f in flows)
        return {flow.key: flow for flow in own}

    return replace(
        tables,
        same=set(),
        flows=moved(tables.all_flows().values()),
        standby=moved(tables.standby.values()),
        groups={number: Group(number, actions(group.text)) for number, group in tables.groups.items()},
        flags={(numbers.get(t, t), priority, match): text for (t, priority, match), text in tables.flags.items()},
    )
