# SPDX-License-Identifier: Apache-2.0
"""Who a verb is carried out for, where that is not the user of this process: the agent does verbs for others."""

from __future__ import annotations

import os
import pwd
import socket
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class PreviewedRecord:
    """What a verb rests on. *expected* is the fingerprint of the record that was previewed; empty for the preview itself.

    *found* is the fingerprint of the record that the verb found first, *outdated* whether it was another than expected.
    """

    expected: str = ""
    found: str = ""
    outdated: bool = False


@dataclass(frozen=True)
class Caller:
    """The *name* of who asked, as user@host. *pause* waits so many seconds, or raises SwitchError when the agent ends.

    *previewed* is the record that a preview was made on, where there was one.
    """

    name: str
    pause: Callable[[float], None]
    previewed: PreviewedRecord | None = None


CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)


def pause(seconds: float) -> None:
    """Wait, between two steps of something that may be left as it is. Raises SwitchError when it must be."""
    caller = CALLER.get()
    (caller.pause if caller is not None else time.sleep)(seconds)


def operator_name() -> str:
    """Return the operator as user@host, for the record."""
    caller = CALLER.get()
    if caller is not None and caller.name:
        return caller.name
    name = os.environ.get("SUDO_USER") or os.environ.get("LOGNAME")
    if not name:
        try:
            name = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"


def agent_name() -> str:
    """Return who has made a change that the agent decided about by itself, for the record: no person's name."""
    return f"agent@{socket.gethostname()}"
