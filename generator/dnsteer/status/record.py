"""What the record of a switch says, as far as it can be read: damage is named and does not hide the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from dnsteer.slots.maintenance import Overlay
from dnsteer.switch.record import Record
from dnsteer.switch.state import PENDING_KEY, Pending, Standing, State
from dnsteer.switch.tools import SwitchError, UnavailableError

_T = TypeVar("_T")


@dataclass(frozen=True)
class Reading:
    """A bridge's record. *overlay*, *pending* and *state* are None where they are damaged; *damage* says what is.

    *cut_off*: a change was begun and not ended.
    """

    standing: Standing
    overlay: Overlay | None
    pending: Pending | None
    cut_off: bool
    state: State | None
    damage: tuple[str, ...] = field(default=())

    @property
    def same_as(self) -> object:
        """Equal for readings between which nothing was changed."""
        return self.standing.uuid, self.standing.ids

    @property
    def marker(self) -> int | None:
        """The number that the tables should carry; None when that cannot be told."""
        return None if self.overlay is None else self.standing.marker


def read_record(remote: str, bridge: str | None, timeout: float) -> Reading:
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

    with Record(remote, timeout) as record:
        standing = record.the_bridge(bridge)
        overlay = readable(lambda: standing.overlay)
        pending = readable(lambda: standing.pending)
        number = readable(lambda: standing.number)
        state = readable(lambda: record.state(standing, number)) if number else None
    return Reading(standing, overlay, pending, bool(standing.ids.get(PENDING_KEY)), state, tuple(damage))
