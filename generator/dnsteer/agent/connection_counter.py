# SPDX-License-Identifier: Apache-2.0
"""Counts the connections that the tracker keeps, for all who want to know, and says when a drained backend has none left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from dnsteer.agent.followed_state import FollowedState
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.metrics.observer import AgentObserver
from dnsteer.slots.maintenance import DRAINED, Overlay
from dnsteer.spec import derived
from dnsteer.status.kept_connections import COUNT_INTERVAL, KeptConnections, count_kept
from dnsteer.switch.tools import SwitchError

_SHARE = 0.05
"""Share of the time that counting may take: it holds up ovs-vswitchd's main thread."""
_TICK = 1.0
_TROUBLE = "the count of connections"


class ConnectionCounter:
    """Counts the connections of one bridge, every 10 s at most."""

    def __init__(self, switch: TargetSwitch, observer: AgentObserver) -> None:
        self._switch, self._observer = switch, observer
        self._empty: set[tuple[str, str]] | None = None
        """Drained backends that had no connection at the last count; None: nothing was counted yet."""

    async def run(self, known: Callable[[], tuple[FollowedState, Overlay] | None]) -> None:
        """Count until cancelled. *known* is what is applied with its overlay; None while another agent acts."""
        counted = False
        while True:
            pause = _TICK
            found = known()
            if found is not None and derived.keeps_connections(found[0].spec):
                began = time.monotonic()
                counted = await self._count(*found)
                pause = max(COUNT_INTERVAL, (time.monotonic() - began) / _SHARE)
            elif counted:
                counted, self._empty = False, None
                self._observer.connections_counted(None)
                self._observer.forget_troubles(_TROUBLE)
            await asyncio.sleep(pause)

    async def _count(self, followed: FollowedState, overlay: Overlay) -> bool:
        try:
            found = await asyncio.to_thread(count_kept, self._switch, followed.spec, followed.state.members)
        except (SwitchError, OSError) as err:
            self._observer.report_trouble(_TROUBLE, f"the connections that are kept cannot be counted: {err}")
            self._observer.connections_counted(None)
            return True
        self._observer.end_trouble(_TROUBLE, "the connections that are kept are counted")
        self._observer.connections_counted(found)
        if found is not None and found.is_counted:
            self._note_empty(found, overlay)
        return True

    def _note_empty(self, found: KeptConnections, overlay: Overlay) -> None:
        """Say which drained backends have lost their last connection since the count before."""
        # The overlay was known before the count: no connection began after it.
        empty = {name for name, n in found.by_backend.items() if not n and _is_drained(*name, overlay)}
        # Of an agent that has just begun it is not known what was said before.
        for pool, backend in sorted(empty - (self._empty if self._empty is not None else empty)):
            self._observer.drain_ended(pool, backend)
        self._empty = empty


def _is_drained(pool: str, backend: str, overlay: Overlay) -> bool:
    """Whether a backend is drained to the end."""
    return any(
        entry.kind == "drain" and entry.backend == backend and entry.gone >= DRAINED for entry in overlay.of(pool)
    )
