"""Where the spec of a deployment comes from: a file (here), or a recorded state (`rollback.StateSource`)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from dnsteer.slots.maintenance import Maintenance
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.session import Session
from dnsteer.switch.state import BridgeRecord


@dataclass(frozen=True)
class SourcedSpec:
    """The spec to deploy, and the note for its state if none is given.

    *returned* is maintenance that starts again with it; *warnings* are about maintenance that cannot be restored. *restores*
    is the number of the state that a rollback brings back; 0: it is none. *rolls_back* is that of the applied state, where
    the spec that is brought back is older.
    """

    loaded: Loaded
    note: str = ""
    returned: tuple[Maintenance, ...] = ()
    warnings: tuple[str, ...] = ()
    restores: int = 0
    rolls_back: int = 0


class SpecSource(Protocol):
    """Where the spec comes from, and which bridge it is for."""

    def find_bridge(self, session: Session) -> str:
        """Return the name of the bridge to change. Raises SwitchError."""

    def read(self, session: Session, record: BridgeRecord | None, time: datetime) -> SourcedSpec:
        """Return the spec to deploy. Raises SwitchError."""


@dataclass(frozen=True)
class FileSource:
    """A spec that was loaded from its file already."""

    loaded: Loaded

    def find_bridge(self, _session: Session) -> str:
        """The bridge that the spec names."""
        return self.loaded.spec.switch.bridge

    def read(self, _session: Session, _record: BridgeRecord | None, _time: datetime) -> SourcedSpec:
        """The spec itself."""
        return SourcedSpec(self.loaded)
