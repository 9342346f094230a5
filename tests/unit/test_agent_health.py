# SPDX-License-Identifier: Apache-2.0
"""Rise, fall and hold of one check."""

from __future__ import annotations

from itertools import pairwise

from dnsteer.agent.health import HALF_LIFE, CheckState, Result, Thresholds, after_result

NEW = CheckState()
LIMITS = Thresholds(rise=3, fall=2, hold_max=60.0)


def after(marks: str, state: CheckState = NEW, begins: float = 0.0, limits: Thresholds = LIMITS) -> CheckState:
    """The state after one result a second: `.` good, `x` failed."""
    for second, mark in enumerate(marks):
        state = after_result(state, Result(begins + second, "" if mark == "." else f"failure {second}"), limits)
    return state


def test_fall_and_rise_count_results_in_a_row() -> None:
    assert after("x").healthy
    assert after("x.x.x.x").healthy
    assert not after("xx").healthy
    assert not after("xx..").healthy
    assert not after("xx..x..").healthy
    assert after("xx...").healthy


def test_the_reason_is_the_last_failure() -> None:
    assert after(".xx.").why == "failure 2"
    assert after(".xxx").why == "failure 3"


def test_a_flapping_backend_stays_out_longer() -> None:
    state, time, outs = CheckState(), 0.0, []
    for _ in range(8):
        state = after("xx", state, time)
        assert not state.healthy
        began = time
        while not state.healthy:
            time += 1
            state = after_result(state, Result(time), LIMITS)
        outs.append(time - began)
        time += 1
    assert outs[0] < 5, "the first time only rise counts"
    assert all(a <= b for a, b in pairwise(outs))
    assert outs[-1] > 10 * outs[0]
    assert max(outs) <= LIMITS.hold_max + LIMITS.rise


def test_a_long_time_without_failures_is_forgotten() -> None:
    state = CheckState()
    for n in range(5):
        state = after("xx" + "." * 70, state, n * 72.0)
    assert state.failures > 3
    late = after("xx", state, 360.0 + 20 * HALF_LIFE)
    assert late.held <= late.since, "it counts as the first"


def test_a_clock_that_stands_still_does_not_hold_for_ever() -> None:
    """Times come from a clock that never goes back; equal ones are possible."""
    state = after("xx")
    for _ in range(LIMITS.rise):
        state = after_result(state, Result(1.0), LIMITS)
    assert state.healthy
