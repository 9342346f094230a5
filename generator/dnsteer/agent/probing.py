"""The probes of an applied state: made before anything of the state before it is given up."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from contextlib import suppress

from dnsteer.agent.probes.question import Question
from dnsteer.agent.probes.stream import StreamProbe, refuse_unavailable
from dnsteer.agent.probes.targets import ProbeTarget, rounds
from dnsteer.agent.probes.turns import KnownTargets, Prober, Turns
from dnsteer.agent.probes.udp import Report, UdpProbe
from dnsteer.spec.health_checks import EffectiveQuery
from dnsteer.spec.model.health import CheckKind


def make_probers(targets: Iterable[ProbeTarget], report: Report, loop: asyncio.AbstractEventLoop) -> list[list[Prober]]:
    """Return what asks each target; those of a group take turns."""
    questions: dict[EffectiveQuery, Question] = {}
    made: list[list[Prober]] = []
    for group in rounds(targets):
        query = group[0].query
        question = questions.setdefault(query, Question(query))
        made.append(
            # Of several VIPs those that take turns keep no socket.
            [UdpProbe(target, question, report, loop, keep=target is group[0]) for target in group]
            if group[0].check.check is CheckKind.DNS
            else [StreamProbe(target, question, report, loop) for target in group]
        )
    return made


def askable(targets: Iterable[ProbeTarget]) -> tuple[ProbeTarget, ...]:
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


def start_probes(made: Iterable[list[Prober]], known: KnownTargets, loop: asyncio.AbstractEventLoop) -> list[Turns]:
    """Start them, spread over their intervals."""
    started = []
    for probers in made:
        turns = Turns(probers, known, loop)
        turns.start(random.uniform(0, probers[0].target.check.interval))
        started.append(turns)
    return started


def stop_probes(probes: Iterable[Turns]) -> None:
    """Stop them all, whatever becomes of one."""
    for turns in probes:
        with suppress(OSError, ValueError):
            turns.stop()
