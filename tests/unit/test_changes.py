"""What must change: lines that were expected when the tables were read need not be those that are wanted now."""

from __future__ import annotations

import pytest

from dnsteer.render.flows import parse_flow
from dnsteer.switch.openflow import Tables
from dnsteer.switch.table_changes import compare_tables

ONE, TWO, THREE = (f"cookie=0xd453000000000001, table=30, priority=100,reg1={n} actions=drop" for n in (1, 2, 3))


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
def test_expected_lines_that_are_not_wanted_leave(
    there: set[str], wanted: list[str], added: list[str], removed: list[str]
) -> None:
    found = compare_tables(wanted, [], Tables(there))
    assert {*found.add} == {*map(parse_flow, added)}
    assert {*found.remove} == {*map(parse_flow, removed)}
    assert len(found) == len(added) + len(removed)
