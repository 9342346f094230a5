# SPDX-License-Identifier: Apache-2.0
"""Readings of the switch for one page: how often they are made, how long a page waits for one, and defects in them."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.switch.tools import SwitchError
from dnsteer.switch.unixctl import Unixctl, control_socket

SHARE = 0.02
"""The part of a core that each of the readings may take: that of counters, and those of the pages Offload and Path."""
WAIT = 0.3
"""Seconds that a page waits for a reading of its own: it is to be painted within a second, and shows it when it comes."""


def next_pause(cost: float, least: float, most: float) -> float:
    """Seconds from one reading to the next, within bounds. *cost* is what one takes, in seconds of a core."""
    return max(least, min(cost / SHARE, most))


async def wait_for_reading(reading: asyncio.Future[Any]) -> None:
    """Wait for a reading that is under way, as long as a page may."""
    await asyncio.wait([reading], timeout=WAIT)


def connect_vswitchd(switch: TargetSwitch) -> Unixctl:
    """Connect to the control socket of ovs-vswitchd; the caller closes the connection.

    Raises SwitchError where it is on another machine, UnavailableError where nothing answers.
    """
    if not switch.remote.startswith("unix:"):
        raise SwitchError(
            "this is read through the control socket of ovs-vswitchd, which only an agent on the switch itself reaches; "
            f"this agent works through {switch.remote}"
        )
    return Unixctl(control_socket(switch.remote), switch.timeout)


class Defect(NamedTuple):
    """An exception: what it says, and the *place* in the code that raised it."""

    text: str
    place: str

    def __str__(self) -> str:
        return f"{self.text} ({self.place})"


class DefectError(Exception):
    """A page cannot be made because of a defect that was met before."""

    def __init__(self, defect: Defect) -> None:
        super().__init__(str(defect))
        self.defect = defect


def defect_of(err: Exception) -> Defect:
    """The defect of an exception."""
    if isinstance(err, DefectError):
        return err.defect
    frames = traceback.extract_tb(err.__traceback__)
    place = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else "unknown place"
    return Defect(traceback.format_exception_only(err)[-1].strip(), place)


class Defects:
    """Logs each defect once: by its place, since its text may differ from packet to packet."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._said: set[str] = set()

    def page(self, key: str, err: Exception) -> Defect:
        """Return the defect of an exception that ended the making of the page *key*; log it if it is new."""
        return self.record(f"the page {key.partition('?')[0]} cannot be made", err)

    def record(self, what: str, err: Exception) -> Defect:
        """Return the defect of an exception; log it, with *what* fails because of it, if it is new."""
        defect = defect_of(err)
        if defect.place not in self._said:
            self._said.add(defect.place)
            self._log(f"a defect of the console: {what}: {defect}")
        return defect
