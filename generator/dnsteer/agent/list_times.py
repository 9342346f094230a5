# SPDX-License-Identifier: Apache-2.0
"""When files that change are read: once they are quiet, and never too often."""

from __future__ import annotations

from math import inf

QUIET = 1.0
"""Seconds without a change after which files are read: a writer may take several steps."""
LONGEST = 10.0
"""Seconds after which they are read although they go on changing, if nothing longer is asked for."""


class ListTimes:
    """Times are in seconds of one steady clock."""

    def __init__(self) -> None:
        self._seen: object = None
        self._read: object = None
        self._first = self._last = 0.0
        self._earliest = -inf
        self._again = inf

    def forget(self) -> None:
        """Other files are followed, or for another state: they are to be read."""
        self._seen = self._read = None
        self._again = inf

    def notice(self, stamp: object, now: float) -> None:
        """The files have this *stamp* now."""
        if stamp == self._seen:
            return
        if self._seen == self._read:
            self._first = now
        self._seen, self._last = stamp, now

    def is_quiet(self, now: float) -> bool:
        """Whether nothing has changed for a while."""
        return now >= self._last + QUIET

    def is_due(self, now: float, every: float) -> bool:
        """Whether the files are to be read now, of which a change may be applied *every* so many seconds."""
        if now < self._earliest + every:
            return False
        if self._seen == self._read:
            return now >= self._again
        return self.is_quiet(now) or now >= self._first + max(every, LONGEST)

    def read(self) -> None:
        """They are read now."""
        self._read, self._again = self._seen, inf

    def again(self, time: float) -> None:
        """They are to be read again at this time, also if they do not change."""
        self._again = time

    def applied(self, now: float) -> None:
        """A change was applied."""
        self._earliest = now
