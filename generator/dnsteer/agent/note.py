"""The part of the agent that keeps the essentials of what it knows in the record, for those on other machines.

Nothing depends on it: where it cannot be written, such as on a full disk, it is tried again, and all else goes on.
"""

from __future__ import annotations

import asyncio
from typing import Any

from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.switch.agent_note import NoteSession
from dnsteer.switch.tools import SwitchError
from dnsteer.view.snapshot import SnapshotRecorder

PACE = 5.0
"""Seconds between two writes, at least."""
_LOOK = 1.0
_MOST, _LONG = 20, 200
"""Entries of each kind that are recorded, and characters of a text."""


def essentials(known: Any) -> Any:
    """What is recorded of what is known, both as JSON: bounded, and None where nothing needs attention."""
    kinds = ("failing", "panics", "unannounced", "troubles")
    if known is None or not any(known[kind] for kind in kinds):
        return None
    return {"state": known["state"], **{kind: [_short(one) for one in known[kind][:_MOST]] for kind in kinds}}


def _short(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value[:_LONG] if isinstance(value, str) else value for key, value in entry.items()}


async def keep_note(switch: TargetSwitch, bridge: str, seen: SnapshotRecorder) -> None:
    """Keep the note on a bridge until cancelled."""
    written: Any = ...
    while True:
        known = seen.knowledge_of(bridge)
        note = essentials(known)
        if known is not None and note != written:
            try:
                await asyncio.to_thread(_write, switch, bridge, note)
                written = note
            except (SwitchError, OSError):
                pass  # what is wrong with the database is said by those who depend on it
            await asyncio.sleep(PACE)
        await asyncio.sleep(_LOOK)


def _write(switch: TargetSwitch, bridge: str, note: Any) -> None:
    with NoteSession(switch.remote, min(switch.timeout, PACE)) as session:
        session.record_note(bridge, note)
