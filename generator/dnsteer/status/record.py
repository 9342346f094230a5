"""The record of a switch as far as it can be read; damage is named and does not hide the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from dnsteer.slots.maintenance import Overlay
from dnsteer.switch.session import Session
from dnsteer.switch.state import PENDING_KEY, AppliedState, BridgeRecord, Pending
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
    def same_as(self) -> object:
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
    damage: list[str] = []

    def readable(get: Callable[[], _T]) -> _T | None:
        try:
            return get()
        except UnavailableError:
            raise
        except SwitchError as err:
            damage.append(str(err))
            return None

    with Session(remote, timeout) as session:
        record = session.record_of(bridge)
        overlay = readable(lambda: record.overlay)
        pending = readable(lambda: record.pending)
        number = readable(lambda: record.number)
        state = readable(lambda: session.state(record, number)) if number else None
    return RecordReading(record, overlay, pending, bool(record.ids.get(PENDING_KEY)), state, tuple(damage))
