# SPDX-License-Identifier: Apache-2.0
"""Follow keepalived: what it writes to its notify FIFO is the role of the switch, in order.

Scripts that keepalived starts for each transition run beside each other, so that an earlier one may end last. The FIFO has
one reader. When keepalived ends, by itself or killed, the peer takes over, and this switch stands by. When it is reloaded it
ends its reader and starts another one, and does not say again what it is: the role stays.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TextIO

from dnsteer.switch.role import RoleName
from dnsteer.switch.signals import defer_signals
from dnsteer.switch.tools import SwitchError

_LINE = re.compile(r'(?:INSTANCE|GROUP) "([^"]*)" (\S+)')
_STOP = "STOP"
"""The last state that keepalived writes, while it waits for its scripts to end, for a second at most."""
ROLES: dict[str, RoleName] = {
    "MASTER": "active",
    "BACKUP": "standby",
    "FAULT": "standby",
    _STOP: "standby",
    "DELETED": "standby",
}
"""The role for each state of VRRP. keepalived writes other words too, which are none."""
_AGAIN = 1.0
"""Seconds until a role that the switch did not take is tried again."""
_LINGER = 0.8
"""Seconds after the last line in which keepalived may be found to have ended: after one, it kills what it was to end."""

Take = Callable[[RoleName], None]
"""Gives the switch a role. Raises SwitchError or PermissionError."""


def state_in(line: str, instance: str | None) -> str:
    """The state that a line is about, empty where it is about another instance (or none is named), or has none."""
    found = _LINE.match(line)
    return found[2] if found is not None and instance in (None, found[1]) and found[2] in ROLES else ""


def follow(lines: TextIO, instance: str | None, take: Take, failed: Callable[[str], None]) -> None:
    """Give the switch the last role that was written, until *lines* end. *failed* gets what fails.

    Where keepalived has ended too it stands by. Requests to end alone do not end it: keepalived, and systemd for it, send
    some before the last state is written.
    """
    keepalived = os.getppid()
    queue: SimpleQueue[str] = SimpleQueue()
    Thread(target=_read, args=(lines, instance, queue), daemon=True).start()
    with defer_signals():
        if _take_all(queue, take, failed) or _has_ended(keepalived):
            _stand_by(take, failed)


def _read(lines: TextIO, instance: str | None, queue: SimpleQueue[str]) -> None:
    """Queue the states of *lines*, up to the last one, and an empty one at their end."""
    try:
        for line in lines:
            if state := state_in(line, instance):
                queue.put(state)
            if state == _STOP:
                return  # a file that is being read cannot be closed
    finally:
        queue.put("")


def _take_all(queue: SimpleQueue[str], take: Take, failed: Callable[[str], None]) -> bool:
    """Give the switch the role of the last state that there is, until they end. Return whether keepalived says that it
    stops."""
    due: RoleName | None = None
    said = ""
    while True:
        states = list(_waiting(queue, None if due is None else _AGAIN))
        if _STOP in states:
            return True
        for state in filter(None, states):
            due = ROLES[state]
        if due is not None:
            try:
                take(due)
                due, said = None, ""
            except (SwitchError, PermissionError) as err:
                if str(err) != said:
                    said = str(err)
                    failed(f"not {due} yet: {said}")
        if "" in states:
            return False


def _waiting(queue: SimpleQueue[str], patience: float | None) -> Iterator[str]:
    """Wait for a state, for so many seconds, and yield all that there are then."""
    try:
        yield queue.get(timeout=patience)
        while True:
            yield queue.get_nowait()
    except Empty:
        pass


def _has_ended(keepalived: int) -> bool:
    """Whether keepalived, which has closed its FIFO, ends too: only then this process gets another parent."""
    deadline = time.monotonic() + _LINGER
    while os.getppid() == keepalived:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _stand_by(take: Take, failed: Callable[[str], None]) -> None:
    deadline = time.monotonic() + _AGAIN
    while True:
        try:
            take("standby")
            return
        except (SwitchError, PermissionError) as err:
            if time.monotonic() > deadline:
                failed(f"keepalived has ended, and the switch is not on standby: {err}")
                return
        time.sleep(_AGAIN / 5)
