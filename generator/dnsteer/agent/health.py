# SPDX-License-Identifier: Apache-2.0
"""Whether a backend is healthy, by the results of its probes and their times.

*rise* and *fall* are as in keepalived and HAProxy: so many results of one kind in a row change the state. A backend that
fails again soon after it came back stays out longer: its hold doubles with each failure, and is forgotten by halves.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dnsteer.switch.agent_record import PastFailures, TargetKey

HALF_LIFE = 300.0
"""Seconds after which a past failure counts half towards the hold."""
_SHORTEST_HOLD = 1.0
_RECORDED = 1.0
"""Failures above which a check is recorded: one alone holds nothing."""
_MOST = 500
"""Checks that are recorded, those with the most failures first: the record stays small in a large outage."""


@dataclass(frozen=True)
class Result:
    """The result of one probe. *why* says what is wrong with the answer, empty for a good one. Times in seconds.

    *serial* is that of the zone, where the check compares it with other backends'.
    *answered*: a bad one is an answer to the query all the same, other than SERVFAIL, by which a server says that it cannot.
    """

    time: float
    why: str = ""
    took: float = 0.0
    serial: int | None = None
    answered: bool = False

    @property
    def good(self) -> bool:
        """Whether the backend answered as it should."""
        return not self.why


@dataclass(frozen=True)
class Thresholds:
    """*rise* good results in a row make a backend healthy, *fall* failures unhealthy; *hold_max* is in seconds."""

    rise: int
    fall: int
    hold_max: float


@dataclass(frozen=True)
class CheckState:
    """What one check knows of one backend. *streak* counts results against the present state, in a row.

    *why* is the last failure, and *answered* whether that was an answer. *failures* is the decayed number of times that it
    became unhealthy, as of *since*, the time of the last change of state. Until *held* it stays unhealthy.
    """

    healthy: bool = True
    streak: int = 0
    why: str = ""
    since: float = 0.0
    failures: float = 0.0
    held: float = 0.0
    answered: bool = False

    @property
    def steady(self) -> bool:
        """Whether it is healthy and nothing says otherwise."""
        return self.healthy and not self.streak

    @property
    def is_answering(self) -> bool:
        """Whether the last result was good."""
        return self.healthy != bool(self.streak)


def after_result(state: CheckState, result: Result, limits: Thresholds) -> CheckState:
    """Return the state after one more result."""
    why = result.why or state.why
    answered = state.answered if result.good else result.answered
    if result.good == state.healthy:
        same = not state.streak and (why, answered) == (state.why, state.answered)
        return state if same else replace(state, streak=0, why=why, answered=answered)
    streak = state.streak + 1
    if state.healthy:
        fallen = streak >= limits.fall
        return _fallen(state, result, limits) if fallen else replace(state, streak=streak, why=why, answered=answered)
    if streak < limits.rise or result.time < state.held:
        return replace(state, streak=streak)
    return replace(state, healthy=True, streak=0, since=result.time, failures=decayed_failures(state, result.time))


def _fallen(state: CheckState, result: Result, limits: Thresholds) -> CheckState:
    failures = decayed_failures(state, result.time) + 1
    hold = min(limits.hold_max, _SHORTEST_HOLD * 2 ** min(failures, 32.0)) if failures > 1.5 else 0.0
    return CheckState(False, 0, result.why, result.time, failures, result.time + hold, result.answered)


def decayed_failures(state: CheckState, time: float) -> float:
    """Return how many past failures still count at *time*."""
    passed = max(0.0, time - state.since)
    return state.failures * float(0.5 ** (passed / HALF_LIFE))


def flapping_checks(states: Mapping[TargetKey, CheckState], now: float) -> dict[TargetKey, CheckState]:
    """Return the states that are to be recorded at *now*, a time as those of the states."""
    found = {key: decayed_failures(state, now) for key, state in states.items() if state.failures > _RECORDED}
    most = sorted((key for key, failures in found.items() if failures > _RECORDED), key=lambda key: -found[key])
    return {key: states[key] for key in sorted(most[:_MOST])}


def initial_state(state: CheckState, past: PastFailures | None, now: float, hold_max: float) -> CheckState:
    """Return a state that begins *now*, after failures that were recorded; None: there were none.

    The clock may have been set meanwhile, and the record changed by hand: nobody is held longer than *hold_max*.
    """
    if past is None or not all(map(math.isfinite, (past.failures, past.at, past.held))):
        return state
    clock = time.time()
    before = CheckState(failures=min(max(past.failures, 0.0), 64.0))
    failures = decayed_failures(before, max(0.0, clock - past.at))
    held = 0.0 if state.healthy else now + min(max(0.0, past.held - clock), hold_max)
    return CheckState(state.healthy, why=state.why, since=now, failures=failures, held=held)
