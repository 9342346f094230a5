# SPDX-License-Identifier: Apache-2.0
"""The status for people: which columns there are, by the width of the terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from dnsteer.cli.status_view import view
from dnsteer.view.attention_item import AttentionItem
from tests.unit.console_cases import entry
from tests.unit.test_top import frame

ID = "d21gepscbjsy"
NOTE = "https [2001:db8:53::13]:443 (VIP dns) through the bridge: " + "x" * 120


@pytest.mark.parametrize(("width", "there"), [(80, False), (120, True), (200, True), (300, True)])
def test_a_long_note_takes_several_lines_beside_a_decision(width: int, there: bool) -> None:
    status = frame(entry("b1", "health", note=NOTE, decision=ID)).status
    screen = Console(file=io.StringIO(), width=width, soft_wrap=False, _environ={})
    screen.print(view(status, width))
    lines = screen.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= width
    assert any(ID in line for line in lines) is there
    assert "".join("".join(lines).split()).count("x") >= 120


def test_a_bounded_status_shows_a_few_findings_of_a_kind_and_what_is_overdue() -> None:
    entries = [entry(f"b{n}") for n in range(60)]
    late = entry("late", until="2020-01-01T00:00:00+00:00")
    last = [AttentionItem("warning", f"pool p{n}", f"ns{n} is the last of 3 backends in service") for n in range(50)]
    other = AttentionItem("note", "something else")

    def lines(*, bounded: bool) -> list[str]:
        screen = Console(file=io.StringIO(), width=120, soft_wrap=False, _environ={})
        screen.print(view(frame(*entries, late).status, 120, [*last, other], bounded=bounded))
        return screen.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]

    few, text = lines(bounded=True), "\n".join(lines(bounded=True))
    assert text.count("is the last of 3") == 5 and "note: something else" in text
    assert "and 45 more: dnsteer status -v" in few and len(few) < 60
    assert "out (20 of 61)" in text and "overdue" in next(line for line in few if line.startswith("farm/late"))
    assert any(line.startswith("not shown: 41 entries of maintenance; all: dnsteer status -v") for line in few)
    every = "\n".join(lines(bounded=False))
    assert every.count("is the last of 3") == 50 and "farm/b59" in every and "not shown" not in every
