# SPDX-License-Identifier: Apache-2.0
"""When each VIP is asked: a pool with many of them must not cost as many probes, nor may one be forgotten.

A backend's check asks its first VIP at each interval, and one other by turns: twice the probes of a single VIP. While the
first answers, others that failed lately are asked each time too, up to a limit, so that a failure is confirmed and a backend
that works again comes back as soon as with one VIP; and those that another backend fails, which shows whether it is its own
fault. VIPs of which nothing is known yet, such as after a start, are asked many at a time.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Protocol

from dnsteer.agent.health import CheckState
from dnsteer.agent.probes.question import Question
from dnsteer.agent.probes.stream import StreamProbe, refuse_unavailable
from dnsteer.agent.probes.targets import ProbeTarget, group_targets
from dnsteer.agent.probes.udp import Report, UdpProbe
from dnsteer.spec.health_checks import EffectiveQuery
from dnsteer.spec.model.health import CheckKind
from dnsteer.switch.agent_record import TargetKey

MAX_OTHERS = 3
"""VIPs other than the first that are asked at one interval."""
MAX_UNTESTED = 10
"""The same while there are VIPs of which nothing is known yet: 300 VIPs are known after 30 intervals."""


class Prober(Protocol):
    """Asks one target."""

    target: ProbeTarget

    def ask(self) -> None:
        """Ask once."""

    def stop(self) -> None:
        """End, without a further result."""


class KnownTargets(Protocol):
    """What is known of the targets."""

    @property
    def states(self) -> Mapping[TargetKey, CheckState]:
        """The state of each."""

    def is_untested(self, target: ProbeTarget) -> bool:
        """Whether it is not known yet whether it is healthy."""

    def is_awaited(self, target: ProbeTarget) -> bool:
        """Whether its next result shows if it is the fault of another backend that this one fails."""


class ProbeSchedule:
    """The probes of one backend by one check in one family, until `stop`."""

    def __init__(self, probes: Sequence[Prober], known: KnownTargets, loop: asyncio.AbstractEventLoop) -> None:
        self._first, self._others = probes[0], deque(probes[1:])
        self._known, self._loop = known, loop
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
        """The other VIP that was not asked for longest, and those of which more has to be known."""
        due, states = [self._others[0]], self._known.states
        if states[self._first.target.key].is_answering:
            others = [*islice(self._others, 1, None)]
            failed = (p for p in others if not states[p.target.key].steady)
            awaited = (p for p in others if states[p.target.key].steady and self._known.is_awaited(p.target))
            due += islice(chain(failed, awaited), MAX_OTHERS - 1)
            untested = (p for p in others if p not in due and self._known.is_untested(p.target))
            due += islice(untested, max(0, MAX_UNTESTED - len(due)))
        for probe in due:
            self._others.remove(probe)
            self._others.append(probe)
        return due


def make_probers(targets: Iterable[ProbeTarget], report: Report, loop: asyncio.AbstractEventLoop) -> list[list[Prober]]:
    """Return what asks each target; those of a group take turns."""
    questions: dict[EffectiveQuery, Question] = {}
    made: list[list[Prober]] = []
    for group in group_targets(targets):
        query = group[0].query
        question = questions.setdefault(query, Question(query))
        made.append(
            # Of several VIPs those that take turns keep no socket.
            [UdpProbe(target, question, report, loop, keep=target is group[0]) for target in group]
            if group[0].check.check is CheckKind.DNS
            else [StreamProbe(target, question, report, loop) for target in group]
        )
    return made


def probeable_targets(targets: Iterable[ProbeTarget]) -> tuple[ProbeTarget, ...]:
    """Return the targets whose check can be asked here: its library is there, and its query can be made."""
    can: dict[tuple[CheckKind, EffectiveQuery], bool] = {}
    found = []
    for target in targets:
        asks = target.check.check, target.query
        if asks not in can:
            try:
                refuse_unavailable({target.check.check})
                Question(target.query)
                can[asks] = True
            except Exception:  # noqa: BLE001  whatever the library makes of a text that nobody foresaw
                can[asks] = False
        if can[asks]:
            found.append(target)
    return tuple(found)


def start_probes(
    made: Iterable[list[Prober]], known: KnownTargets, loop: asyncio.AbstractEventLoop
) -> list[ProbeSchedule]:
    """Start them, spread over their intervals."""
    started = []
    for probers in made:
        turns = ProbeSchedule(probers, known, loop)
        turns.start(random.uniform(0, probers[0].target.check.interval))
        started.append(turns)
    return started


def stop_probes(probes: Iterable[ProbeSchedule]) -> None:
    """Stop them all, whatever becomes of one."""
    for turns in probes:
        with suppress(OSError, ValueError):
            turns.stop()
