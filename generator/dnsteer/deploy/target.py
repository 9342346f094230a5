"""What to deploy: a spec (here), or a recorded state (`rollback`). Each finds its bridge and its spec."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from dnsteer.slots.maintenance import Maintenance
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.session import Session
from dnsteer.switch.state import BridgeRecord


@dataclass(frozen=True)
class Resolved:
    """The spec to deploy, and the note for its state if none is given.

    *returned* is maintenance that starts again with it; *warnings* are about maintenance that cannot be restored.
    """

    loaded: Loaded
    note: str = ""
    returned: tuple[Maintenance, ...] = ()
    warnings: tuple[str, ...] = ()


class Target(Protocol):
    """What to deploy."""

    def find_bridge(self, session: Session) -> str:
        """Return the name of the bridge to change. Raises SwitchError."""

    def resolve(self, session: Session, record: BridgeRecord | None, time: datetime) -> Resolved:
        """Return the spec to deploy. Raises SwitchError."""


@dataclass(frozen=True)
class SpecTarget:
    """A spec that was loaded from its file."""

    loaded: Loaded

    def find_bridge(self, _session: Session) -> str:
        """The bridge that the spec names."""
        return self.loaded.spec.switch.bridge

    def resolve(self, _session: Session, _record: BridgeRecord | None, _time: datetime) -> Resolved:
        """The spec itself."""
        return Resolved(self.loaded)
