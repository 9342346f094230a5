"""Follow keepalived: what it writes to its notify FIFO is the role of the switch, in order.

Scripts that keepalived starts for each transition run beside each other, so that an earlier one may end last. The FIFO has
one reader, which lives as long as keepalived does: when that ends, by itself or killed, the peer takes over, and this switch
stands by.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TextIO

from dnsteer.switch.role import RoleName
from dnsteer.switch.tools import SwitchError

_LINE = re.compile(r'(?:INSTANCE|GROUP) "([^"]*)" (\S+)')
ROLES: dict[str, RoleName] = {
    "MASTER": "active", "BACKUP": "standby", "FAULT": "standby", "STOP": "standby", "DELETED": "standby",
}  # fmt: skip
"""The role for each state of VRRP. keepalived writes other words too, which are none."""
_AGAIN = 1.0
"""Seconds until a role that the switch did not take is tried again."""

Take = Callable[[RoleName], None]
"""Gives the switch a role. Raises SwitchError or PermissionError."""


def role_in(line: str, instance: str | None) -> RoleName | None:
    """The role that a line means, None where it is about another instance (or none is named), or none."""
    found = _LINE.match(line)
    return ROLES.get(found[2]) if found is not None and instance in (None, found[1]) else None


def follow(lines: TextIO, instance: str | None, take: Take, failed: Callable[[str], None]) -> None:
    """Give the switch the last role that was written, until *lines* end; then it stands by. *failed* gets what fails."""
    queue: SimpleQueue[RoleName | None] = SimpleQueue()

    def read() -> None:
        for line in lines:
            if (role := role_in(line, instance)) is not None:
                queue.put(role)
        queue.put(None)

    Thread(target=read, daemon=True).start()
    due: RoleName | None = None
    said = ""
    try:
        while True:
            for role in _waiting(queue, None if due is None else _AGAIN):
                if role is None:
                    return
                due = role
            if due is None:
                continue
            try:
                take(due)
                due, said = None, ""
            except (SwitchError, PermissionError) as err:
                if str(err) != said:
                    said = str(err)
                    failed(f"not {due} yet: {said}")
    finally:
        _stand_by(take, failed)


def _waiting(queue: SimpleQueue[RoleName | None], patience: float | None) -> Iterator[RoleName | None]:
    """Wait for a role, for so many seconds, and yield all that there are then."""
    try:
        yield queue.get(timeout=patience)
        while True:
            yield queue.get_nowait()
    except Empty:
        pass


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
