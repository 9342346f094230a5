"""When each VIP is asked: a pool with many of them must not cost as many probes, nor may one be forgotten.

A backend's check asks its first VIP at each interval, and one other by turns: twice the probes of a single VIP. Others that
failed lately are asked each time too, up to a limit, while the first answers, so that a failure is confirmed and a backend
that works again comes back as soon as with one VIP.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Protocol

from dnsteer.agent.health import CheckState
from dnsteer.agent.probes.targets import Key, ProbeTarget

MAX_OTHERS = 3
"""VIPs other than the first that are asked at one interval."""


class Prober(Protocol):
    """Asks one target."""

    target: ProbeTarget

    def ask(self) -> None:
        """Ask once."""

    def stop(self) -> None:
        """End, without a further result."""


class Turns:
    """The probes of one backend by one check in one family, until `stop`. *states* has what is known of each target."""

    def __init__(
        self, probes: Sequence[Prober], states: Mapping[Key, CheckState], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._first, self._others = probes[0], deque(probes[1:])
        self._states, self._loop = states, loop
        self._timer: asyncio.TimerHandle | None = None

    def start(self, delay: float) -> None:
        """Begin after *delay* seconds."""
        self._timer = self._loop.call_later(delay, self._next)

    def stop(self) -> None:
        """End, without a further result."""
        if self._timer is not None:
            self._timer.cancel()
        for probe in (self._first, *self._others):
            probe.stop()

    def _next(self) -> None:
        check, timeout = self._first.target.check, self._first.target.timeout
        spread = check.interval * check.jitter / 100
        # Not before the time-out, whatever the jitter: each probe has its full time.
        pause = max(timeout, check.interval + random.uniform(-spread, spread))
        self._timer = self._loop.call_later(pause, self._next)
        for probe in self._others_due() if self._others else ():
            probe.ask()
        self._first.ask()

    def _others_due(self) -> list[Prober]:
        """The other VIP that was not asked for longest, and those that failed lately."""
        due = [self._others[0]]
        if self._states[self._first.target.key].answers:
            failed = (p for p in islice(self._others, 1, None) if not self._states[p.target.key].steady)
            due += islice(failed, MAX_OTHERS - 1)
        for probe in due:
            self._others.remove(probe)
            self._others.append(probe)
        return due
