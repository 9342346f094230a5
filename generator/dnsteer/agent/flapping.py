"""Checks that fail again and again are recorded, so that an agent that is started again holds their backends as long."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from dnsteer.agent.health import CheckState, decayed_failures
from dnsteer.switch.agent_record import AgentRecordSession, PastFailures, TargetKey
from dnsteer.switch.state import FAILURES_KEY, BridgeRecord
from dnsteer.switch.tools import UnwrittenError

_RECORDED = 1.0
"""Failures above which a check is recorded: one alone holds nothing."""
_MOST = 500
"""Checks that are recorded, those with the most failures first: the record stays small in a large outage."""


def flapping(states: Mapping[TargetKey, CheckState], now: float) -> dict[TargetKey, CheckState]:
    """Return the states that are to be recorded at *now*, a time as those of the states."""
    found = {key: decayed_failures(state, now) for key, state in states.items() if state.failures > _RECORDED}
    most = sorted((key for key, failures in found.items() if failures > _RECORDED), key=lambda key: -found[key])
    return {key: states[key] for key in sorted(most[:_MOST])}


def began_with(state: CheckState, past: PastFailures | None, now: float, hold_max: float) -> CheckState:
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


class FlappingRecord:
    """Keeps the record of checks that fail again and again."""

    def __init__(self, remote: str) -> None:
        self._remote = remote
        self._recorded: dict[TargetKey, CheckState] | None = None

    def keep(self, record: BridgeRecord, states: Mapping[TargetKey, CheckState], now: float) -> None:
        """Record what has changed, if anything. Without room for it, that is tried again. Raises SwitchError."""
        wanted = flapping(states, now)
        recorded = {} if self._recorded is None and FAILURES_KEY not in record.ids else self._recorded
        if recorded is not None and {k: s.since for k, s in wanted.items()} == {
            k: s.since for k, s in recorded.items()
        }:
            return
        ago = time.time() - now
        past = {key: PastFailures(s.failures, s.since + ago, s.held + ago) for key, s in wanted.items()}
        try:
            with AgentRecordSession(self._remote) as session:
                session.record_failures(record, past)
        except UnwrittenError:
            return
        self._recorded = wanted
