"""What the agent of a bridge knows, as the record has it for those on other machines. It is written when it changes."""

from __future__ import annotations

import json
from typing import Any

from dnsteer.switch.session import Session, set_ids
from dnsteer.switch.state import KNOWN_KEY, BridgeRecord


def note_of(record: BridgeRecord) -> Any:
    """What is recorded, as JSON; None where there is nothing, or what is no JSON."""
    try:
        return json.loads(record.ids.get(KNOWN_KEY) or "null")
    except (ValueError, RecursionError):
        return None


class NoteSession(Session):
    """A connection to OVSDB that records what the agent knows. Only the agent that acts does. Raises what Session does."""

    def __enter__(self) -> NoteSession:
        return self

    def record_note(self, bridge: str, note: Any) -> None:
        """Record what is known of a bridge, instead of what was. None takes the note away."""
        record = self.record_of(bridge)
        text = json.dumps(note, separators=(",", ":")) if note is not None else ""
        if record.ids.get(KNOWN_KEY, "") != text:
            self._write(record, set_ids(record.uuid, {KNOWN_KEY: text}))
