# SPDX-License-Identifier: Apache-2.0
"""What the agent notes in the record.

That is which checks fail again and again, so that an agent that is started again holds their backends as long, and the
essentials of what it knows, for those on other machines.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from dnsteer.agent.health import CheckState, flapping_checks
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.switch.agent_record import AgentRecordSession, PastFailures, TargetKey
from dnsteer.switch.state import FAILURES_KEY, BridgeRecord
from dnsteer.switch.tools import SwitchError, UnwrittenError
from dnsteer.view.snapshot import SnapshotRecorder

PACE = 5.0
"""Seconds between two writes, at least."""
_LOOK = 1.0
_MOST, _LONG = 20, 200
"""Entries of each kind that are recorded, and characters of a text."""


def make_note(known: Any) -> Any:
    """What is recorded of what is known, both as JSON: bounded, and None where nothing needs attention."""
    kinds = ("failing", "panics", "unannounced", "unannounced_prefixes", "troubles")
    if known is None or not any(known[kind] for kind in kinds):
        return None
    return {"state": known["state"], **{kind: [_short(one) for one in known[kind][:_MOST]] for kind in kinds}}


def _short(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value[:_LONG] if isinstance(value, str) else value for key, value in entry.items()}


async def keep_note(switch: TargetSwitch, bridge: str, seen: SnapshotRecorder) -> None:
    """Keep the note on a bridge until cancelled. Nothing depends on it: where it cannot be written, it is tried again."""
    written: Any = ...
    while True:
        known = seen.knowledge_of(bridge)
        note = make_note(known)
        if known is not None and note != written:
            try:
                await asyncio.to_thread(_write, switch, bridge, note)
                written = note
            except (SwitchError, OSError):
                pass  # what is wrong with the database is said by those who depend on it
            await asyncio.sleep(PACE)
        await asyncio.sleep(_LOOK)


def _write(switch: TargetSwitch, bridge: str, note: Any) -> None:
    with AgentRecordSession(switch.remote, min(switch.timeout, PACE)) as session:
        session.record_note(bridge, note)


class FailureRecord:
    """Keeps the record of checks that fail again and again."""

    def __init__(self, remote: str) -> None:
        self._remote = remote
        self._recorded: dict[TargetKey, CheckState] | None = None

    def keep(self, record: BridgeRecord, states: Mapping[TargetKey, CheckState], now: float) -> None:
        """Record what has changed, if anything. Without room for it, that is tried again. Raises SwitchError."""
        wanted = flapping_checks(states, now)
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
