"""How long the zone of each backend has been behind the newest of its pool (`serial_lag`)."""

from __future__ import annotations

from collections.abc import Container

from dnsteer.agent.probes.question import is_before

_MAX_KEPT = 256
"""Serials of which it is known when they were first seen: of a zone that changes each second, four minutes exactly."""


class Serials:
    """The serials that the targets of one check of one pool answer, and when each was first seen. Times in seconds."""

    def __init__(self) -> None:
        self._now: dict[object, int] = {}
        """The last answer of each target."""
        self._first_seen: dict[int, float] = {}

    def lag(self, target: object, serial: int, time: float) -> tuple[int, float]:
        """Take an answer. Return the newest serial that a target has now, and since how long this one is behind.

        That is the time since the first serial after its own was seen; 0 where there is none.
        """
        before = self._now.get(target, serial)
        self._now[target] = newest = serial
        for other in self._now.values():
            newest = other if is_before(newest, other) else newest
        if is_before(serial, before):  # it was set back
            for seen in [s for s in self._first_seen if is_before(newest, s)]:
                del self._first_seen[seen]
        self._first_seen.setdefault(serial, time)
        if len(self._first_seen) > _MAX_KEPT:
            del self._first_seen[min(self._first_seen, key=self._first_seen.__getitem__)]
        later = (at for s, at in self._first_seen.items() if is_before(serial, s) and not is_before(newest, s))
        return newest, time - min(later, default=time)

    def keep(self, targets: Container[object]) -> None:
        """Know only these targets from now on."""
        self._now = {target: serial for target, serial in self._now.items() if target in targets}

    def forget(self, target: object) -> None:
        """Know a target's serial no longer: it has failed, and does not make others late."""
        self._now.pop(target, None)
