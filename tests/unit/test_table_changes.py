# SPDX-License-Identifier: Apache-2.0
"""What a change of the tables adds and removes, and what waits for answers in flight."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dnsteer.render.flows import Flow, parse_flow
from dnsteer.render.meters import Meter
from dnsteer.switch.openflow import Tables
from dnsteer.switch.table_changes import TableChanges, compare_tables
from dnsteer.tables.order import PIPELINE

ONE, TWO, THREE = (f"cookie=0xd453000000000001, table=30, priority=100,reg1={n} actions=drop" for n in (1, 2, 3))
PASSES = ("client", "client_meter", "admit_clients", "keep", "selection")
ANSWERS = ("ingress", "return", "fragment", "egress")


def changes(*numbers: int, renumbered: bool = False) -> TableChanges:
    """A change that removes a flow of each of these tables."""
    flows = tuple(Flow(number, 100, "udp", 1, "drop") for number in numbers)
    return TableChanges((), (), flows, (), (), (), renumbered=renumbered)


def waiting(change: TableChanges) -> set[int]:
    now, later = change.split_for_grace()
    assert {*now.remove, *later.remove} == {*change.remove}
    return {flow.table for flow in later.remove}


@pytest.mark.parametrize(
    ("there", "wanted", "added", "removed"),
    [
        ({ONE, TWO}, [ONE, TWO], [], []),
        ({ONE, TWO}, [ONE], [], [TWO]),
        ({ONE}, [ONE, TWO], [TWO], []),
        ({ONE, TWO}, [ONE, THREE], [THREE], [TWO]),
        ({ONE, TWO}, [], [], [TWO, ONE]),
    ],
)
def test_only_lines_that_differ_are_added_or_removed(
    there: set[str], wanted: list[str], added: list[str], removed: list[str]
) -> None:
    found = compare_tables(wanted, [], Tables(there))
    assert {*found.add} == {*map(parse_flow, added)}
    assert {*found.remove} == {*map(parse_flow, removed)}
    assert len(found) == len(added) + len(removed)


def test_flows_of_tables_that_answers_pass_wait() -> None:
    numbers = {name: table.number for name, table in PIPELINE.tables.items()}
    assert waiting(changes(*numbers.values())) == {numbers[name] for name in (*ANSWERS, *PASSES)}


@pytest.mark.parametrize("renumbered", [False, True])
def test_flows_in_numbers_of_no_table_wait(renumbered: bool) -> None:
    """The connection tracker may give a packet back to such a number, and nothing else leads there."""
    assert waiting(changes(239, PIPELINE.tables["vip"].number, renumbered=renumbered)) == {239}


def test_flows_that_another_table_left_in_a_number_do_not_wait() -> None:
    """They would take packets of the table that has the number now."""
    numbers = [PIPELINE.tables[name].number for name in ANSWERS]
    assert waiting(replace(changes(*numbers), renumbered=True)) == set()


def test_a_meter_that_a_flow_of_somebody_else_uses_stays() -> None:
    """The switch would delete the flow with it."""
    mine, theirs = Meter(53000001, "meter=53000001 a"), Meter(53000002, "meter=53000002 b")
    there = Tables(set(), meters={m.number: m for m in (mine, theirs)})
    foreign = Flow(0, 1, "in_port=77", 0x77, f"meter:{theirs.number},output:1")
    there.other[foreign.key] = foreign
    assert compare_tables([], [], there).remove_meters == (mine,)
