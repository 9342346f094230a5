"""Which backends the agent takes out of a pool and brings back: a pure function of health, the overlay and the time.

The overlay that is recorded is all that it remembers, so an agent that is started again goes on where the last one was.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from dnsteer.slots.maintenance import DRAINED, Maintenance

STEPS = 20
"""Steps in which a backend gets its slots back, where its slow start is long enough: at most one a second."""


@dataclass(frozen=True)
class PoolRules:
    """What decides for a pool. *backends* are those with a weight that the spec does not have down.

    *panic* is a share, 0 to 1; *slow_start* is in seconds. *standby* are the backends of the pool's backup with the weights
    that they join with while fewer than *below* of its own are in service. *service* is the only one with these
    rules, such as `853/tcp`; empty: all that have no slots of their own.
    """

    pool: str
    backends: Collection[str]
    panic: float
    slow_start: float
    standby: Mapping[str, int] = field(default_factory=dict)
    below: int = 0
    service: str = ""


@dataclass(frozen=True)
class Decision:
    """The pool's entries of health, and of its backup, as they should be.

    *panics*: too many are unhealthy, so nobody is out for it. *waiting* are healthy backends that come back only after
    another one has: one at a time.
    """

    entries: tuple[Maintenance, ...]
    panics: bool = False
    waiting: tuple[str, ...] = ()


def decide(
    rules: PoolRules, overlay: Sequence[Maintenance], unhealthy: Mapping[str, str], by: str, now: datetime
) -> Decision:
    """Return what should be, given the pool's part of the *overlay* and the *unhealthy* backends, each with the reason.

    All failures count at once. Of those that are healthy again one comes back at a time, and none in the moment of a
    failure, unless more would be out than may be. Maintenance by people is left alone: a backend that they have out does
    not count for the panic threshold.
    """
    health = [entry for entry in overlay if entry.kind == "health" and entry.service == rules.service]
    ours = {entry.backend: entry for entry in health if entry.backend in rules.backends}
    by_people = {entry.backend for entry in overlay if entry.kind in ("drain", "down")}
    counted = [name for name in rules.backends if name not in by_people]
    most = rules.panic * len(counted)
    if sum(name in unhealthy for name in counted) > most:
        return Decision((), panics=True)
    out = list[Maintenance]()
    fails = False
    for entry in ours.values():
        if entry.backend in unhealthy and (entry.returns or entry.gone < DRAINED):
            entry = replace(entry, gone=DRAINED, over=0, returns="", note=unhealthy[entry.backend], since=_stamp(now))
            fails = True
        out.append(entry)
    for name, why in unhealthy.items():
        if name in rules.backends and name not in ours:
            out.append(Maintenance(rules.pool, name, "health", _stamp(now), by, why, service=rules.service))
            fails = True
    recovered = [entry for entry in out if entry.backend not in unhealthy]
    while recovered and sum(entry.backend in counted for entry in out) > most:
        out.remove(recovered.pop(0))
    if fails or not recovered:
        return Decision(tuple(out), waiting=tuple(entry.backend for entry in recovered))
    first = next((entry for entry in recovered if entry.returns), recovered[0])
    back = returning(first, rules.slow_start, now)
    entries = tuple(back if entry is first else entry for entry in out)
    return Decision(
        tuple(entry for entry in entries if entry is not None),
        waiting=tuple(entry.backend for entry in recovered if entry is not first),
    )


def returning(entry: Maintenance, slow_start: float, now: datetime) -> Maintenance | None:
    """Return the entry of a backend that gets its slots back, with its progress; None when it has them all.

    It is one step at most, however much time has passed: the clock may have been set.
    """
    began = entry if entry.returns else replace(entry, returns=_stamp(now), over=slow_start)
    if not began.over:
        return None
    steps = max(1, min(STEPS, int(began.over)))
    taken = -(-(DRAINED - began.gone) * (steps + 1) // DRAINED)
    passed = (now - datetime.fromisoformat(began.returns)).total_seconds()
    if passed < 0:  # the clock was set back: go on from here
        passed = began.over * taken / steps
        began = replace(began, returns=_stamp(now - timedelta(seconds=passed)))
    done = min(int(steps * passed / began.over), taken) + 1  # the first step is taken at once
    return replace(began, gone=DRAINED - DRAINED * done // (steps + 1)) if done <= steps else None


def _stamp(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")
