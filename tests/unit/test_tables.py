# SPDX-License-Identifier: Apache-2.0
"""Tables in narrow terminals: names stay whole, columns leave in order, and what is broken is broken behind a separator."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from dnsteer.cli.tables import TableColumn, break_name, table_of

NAME = "customer-000-authoritative"
COLUMNS = (
    TableColumn("pool"),
    TableColumn("weight", right=True, leaves=2),
    TableColumn("state", leaves=1),
    TableColumn("packets/s", right=True),
    TableColumn("note", narrows=8),
)
ROWS = [(NAME, "1", "drained", "1,234", "kernel update"), (Text("b", style="bold"), "2", "up", "5\n(6)", "")]


def shown(width: int) -> list[str]:
    out = StringIO()
    Console(file=out, width=width).print(table_of(COLUMNS, ROWS, width))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_wide_terminal_has_all_columns() -> None:
    assert shown(80) == [
        "pool                        weight  state    packets/s  note",
        "customer-000-authoritative       1  drained      1,234  kernel update",
        "b                                2  up               5",
        "                                                   (6)",
    ]


def test_a_note_narrows_then_columns_leave_and_the_name_stays_whole() -> None:
    assert shown(62) == [
        "pool                        weight  packets/s  note",
        "customer-000-authoritative       1      1,234  kernel update",
        "b                                2          5",
        "                                          (6)",
    ]
    assert shown(50)[1].split() == [NAME, "1,234", "kernel"]


def test_a_name_that_does_not_fit_is_broken_behind_a_separator() -> None:
    assert [line.split()[0] for line in shown(40)[1:3]] == ["customer-000-", "authoritative"]
    assert max(map(len, shown(40))) <= 40


@pytest.mark.parametrize(
    ("text", "width", "broken"),
    [
        ("2001:db8:ffff::1", 12, "2001:db8:\nffff::1"),
        ("dns.example-a.net/ns1", 14, "dns.example-a.\nnet/ns1"),
        ("by hand, until noon", 8, "by hand,\nuntil\nnoon"),
        ("short", 8, "short"),
        ("authoritative", 8, "authoritative"),  # rich breaks a word without a separator
    ],
)
def test_long_names_break_at_separators(text: str, width: int, broken: str) -> None:
    assert break_name(text, width) == broken
