# SPDX-License-Identifier: Apache-2.0
"""The record of a switch: as far as it can be read, with the damage named; and the spec that is applied by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from dnsteer.deploy.recorded_spec import load_state
from dnsteer.deploy.settle import as_settled
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.session import Session
from dnsteer.switch.state import NOT_FORWARDING, PENDING_KEY, AppliedState, BridgeRecord, Pending, RecordFormatError
from dnsteer.switch.tools import SwitchError, UnavailableError

_T = TypeVar("_T")


@dataclass(frozen=True)
class RecordReading:
    """A bridge's record. *overlay*, *pending* and *state* are None where they are damaged; *damage* says what is.

    *cut_off*: a change was begun and not ended.
    """

    record: BridgeRecord
    overlay: Overlay | None
    pending: Pending | None
    cut_off: bool
    state: AppliedState | None
    damage: tuple[str, ...] = field(default=())

    @property
    def revision(self) -> object:
        """A value that is equal for readings between which nothing changed."""
        return self.record.uuid, self.record.ids

    @property
    def marker(self) -> int | None:
        """The marker that the tables should have; None if unknown."""
        return None if self.overlay is None else self.record.marker


def read_record(remote: str, bridge: str | None, timeout: float) -> RecordReading:
    """Read the record of the bridge, or of the only one there is.

    Raises SwitchError when there is none, or UnavailableError when OVSDB cannot be reached.
    """
    damage: list[SwitchError] = []

    def readable(get: Callable[[], _T]) -> _T | None:
        try:
            return get()
        except UnavailableError:
            raise
        except SwitchError as err:
            if not any(isinstance(one, RecordFormatError) for one in damage):  # else the rest would only say so again
                damage.append(err)
            return None

    with Session(remote, timeout) as session:
        record = session.record_of(bridge)
        overlay = readable(lambda: record.overlay)
        pending = readable(lambda: record.pending)
        number = readable(lambda: record.number)
        state = readable(lambda: session.state(record, number)) if number else None
    return RecordReading(record, overlay, pending, bool(record.ids.get(PENDING_KEY)), state, tuple(map(str, damage)))


@dataclass(frozen=True)
class RecordedSwitch:
    """The state of a bridge that is applied, and the overlay on it. *name* is the switch's; *warnings* are for people."""

    bridge: str
    name: str
    state: AppliedState
    loaded: Loaded
    overlay: Overlay
    warnings: tuple[str, ...]


def read_recorded_switch(switch: TargetSwitch, bridge: str | None) -> RecordedSwitch:
    """Read the record of the bridge, or of the only one; of a pending change, the side that the tables are on.

    Raises SwitchError when no state is recorded or the record is damaged, UnavailableError when the switch cannot be
    reached. Changes nothing.
    """
    warnings = []
    with switch.session() as session:
        record = as_settled(switch, session.record_of(bridge))
        if not record.number:
            raise SwitchError(f"{record.bridge}: no state is recorded; apply the spec with this version of dnsteer")
        state, overlay = session.state(record, record.number), record.overlay
    try:
        if switch.client(record.bridge).marker() != record.marker:
            warnings.append(
                "the tables differ from the record, so packets may take other paths; "
                "dnsteer restore loads the recorded tables"
            )
    except UnavailableError as err:
        warnings.append(f"it is unknown whether the tables match the record: {err}")
    if record.waits:
        warnings.append(NOT_FORWARDING)
    return RecordedSwitch(record.bridge, record.name, state, load_state(state), overlay, tuple(warnings))
