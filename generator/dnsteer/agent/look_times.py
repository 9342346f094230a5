"""When the agent looks at the whole switch: soon after a change, once it is quiet, and now and then without one."""

from __future__ import annotations

_QUIET = 0.05
"""Seconds without a change, after which a change is over: an apply is many."""
_LATEST = 0.3
"""Seconds after a change in which it must be quiet; then the look comes all the same."""
_REGULAR = 30.0
"""Seconds between looks without a change: not everything is announced."""
_SHARE = 0.2
"""Share of the time that looks may take where changes do not end."""
_REGULAR_SHARE = 0.003
"""Share of the time that regular looks may take: no backend can be taken out meanwhile."""
_IN_A_ROW = 5
"""Looks in a row that found differences, after which somebody is fighting the agent, and looks are spaced."""
_SPACED = 1.0
"""Seconds between looks then."""
_AGAIN = 0.2
"""Seconds until a look that failed is tried again."""


class LookTimes:
    """All times are in seconds of one steady clock. *events* count what was noticed of the switch."""

    def __init__(self) -> None:
        self._seen = -1
        self._events = -1
        self._first = self._last = 0.0
        self._earliest = self._regular = 0.0
        self._in_a_row = 0
        self.failing = False
        """Whether the last look could not be done."""

    def notice(self, events: int, now: float) -> None:
        """So many events are counted now."""
        if events != self._events:
            self._first = now if self._events == self._seen else self._first
            self._events, self._last = events, now

    @property
    def due(self) -> float:
        """When the next look is to be, by the events that were noticed."""
        if self._events != self._seen:
            return max(self._earliest, min(self._last + _QUIET, self._first + _LATEST))
        return self._regular

    def due_in(self, events: int, now: float) -> float:
        """Notice what is counted, and return the seconds until the next look; 0 or less: now."""
        self.notice(events, now)
        return self.due - now

    def done(self, events: int, began: float, ended: float, *, differed: bool) -> None:
        """A look is done, with *events* counted when it began."""
        self.failing = False
        self._seen = events
        self._events = max(self._events, events)
        self._first = ended
        self._in_a_row = self._in_a_row + 1 if differed else 0
        took = ended - began
        self._earliest = ended + (_SPACED if self._in_a_row >= _IN_A_ROW else took / _SHARE if not differed else 0)
        self._regular = ended + max(_REGULAR, took / _REGULAR_SHARE)

    def failed(self, now: float) -> None:
        """A look could not be done."""
        self.failing = True
        self._earliest = self._regular = now + _AGAIN
