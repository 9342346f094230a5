"""Waiting until backends that are drained get no packets any more: connections that are kept, and flows not yet changed."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from dnsteer.deploy.target_switch import Progress, TargetSwitch
from dnsteer.status.report import Observer
from dnsteer.switch.tools import SwitchError

_INTERVAL = 1.0
"""Seconds over which packets are counted."""


def wait_until_quiet(
    switch: TargetSwitch, bridge: str, backends: Collection[tuple[str, str]], seconds: float, say: Progress
) -> dict[str, float | None]:
    """Wait until none of *backends*, pool and name, was sent a packet for a second, for *seconds* at most.

    Returns those that still were, each with its packets a second, None where that is not known; *say* tells of them
    meanwhile. Raises SwitchError.
    """
    observer = Observer(switch, bridge, interval=_INTERVAL, check=False)
    end, said = time.monotonic() + seconds, ""
    while True:
        status = observer.observe()
        if status.unreachable:
            raise SwitchError(f"whether packets still go there is unknown: {status.unreachable}")
        rates = {
            f"{pool.name}/{b.name}": b.rate.packets
            for pool in status.pools
            for b in pool.backends
            if (pool.name, b.name) in backends
        }
        busy = {name: rate for name, rate in rates.items() if rate != 0}
        if not busy or time.monotonic() >= end:
            return busy
        if busy_text(busy) != said:
            said = busy_text(busy)
            say(f"waiting: {said}")


def busy_text(busy: Mapping[str, float | None]) -> str:
    """Which backends still get packets, in words."""
    return ", ".join(
        f"{name} gets {rate:,.0f} packets/s" if rate is not None else f"{name}: packets are not counted"
        for name, rate in busy.items()
    )
