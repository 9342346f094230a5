# SPDX-License-Identifier: Apache-2.0
"""Ids of decisions: by its id all that is told of a change is found, in the log, the record, metrics and on pages.

An id is 12 characters, 0-9 and a-z without i, l, o and u (Crockford's base 32): 42 bits of milliseconds since 1970, then 18
bits that are random. So ids sort by time, until the year 2109. Those of one process never repeat or go back: where the
time alone would not tell, the next number is taken.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
LENGTH = 12
"""Characters of an id."""
_RANDOM = 18


class Ids:
    """Makes ids, in any thread. *clock* gives milliseconds since 1970, *random* so many random bits."""

    def __init__(
        self,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        random: Callable[[int], int] = lambda bits: int.from_bytes(os.urandom(4), "big") >> (32 - bits),
    ) -> None:
        self._clock, self._random = clock, random
        self._last = -1
        self._lock = threading.Lock()

    def next(self) -> str:
        """Return a new id, greater than those before it."""
        with self._lock:
            made = (max(self._clock(), 0) << _RANDOM) | self._random(_RANDOM)
            self._last = max(made, self._last + 1) % (1 << 5 * LENGTH)
            return encode_id(self._last)


def encode_id(number: int) -> str:
    """A number as an id."""
    return "".join(_DIGITS[number >> 5 * place & 31] for place in reversed(range(LENGTH)))


IDS = Ids()
"""Ids of the decisions of this process."""
DECISION: ContextVar[str] = ContextVar("decision", default="")
"""The decision that is being carried out."""


def decision_id() -> str:
    """Return the id of the decision that is being carried out; a new one where none is."""
    return DECISION.get() or IDS.next()


@contextmanager
def deciding(decision: str) -> Iterator[None]:
    """In this context *decision* is carried out."""
    token = DECISION.set(decision)
    try:
        yield
    finally:
        DECISION.reset(token)
