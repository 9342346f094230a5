# SPDX-License-Identifier: Apache-2.0
"""The keys of `top`: orders, scrolling and the filter, as a terminal sends them."""

from __future__ import annotations

import pytest

from dnsteer.cli.top import TopKeys

UP, DOWN, PAGE_DOWN, PAGE_UP, HOME, END, ESC = "\x1b[A", "\x1b[B", "\x1b[6~", "\x1b[5~", "\x1b[H", "\x1b[F", "\x1b"


def pressed(*keys: str, rows: int = 50) -> TopKeys:
    chosen = TopKeys("rate")
    for key in keys:
        assert chosen.press(key, page=10, rows=rows)
    return chosen


@pytest.mark.parametrize(
    ("keys", "skip"),
    [
        ([DOWN, DOWN, "j", "k"], 2),
        ([f"{DOWN}{DOWN}{DOWN}"], 3),
        ([UP], 0),
        ([PAGE_DOWN, " "], 20),
        ([PAGE_DOWN, PAGE_UP], 0),
        ([END], 49),
        (["G", DOWN], 49),
        ([END, HOME], 0),
        ([PAGE_DOWN, "n"], 0),
        ([PAGE_DOWN, "/x"], 0),
        ([DOWN, "x", "\x1b[15~"], 1),
    ],
)
def test_keys_scroll(keys: list[str], skip: int) -> None:
    assert pressed(*keys).skip == skip


def test_keys_select_the_order() -> None:
    assert [pressed(key).sort for key in "rnsdS"] == ["rate", "name", "state", "difference", "state"]


def test_a_filter_is_typed_kept_and_taken_back() -> None:
    chosen = pressed("/", "dqn", "s")
    assert (chosen.matching, chosen.edited, chosen.sort) == ("dqns", True, "rate")
    assert chosen.footer(2) == "filter: dqns_   Enter: keep it, Esc: none"
    assert chosen.press("\x7f\x7f\r", page=1, rows=1) and (chosen.matching, chosen.edited) == ("dq", False)
    assert "with 'dq'" in chosen.footer(2) and "/ filter" in chosen.footer(2)
    assert chosen.press(ESC, page=1, rows=1) and chosen.matching == ""
    assert pressed("/ab", "\r", "/c", "\r").matching == "c"  # begun anew
    chosen = pressed("/ab", "\r", "/c")
    assert chosen.footer(2) == "filter: c_   Enter: keep it, Esc: 'ab' again"
    assert chosen.press(ESC, page=1, rows=1) and (chosen.matching, chosen.edited) == ("ab", False)
    assert pressed("/ab", ESC).matching == "" and not pressed("/ab", ESC).edited


def test_q_ends_top() -> None:
    assert not TopKeys("rate").press(f"{DOWN}q", page=1, rows=9)
