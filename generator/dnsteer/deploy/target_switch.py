"""Which switch a verb works on, and who asks for it: what all changes share."""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from dnsteer.slots.maintenance import Overlay
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.tools import SwitchError, UnavailableError, openflow_target

GRACE = 2.0
"""Seconds that the flows of the way back stay for the answers of a NAT backend that leaves. Resolvers wait about as long."""

Progress = Callable[[str], None]
"""Takes a line about what is being done."""
Confirm = Callable[[list[str], list[str]], None]
"""Takes reasons to ask the operator whether to go on, and what would change, in words; raises when not."""
SWITCH_CHANGED = "the switch has changed in the meantime; reading it again"
WAITS = "flow-restore-wait is set: the switch does not forward until it is cleared: dnsteer restore"


@dataclass(frozen=True)
class TargetSwitch:
    """A running switch: its OVSDB, maybe the bridge's OpenFlow, and how long it may take to answer, in seconds.

    *extension* is the control socket of the extension, where it is not the spec's.
    """

    remote: str
    openflow: str | None = None
    timeout: float = 10
    extension: str | None = None

    def client(self, bridge: str) -> OpenFlow:
        """The bridge's OpenFlow."""
        return OpenFlow(openflow_target(self.remote, bridge, self.openflow), timeout=self.timeout)


def silent(_: str) -> None:
    """Progress for nobody."""


def now() -> datetime:
    """The time, in UTC and whole milliseconds."""
    time = datetime.now(timezone.utc)
    return time.replace(microsecond=time.microsecond // 1000 * 1000)


def stamp(time: datetime) -> str:
    """A time as it is recorded."""
    return time.isoformat(timespec="milliseconds" if time.microsecond else "seconds")


def operator_name() -> str:
    """The person who runs this, and the machine."""
    name = os.environ.get("SUDO_USER") or os.environ.get("LOGNAME")
    if not name:
        try:
            name = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"


def merged_error(failed: Sequence[SwitchError], more: Iterable[str] = ()) -> SwitchError:
    """Several failures as one error, with what else there is to say; of the kind of the first."""
    kind = UnavailableError if isinstance(failed[0], UnavailableError) else SwitchError
    return kind("; ".join([*map(str, failed), *more]))


def expire(overlay: Overlay, time: datetime) -> Overlay:
    """The overlay without what is over."""
    return overlay.without(a for a in overlay if a.expired(time))
