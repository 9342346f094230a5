# SPDX-License-Identifier: Apache-2.0
"""Waits until backends that were taken out serve nobody: no packet goes to them, and no connection is kept."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dnsteer.deploy.target_switch import Progress, TargetSwitch
from dnsteer.deploy.times import now
from dnsteer.status.switch_observer import SwitchObserver
from dnsteer.status.switch_status import Status
from dnsteer.switch.connection_counts import MOST
from dnsteer.switch.tools import SwitchError

_QUIET_INTERVAL = 1.0
"""Seconds over which packets are counted."""


@dataclass(frozen=True)
class Busy:
    """What a backend still has: packets a second and open connections, None where that is not known.

    *waits*: the connections were not counted yet since the wait began. *over*: there are too many to count by backend.
    """

    packets: float | None
    connections: int | None = 0
    waits: bool = False
    over: bool = False

    @property
    def text(self) -> str:
        """In words, after the backend's name."""
        parts = []
        if self.packets != 0:
            parts.append("packets are not counted" if self.packets is None else f"gets {self.packets:,.0f} packets/s")
        if self.over:
            parts.append(f"over {MOST:,} connections of the switch, not counted by backend")
        elif self.connections is None:
            parts.append("connections are not counted yet" if self.waits else "connections are not counted")
        elif self.connections:
            parts.append(f"{self.connections:,} open connection{'s' if self.connections != 1 else ''}")
        return " and ".join(parts)

    def as_json(self) -> dict[str, float | int | None]:
        """As a JSON object."""
        return {"packets_per_second": self.packets, "connections": self.connections}


def wait_until_quiet(
    switch: TargetSwitch, bridge: str, backends: Collection[tuple[str, str]], seconds: float, say: Progress
) -> dict[str, Busy]:
    """Wait until none of *backends*, pool and name, was sent a packet for a second or has a connection that is kept, for
    *seconds* at most.

    Returns those that still were or have; *say* tells of them meanwhile. Raises SwitchError.
    """
    observer = SwitchObserver(switch, bridge, interval=_QUIET_INTERVAL, check=False, lists=False)
    end, said, began = time.monotonic() + seconds, "", now()
    while True:
        status = observer.observe()
        if status.unreachable:
            raise SwitchError(f"whether packets still go there is unknown: {status.unreachable}")
        fresh = status.connections is not None and status.connections.time >= began
        keeps = {m.pool for m in (status.reading.state.members if status.reading.state else ()) if m.keeps}
        busy: dict[str, Busy] = {}
        for pool in status.pools:
            for b in pool.backends:
                if (pool.name, b.name) not in backends:
                    continue
                name, packets = f"{pool.name}/{b.name}", b.rate.packets
                one = Busy(packets)
                if pool.name in keeps:
                    one = _with_connections(packets, status, pool.name, b.name, fresh=fresh)
                if one != Busy(0) and (name not in busy or packets):
                    busy[name] = one
        if not busy or time.monotonic() >= end:
            return busy
        if busy_text(busy) != said:
            said = busy_text(busy)
            say(f"waiting: {said}")


def _with_connections(packets: float | None, status: Status, pool: str, backend: str, *, fresh: bool) -> Busy:
    found = status.connections
    if found is None:
        return Busy(packets, None)
    if not found.is_counted:
        return Busy(packets, None, over=True)
    if not fresh:  # a connection may have begun after the count
        return Busy(packets, found.by_backend.get((pool, backend)) or None, waits=True)
    return Busy(packets, found.by_backend.get((pool, backend), 0))


def busy_text(busy: Mapping[str, Busy]) -> str:
    """Which backends still serve somebody, in words."""
    return ", ".join(f"{name}{':' if one.packets in (0, None) else ''} {one.text}" for name, one in busy.items())
