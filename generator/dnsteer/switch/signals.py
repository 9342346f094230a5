# SPDX-License-Identifier: Apache-2.0
"""Requests to end (Ctrl-C, SIGTERM): deferred where something would be left behind, and passed on to child processes."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a program to end."""

_PR_SET_PDEATHSIG = 1
_PRCTL = ctypes.CDLL(None).prctl  # looked up here, because little is safe between fork and exec


_blocks: list[None] = []  # one for each defer_signals that is under way


@contextmanager
def defer_signals() -> Iterator[list[int]]:
    """Defer requests to end until after the block, then obey the first. Yields those that came."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came  # Python handles signals in the main thread only
        return

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    before: dict[signal.Signals, Any] = {}
    try:
        for number in ENDING:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, note)
        _blocks.append(None)
        yield came
    finally:
        del _blocks[-1:]
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def signals_deferred() -> bool:
    """Whether requests to end are deferred now."""
    return bool(_blocks)


def ends_with_parent(number: signal.Signals, *, ignore_signals: bool = False) -> Callable[[], None]:
    """For a child between fork and exec: get the signal when the parent dies, even by kill -9.

    With *ignore_signals* it ignores requests to end: a terminal sends them to children too. The kernel looks at the thread
    that started the child, so start it in one that lasts.
    """
    parent = os.getpid()

    def prepare() -> None:
        for request in ENDING if ignore_signals else ():
            signal.signal(request, signal.SIG_IGN)
        _PRCTL(_PR_SET_PDEATHSIG, int(number))
        if os.getppid() != parent:  # gone before the line above
            os.kill(os.getpid(), signal.SIGKILL)

    return prepare
