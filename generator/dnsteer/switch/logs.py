"""What the logs of Open vSwitch's daemons complain of: something wrong, or only that the machine gave them no time."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SPEED = re.compile(
    r"\|timeval(\([^|]*\))?\|WARN\|"  # a round of a thread's main loop that took too long, and what it used meanwhile
    r"|\|ovs_rcu(\([^|]*\))?\|WARN\|blocked \d+ ms waiting for "
    r"|\|WARN\|Spent an unreasonably long \d+ms dumping flows"
    r"|no response to inactivity probe after "
)
_DROPPED = re.compile(r"\|([a-z_]+)(\([^|]*\))?\|WARN\|Dropped \d+ log messages in last ")
_SPEED_MODULES = ("timeval", "ovs_rcu")


def is_of_speed(line: str) -> bool:
    """Whether a line of a log tells only that a daemon had to wait: for the CPU, for a disk, or since it was stopped."""
    dropped = _DROPPED.search(line)
    if dropped:
        return dropped[1] in _SPEED_MODULES
    return bool(_SPEED.search(line))


def sort_out(lines: Iterable[str]) -> tuple[list[str], list[str]]:
    """Complaints about something wrong, and those of the machine's speed."""
    wrong: list[str] = []
    slow: list[str] = []
    for line in lines:
        (slow if is_of_speed(line) else wrong).append(line)
    return wrong, slow
