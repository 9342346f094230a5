# SPDX-License-Identifier: Apache-2.0
"""When the agent looks at the whole switch."""

from __future__ import annotations

from dnsteer.agent.next_work import LookTimes


def test_the_switch_is_checked_at_start_then_periodically() -> None:
    times = LookTimes()
    assert times.due_in(0, 0.0) <= 0.3
    times.done(0, 0.0, 0.01, differed=False)
    assert times.due_in(0, 1.0) == 30.01 - 1.0


def test_a_change_is_checked_when_it_is_quiet_or_has_lasted() -> None:
    times = LookTimes()
    times.done(0, 0.0, 0.0, differed=False)
    assert 0 < times.due_in(1, 10.0) <= 0.051
    assert times.due_in(1, 10.06) <= 0
    for n in range(40):  # it never is quiet
        soonest = times.due_in(2 + n, 10.06 + n * 0.01)
    assert soonest <= 0


def test_checks_take_a_bounded_share_of_time() -> None:
    times = LookTimes()
    times.done(1, 0.0, 0.4, differed=False)
    assert times.due_in(2, 0.5) > 1.8
    assert times.due_in(2, 2.5) <= 0


def test_repeated_changes_are_checked_once_per_second() -> None:
    times = LookTimes()
    for n in range(4):
        times.done(n, n / 10, n / 10, differed=True)
        assert times.due_in(n + 1, n / 10) <= 0.051
    times.done(4, 0.4, 0.4, differed=True)
    assert 0.9 < times.due_in(5, 0.4) <= 1.001
    times.done(5, 1.4, 1.4, differed=False)
    assert times.due_in(6, 1.5) <= 0.051


def test_a_failed_check_is_tried_again_soon() -> None:
    times = LookTimes()
    times.due_in(1, 5.0)
    times.failed(5.1)
    assert 0 < times.due_in(1, 5.1) <= 0.201
    assert times.due_in(1, 5.3) <= 0
