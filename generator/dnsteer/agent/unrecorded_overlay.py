# SPDX-License-Identifier: Apache-2.0
"""What the agent has decided about health while the record could not be written, such as on a full disk.

The flows have it, and the record follows as soon as there is room. Until then the agent and the verbs that it carries out
read the record as if it had it. A file beside the control socket, which is in memory, tells the next agent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dnsteer.slots.maintenance import Overlay
from dnsteer.switch.control_socket import folder_of
from dnsteer.switch.state import OVERLAY_KEY, PENDING_KEY, RECORD_FORMAT, STATE_KEY, BridgeRecord, overlay_ids

_KEYS = (STATE_KEY, OVERLAY_KEY, PENDING_KEY)
"""What of the record the decision was based on: once that has changed, somebody has written it, and it counts."""


@dataclass(frozen=True)
class _Kept:
    bridge: str
    """The UUID of its row."""
    base: Mapping[str, str]
    overlay: Overlay

    @staticmethod
    def from_json(text: str) -> _Kept:
        """Read what `to_json` gave. Raises ValueError, KeyError, TypeError or AttributeError."""
        value: dict[str, Any] = json.loads(text)
        if value.get("format", 1) != RECORD_FORMAT:
            raise ValueError("an agent of another version wrote it")
        overlay = Overlay.from_json(json.dumps(value["overlay"])).with_decisions(str(value["decisions"]))
        return _Kept(str(value["bridge"]), {key: str(value["base"][key]) for key in _KEYS}, overlay)

    def to_json(self) -> str:
        overlay = json.loads(self.overlay.to_json())
        decisions = self.overlay.decisions()
        value = {"bridge": self.bridge, "base": self.base, "overlay": overlay, "decisions": decisions}
        return json.dumps({"format": RECORD_FORMAT, **value})


class UnrecordedOverlay:
    """The overlay of one bridge that its record does not have yet, if there is one."""

    def __init__(self, remote: str) -> None:
        self._folder = folder_of(remote)
        self._kept: _Kept | None = None
        self.why = ""
        """Why the record could not be written; empty while it has all."""
        self.unsaved = ""
        """Why the file could not be written, which the next agent would read."""

    def load(self, record: BridgeRecord) -> None:
        """Take over what an earlier agent has left. What is no such file, of another format or of an earlier
        record, is removed: the agent decides anew."""
        file = self._file(record.bridge)
        if file is None:
            return
        try:
            kept = _Kept.from_json(file.read_text())
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self.forget(record.bridge)
            return
        if kept.bridge == record.uuid and kept.base == _base(record):
            self._kept, self.why = kept, "an earlier agent could not write it"
        else:
            self.forget(record.bridge)

    def keep(self, record: BridgeRecord, overlay: Overlay, why: str) -> Callable[[], None]:
        """Keep an overlay that the flows get though the *record*, as it stands in OVSDB, cannot have it.

        Returns what brings back what was kept before, for flows that do not get it.
        """
        bridge, before, earlier = record.bridge, self._kept, self.why
        self._save(bridge, _Kept(record.uuid, _base(record), overlay), why)
        return lambda: self._save(bridge, before, earlier) if before is not None else self.forget(bridge)

    def _save(self, bridge: str, kept: _Kept, why: str) -> None:
        self._kept = kept
        self.why, self.unsaved = why, ""
        file = self._file(bridge)
        if file is None:
            return
        new = file.with_suffix(".new")
        try:
            file.parent.mkdir(mode=0o700, exist_ok=True)
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as writing:
                writing.write(kept.to_json())
            new.replace(file)
        except OSError as err:
            self.unsaved = f"{file}: {err.strerror}"
            for left in (new, file):  # what it held is no longer so
                with suppress(OSError):
                    left.unlink()

    def overlay(self, record: BridgeRecord) -> Overlay | None:
        """What the flows have and the *record*, as it stands in OVSDB, does not; None where that is nothing."""
        kept = self._kept
        is_of = kept is not None and kept.bridge == record.uuid and kept.base == _base(record)
        return kept.overlay if kept is not None and is_of else None

    def completed(self, record: BridgeRecord) -> BridgeRecord:
        """The record as it will be once it can be written."""
        overlay = self.overlay(record)
        if overlay is None:
            return record
        ids = {key: value for key, value in record.ids.items() if key != PENDING_KEY}
        return replace(record, ids={**ids, **overlay_ids(overlay)})

    def forget(self, bridge: str) -> None:
        """The record has it, or somebody else has changed that."""
        self._kept, self.why, self.unsaved = None, "", ""
        if (file := self._file(bridge)) is not None:
            with suppress(OSError):
                file.unlink()

    def _file(self, bridge: str) -> Path | None:
        return self._folder / f"{bridge}.unrecorded" if self._folder is not None else None


def _base(record: BridgeRecord) -> dict[str, str]:
    return {key: record.ids.get(key, "") for key in _KEYS}
