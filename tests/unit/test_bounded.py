# SPDX-License-Identifier: Apache-2.0
"""Lists in what commands print: counted, the first few, and how to see all."""

from __future__ import annotations

from dnsteer.deploy.bounded_lists import FEW, MANY, SentenceGroup, bounded_alike, bounded_lines
from dnsteer.spec.errors import some_of


def texts(n: int, what: str = "added") -> list[str]:
    return [f"VIP v{i} {what}" for i in range(n)]


def test_a_large_group_is_counted_and_the_others_are_shown() -> None:
    groups = [SentenceGroup("1 pool added", ["pool a added"]), SentenceGroup("200 VIPs added", texts(200))]
    lines = bounded_lines(groups)
    assert lines[:3] == ["pool a added", "200 VIPs added:", "  VIP v0 added"]
    assert lines[-1] == f"  and {200 - FEW} more (-v shows all)" and len(lines) == 2 + FEW + 1
    assert bounded_lines([SentenceGroup("", texts(MANY))]) == texts(MANY)


def test_reasons_that_say_the_same_are_bounded_kind_by_kind() -> None:
    removed = [f"VIP v{i} (192.0.2.{i}) removed: its clients will get no answer" for i in range(150)]
    moved = [f"pool p{i}: {50 + i} % of its clients would move" for i in range(3)]
    lines = bounded_alike([*removed, *moved])
    assert lines == [
        *removed[:FEW],
        f"and {150 - FEW} more of which this is said (--json shows all)",
        *moved,
    ]


def test_no_option_is_named_where_none_shows_all() -> None:
    assert bounded_alike(texts(50), how="")[-1] == f"and {50 - FEW} more of which this is said"


def test_lists_of_names_are_bounded_in_a_sentence() -> None:
    assert some_of(["a", "b"]) == "a, b"
    assert some_of(range(8)) == "0, 1, 2, 3, 4, 5, 6, 7"
    assert some_of(range(500)) == "0, 1, 2, 3, 4, 5, 6 and 493 more"
