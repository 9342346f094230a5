"""The status for people: which columns there are, by the width of the terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from dnsteer.cli.status_view import view
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


def test_a_frame_of_a_height_keeps_its_lines_for_pools() -> None:
    status = frame(entry("b1", "health", note=NOTE, decision=ID)).status
    screen = Console(file=io.StringIO(), width=120, soft_wrap=False, _environ={})
    screen.print(view(status, 120, height=24))
    assert ID not in screen.file.getvalue()  # type: ignore[attr-defined]
