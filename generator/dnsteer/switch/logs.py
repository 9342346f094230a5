"""Warnings in the logs of Open vSwitch's daemons: real problems, or only a slow machine."""

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
    """Whether a log line only says that a daemon had to wait: for the CPU, a disk, or while it was stopped."""
    dropped = _DROPPED.search(line)
    if dropped:
        return dropped[1] in _SPEED_MODULES
    return bool(_SPEED.search(line))


def sort_out(lines: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the warnings about real problems, and those about a slow machine."""
    wrong: list[str] = []
    slow: list[str] = []
    for line in lines:
        (slow if is_of_speed(line) else wrong).append(line)
    return wrong, slow
