# SPDX-License-Identifier: Apache-2.0
"""The smallest IPv4 fragment that the connection tracker of a running switch accepts: read, compare, set."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from dnsteer.plan.min_fragment import DATAPATH, DEFAULT, NAME, reading, setting
from dnsteer.switch.datapaths import actual_name
from dnsteer.switch.tools import NotPermittedError, SwitchError, UnavailableError
from dnsteer.switch.unixctl import Unixctl, control_socket

_FOUND = re.compile(r"min v4 frag size: (\d+)")
_PATIENCE = 5.0


@dataclass(frozen=True)
class Smallest:
    """Its current and wanted size in bytes. *now* is None if it cannot be read, for the reason *why*."""

    wanted: int
    now: int | None
    why: str = ""

    @property
    def differs(self) -> bool:
        return self.now not in (None, self.wanted)

    @property
    def todo(self) -> str:
        """What must change, in words."""
        return f"{NAME} {self.now} -> {self.wanted} bytes"

    @property
    def warning(self) -> str:
        """The warning that it cannot be read or set, and what to do; empty if it can."""
        if not self.why:
            return ""
        is_now = f"is {self.now} bytes" if self.now else f"is not known, and by default {DEFAULT} bytes"
        return (
            f"{NAME} {is_now}, and should be {self.wanted} ({self.why}): NAT answers in smaller fragments are lost; "
            f"run on the switch itself: dnsteer restore, or ovs-appctl {' '.join(setting(self.wanted))}"
        )


class Tracker:
    """The connection tracker in the userspace datapath of the ovs-vswitchd that uses the OVSDB at *remote*.

    It may take *timeout* seconds to answer, and at most 5. Raises SwitchError or its kinds where it cannot be reached.
    """

    def __init__(self, remote: str, timeout: float) -> None:
        self._remote = remote
        self._timeout = min(timeout, _PATIENCE)

    def read(self) -> int:
        """Return the size in bytes."""
        return _found_in(self._ask(reading))

    def set(self, size: int) -> None:
        """Set the size in bytes."""
        self._ask(partial(setting, size))

    def compare(self, size: int) -> Smallest:
        """Return the current size beside the wanted *size*. Raises nothing."""
        try:
            return Smallest(size, self.read())
        except SwitchError as err:
            return Smallest(size, None, str(err))

    def ensure(self, size: int) -> Smallest:
        """Set it to *size* if it differs. Returns what was there, with *why* if it could not be set. Raises nothing."""
        was = self.compare(size)
        if not was.differs:
            return was
        try:
            self.set(size)
        except SwitchError as err:
            return Smallest(size, was.now, str(err))
        return was

    def _ask(self, words: Callable[[str], list[str]]) -> str:
        """Run a command, of which *words* makes the arguments for the datapath of this name."""
        if not self._remote.startswith("unix:"):
            raise UnavailableError(f"ovs-vswitchd's control socket cannot be reached through {self._remote}")
        try:
            path = control_socket(self._remote)
        except UnavailableError:
            raise UnavailableError(f"there is no control socket of ovs-vswitchd next to {self._remote}") from None
        try:
            with Unixctl(path, self._timeout) as control:
                return control.run(*words(actual_name(control, DATAPATH)))
        except PermissionError as err:
            raise NotPermittedError(f"{err.filename}: {err.strerror}; run as root or as the owner") from None


def _found_in(text: str) -> int:
    found = _FOUND.search(text)
    if found is None:
        raise SwitchError(f"{reading()[0]} does not report {NAME}")
    return int(found[1])
