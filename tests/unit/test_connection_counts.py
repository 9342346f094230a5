# SPDX-License-Identifier: Apache-2.0
"""What dump-conntrack prints, in all its forms, and that a zone with too many connections is not dumped."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone

import pytest

from dnsteer.slots.membership import Member, Membership
from dnsteer.status.kept_connections import KeptConnections, name_backends
from dnsteer.switch.connection_counts import MOST, ZoneCounts, read_dump, read_zone
from dnsteer.switch.tools import SwitchError

ENDS = "orig=(src=203.0.113.9,dst=192.0.2.53,sport=4{0},dport=53),reply=(src=192.0.2.53,dst=203.0.113.9,sport=53,dport=4{0})"
TIME = datetime(2026, 1, 1, tzinfo=timezone.utc)


def line(number: int, rest: str) -> str:
    return f"tcp,{ENDS.format(number)},{rest}\n"


@pytest.mark.parametrize(
    ("rest", "mark", "is_open"),
    [
        ("zone=53000,mark=1841613,protoinfo=(state=SYN_SENT)", 1841613, True),
        ("zone=53000,mark=1841613,labels=0x1,protoinfo=(state=ESTABLISHED)", 1841613, True),
        ("id=0,zone=5,status=0,mark=0x7,protoinfo=(state_orig=SYN_SENT,state_reply=CLOSED,flags_orig=0)", 7, True),
        ("zone=53000,timeout=29,mark=7,protoinfo=(state=CLOSING)", 7, False),
        ("zone=53000,mark=7,protoinfo=(state=TIME_WAIT),helper=ftp", 7, False),
        ("zone=53000,protoinfo=(state=SYN_SENT)", 0, True),
        ("zone=53000", 0, True),
        ("zone=53000,mark=9", 9, True),
    ],
)
def test_each_form_of_a_line_is_read(rest: str, mark: int, is_open: bool) -> None:
    assert list(read_dump(line(1, rest) + line(2, rest).rstrip("\n"))) in (
        [(mark, is_open, 2)],
        [(mark, is_open, 1)] * 2,  # without a mark lines are not alike
    )


def test_what_is_no_connection_is_left_out() -> None:
    assert list(read_dump("2024-01-01 warning: mark=3\n\ndpctl: a word\n")) == []


class Tracker:
    """An ovs-vswitchd that answers so, and notes what it was asked."""

    def __init__(
        self, limits: str, dump: str = "", stats: str = "Connections Stats:\n    Total: 3\n  TCP: 3\n"
    ) -> None:
        self._answers: Mapping[str, str] = {
            "dpctl/ct-get-limits": limits,
            "dpctl/dump-conntrack": dump,
            "dpctl/ct-stats-show": stats,
        }
        self.asked: list[str] = []

    def run(self, command: str, *args: str) -> str:
        assert args == ("netdev@ovs-netdev", "zone=5")
        self.asked.append(command.removeprefix("dpctl/"))
        return self._answers[command]


def limits(limit: int, count: int) -> str:
    return f"default limit=0\nzone=5,limit={limit},count={count}\n"


def count(tracker: Tracker) -> ZoneCounts:
    return read_zone(tracker, "netdev@ovs-netdev", 5)


MIXED = "".join(
    line(n, f"zone=5,mark={mark},protoinfo=(state={state})")
    for n, (mark, state) in enumerate(
        [(7, "SYN_SENT"), (7, "SYN_SENT"), (9, "SYN_SENT"), (9, "CLOSING"), (7, "TIME_WAIT")]
    )
)


def test_connections_are_counted_by_mark_and_those_that_ended_apart() -> None:
    assert count(Tracker(limits(100, 5), MIXED)) == ZoneCounts(5, 5, 100, {7: 2, 9: 1}, 2)


def test_more_than_the_most_are_not_dumped() -> None:
    tracker = Tracker(limits(3_000_000, MOST + 1))
    assert count(tracker) == ZoneCounts(5, MOST + 1, 3_000_000, None)
    assert tracker.asked == ["ct-get-limits"]
    assert count(Tracker(limits(3_000_000, MOST), MIXED)).open == {7: 2, 9: 1}


def test_without_a_limit_the_switch_counts_otherwise() -> None:
    tracker = Tracker(limits(0, 0), MIXED, f"    Total: {MOST + 1}\n")
    assert count(tracker).open is None
    assert tracker.asked == ["ct-get-limits", "ct-stats-show"]


def test_entries_older_than_the_limit_count() -> None:
    assert count(Tracker(limits(100, 1), MIXED)).entries == 5


@pytest.mark.parametrize("tracker", [Tracker("default limit=0\n"), Tracker(limits(0, 0), stats="nothing")])
def test_an_answer_of_another_form_is_an_error(tracker: Tracker) -> None:
    with pytest.raises(SwitchError, match="ct-"):
        count(tracker)


POOLS = [
    Membership(
        pool,
        f"pool {pool}",
        n,
        "source-port",
        16,
        "spread",
        (Member("a", 7 + n, 1, False), Member("b", 9, 1, False)),
        "",
        keeps,
    )
    for n, (pool, keeps) in enumerate([("kept", True), ("other", False)])
]


def test_marks_are_named_in_pools_that_keep() -> None:
    found = name_backends(ZoneCounts(5, 6, 100, {7: 2, 8: 3}, 1), POOLS, TIME)
    assert dict(found.by_backend) == {("kept", "a"): 2, ("kept", "b"): 0}
    assert found.text == "6 (1 of them ended) of 100, zone 5"


def test_too_many_are_said_as_such() -> None:
    found = name_backends(ZoneCounts(5, 250_000, 3_000_000, None), POOLS, TIME)
    assert not found.is_counted and not found.by_backend
    assert found.text == "over 200,000, not counted by backend of 3,000,000, zone 5"
    assert found.as_json() == {
        "time": "2026-01-01T00:00:00+00:00",
        "zone": 5,
        "entries": None,
        "over": 200_000,
        "ended": None,
        "limit": 3_000_000,
    }
    assert KeptConnections(TIME, 5, 1, 0, 0, ()).text == "1 of any number, zone 5"
