# SPDX-License-Identifier: Apache-2.0
"""How many queries of a probe may be under way: no more than the raw sockets of the lab's switch hold."""

from __future__ import annotations

import time
from collections import deque

OVERTAKEN = 0.02
"""A query is lost when one that was sent so many seconds later is answered."""
STUCK = 0.15
"""A query is lost, or as good as, when nothing at all is answered for so many seconds after it."""


class Window:
    """Which queries count as under way: those that were sent, are not answered and do not look lost. Keys name them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sent: deque[tuple[float, int]] = deque()
        self._open: dict[int, float] = {}
        self._newest_answered = 0.0

    def room(self) -> bool:
        """Whether one more may be sent now."""
        lost = max(self._newest_answered - OVERTAKEN, time.monotonic() - STUCK)
        while self._sent and (self._sent[0][0] < lost or self._open.get(self._sent[0][1]) != self._sent[0][0]):
            at, key = self._sent.popleft()
            if self._open.get(key) == at:
                del self._open[key]
        return len(self._open) < self._limit

    def sent(self, key: int) -> float:
        """Note that *key* was sent now, and return the time."""
        now = time.monotonic()
        self._sent.append((now, key))
        self._open[key] = now
        return now

    def answered(self, key: int) -> None:
        """Note that *key* has its answer."""
        self._newest_answered = max(self._newest_answered, self._open.pop(key, 0.0))
