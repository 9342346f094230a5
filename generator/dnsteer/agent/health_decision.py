# SPDX-License-Identifier: Apache-2.0
"""Which backends the agent takes out of a pool and brings back: a pure function of health, the overlay and the time.

The overlay that is recorded is all that it remembers, so an agent that is started again goes on where the last one was. The
backends of the backup of a pool join and leave by the same rules.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from dnsteer.slots.maintenance import DRAINED, Maintenance

STEPS = 20
"""Steps in which a backend gets its slots back, where its slow start is long enough: at most one a second."""
IN_MOTION = 0.1
"""Share of a pool's slots that may be on their way back to backends at the same time."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class PoolRules:
    """What decides for a pool. *backends* are those that the spec does not have down, with their weights there.

    *panic* is a share, 0 to 1; *slow_start* is in seconds. *keep_at_least* is how many backends stay in service though
    they fail, if as few are left. *standby* are the backends of the pool's backup with the weights that they join with
    while fewer than *below* of its own are in service. *service* is the only one with these rules, such as `853/tcp`;
    empty: all that have no slots of their own.
    """

    pool: str
    backends: Mapping[str, int]
    panic: float
    slow_start: float
    standby: Mapping[str, int] = field(default_factory=dict)
    below: int = 0
    service: str = ""
    keep_at_least: int = 0


@dataclass(frozen=True)
class PoolHealth:
    """What the checks say of a pool's backends. *unhealthy* has the last failure of each, in the order in which they failed.

    *recovering* are those of them that passed their last checks, though not often enough yet. The *unproven* may fail only
    because the way to all backends did: no other one has passed meanwhile. Of the *unknown* no result is there yet.
    """

    unhealthy: Mapping[str, str] = field(default_factory=dict)
    recovering: Collection[str] = ()
    unproven: Collection[str] = ()
    unknown: Collection[str] = ()

    def is_passing(self, name: str) -> bool:
        """Whether a backend is known to pass."""
        return name not in self.unhealthy and name not in self.unknown


@dataclass(frozen=True)
class Decision:
    """The pool's entries of health, and of its backup, as they should be.

    *panics*: no backend passes, so nobody more is out for it. *waiting* are healthy backends that come back only after
    others have. *spared* are unhealthy backends that stay in service, of which *kept* only because too few are left.
    *idle* pass their checks, but people have them out. *serving* are healthy, with all of their slots from now on.
    """

    entries: tuple[Maintenance, ...]
    panics: bool = False
    waiting: tuple[str, ...] = ()
    spared: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    serving: tuple[str, ...] = ()

    @property
    def is_unfinished(self) -> bool:
        """Whether more is to be decided soon, though no check turns."""
        return bool(self.waiting or self.spared) or any(entry.returns for entry in self.entries)


def decide(
    rules: PoolRules,
    overlay: Sequence[Maintenance],
    health: PoolHealth,
    by: str,
    now: datetime,
    standby: Collection[str] = (),
) -> Decision:
    """Return what should be, given the pool's part of the *overlay* and the *health* of its backends.

    All failures count at once, unless no backend passes or fewer than *keep_at_least* would be left: then those that
    failed last stay in service. Who is out comes back when it is healthy again, as many together as keep few slots in
    motion, and none in the moment of a failure, unless too few would be left. Maintenance by people is left alone: backends
    that they have out do not count. *standby* are those of the backup that they do not.
    """
    pool = _Pool(rules, overlay, health, now, standby)
    leaving, kept = pool.leaving_and_kept()
    out = pool.entries_out(leaving, by)
    returns = pool.returns(out, leaving, kept)
    steps = [(entry, returns.step(entry, rules.slow_start, now)) for entry in out]
    entries = tuple(step for _, step in steps if step is not None)
    whole = [entry.backend for entry, step in steps if step is None and entry.backend in pool.counted]
    away = {entry.backend for entry in entries if _is_out(entry)}
    return Decision(
        entries,
        pool.panics,
        waiting=tuple(entry.backend for entry in returns.later),
        spared=tuple(name for name in pool.unhealthy if name in pool.counted and name not in away),
        kept=() if pool.nobody_passes else tuple(kept),
        idle=tuple(n for n in rules.backends if n in pool.by_people and health.is_passing(n)),
        serving=(*pool.serving, *whole),
    )


@dataclass(frozen=True)
class _Returns:
    """The entries of healthy backends: those that have all slots *at_once*, those that get them in steps, and all others."""

    at_once: Sequence[Maintenance]
    in_steps: Sequence[Maintenance]
    later: Sequence[Maintenance]

    def step(self, entry: Maintenance, slow_start: float, now: datetime) -> Maintenance | None:
        """Return what becomes of an entry of health; None when its backend has all of its slots."""
        if entry in self.at_once:
            return None
        return return_step(entry, slow_start, now) if entry in self.in_steps else entry


class _Pool:
    """A pool at the moment of a decision.

    *weights* are in force, *counted* the backends that may serve, *ours* the entries of health, *serving* those in service
    with all of their slots that pass, *failing* those that are in service and do not, first failed first. *unsure* are
    unhealthy ones that are not taken out for it yet. *joined* is how many of the backup serve.
    """

    def __init__(
        self,
        rules: PoolRules,
        overlay: Sequence[Maintenance],
        health: PoolHealth,
        now: datetime,
        standby: Collection[str],
    ) -> None:
        self._rules, self._now = rules, now
        self._helpers = [name for name in standby if name not in health.unhealthy]
        self.weights = weights_in_force(rules, overlay)
        self.by_people = {entry.backend for entry in overlay if entry.kept_out_by_people}
        self.counted = self._counted(overlay)
        self.ours = self._own_entries(overlay)
        self.unhealthy = {name: why for name, why in health.unhealthy.items() if name in self.weights}
        self.unsure = {*health.recovering}
        self.nobody_passes = self.panics = False
        if rules.panic < 1:  # else each failure is believed, also where all fail
            asked = (*self.counted, *standby)
            self.unsure |= {*health.unproven}
            self.nobody_passes = not any(health.is_passing(name) for name in asked)
            self.panics = bool(asked) and all(name in health.unhealthy for name in asked)
        answering = [name for name in self.counted if name not in self.unhealthy or name in self.unsure]
        self.serving = [name for name in answering if name not in self.ours]
        failing = [name for name in self.unhealthy if name in self.counted and name not in self.unsure]
        self.failing = [name for name in failing if not _is_out(self.ours.get(name))]
        self.joined = len(self._helpers) if len(self.serving) < rules.below else 0

    def _counted(self, overlay: Sequence[Maintenance]) -> list[str]:
        """The backends with a weight that neither people nor, where this is about one service, health has out for all."""
        away = set(self.by_people)
        if self._rules.service:
            away |= {e.backend for e in overlay if e.kind == "health" and not e.service and _is_out(e)}
        return [name for name, weight in self.weights.items() if weight and name not in away]

    def _own_entries(self, overlay: Sequence[Maintenance]) -> dict[str, Maintenance]:
        """The entries of health of this pool and service, by backend."""
        own = (entry for entry in overlay if (entry.kind, entry.service) == ("health", self._rules.service))
        return {entry.backend: entry for entry in own if entry.backend in self.weights}

    def leaving_and_kept(self) -> tuple[list[str], list[str]]:
        """Those of *failing* that go out, and those that stay since nobody passes, or too few would be left."""
        recovered = sum(name in self.counted for name in self.ours if name not in self.unhealthy)
        lacking = self._rules.keep_at_least - len(self.serving) - self.joined - recovered
        stay = len(self.failing) if self.nobody_passes else min(max(lacking, 0), len(self.failing))
        leave = len(self.failing) - stay
        return self.failing[:leave], self.failing[leave:]

    def entries_out(self, leaving: Collection[str], by: str) -> list[Maintenance]:
        """The entries of health with those who are *leaving*, and of unhealthy ones that do not serve anyway."""
        out = list[Maintenance]()
        goes = [name for name in self.unhealthy if name in leaving or self._goes_uncounted(name)]
        since = _stamp(self._now)
        for entry in self.ours.values():
            if entry.backend in goes and not _is_out(entry):
                why = self.unhealthy[entry.backend]
                entry = replace(entry, gone=DRAINED, over=0, returns="", note=why, since=since)
            out.append(entry)
        for name in goes:
            if name not in self.ours:
                why, service = self.unhealthy[name], self._rules.service
                out.append(Maintenance(self._rules.pool, name, "health", since, by, why, service=service))
        return out

    def returns(self, out: Sequence[Maintenance], leaving: Collection[str], kept: Collection[str]) -> _Returns:
        """Which healthy backends that are *out* come back now, while some are *leaving* and failing ones are *kept*."""
        back = sorted(
            (entry for entry in out if entry.backend not in self.unhealthy), key=lambda entry: not entry.returns
        )
        here = [*self.serving, *kept]
        lacking = self.lacking(len(here), leaving, out)
        at_once = [entry for entry in back if entry.backend in self.counted][:lacking]
        rest = [entry for entry in back if entry not in at_once]
        here += [entry.backend for entry in at_once]
        moving = [] if leaving else self.in_motion(rest, sum(self.weights[name] for name in here))
        return _Returns(at_once, moving, [entry for entry in rest if entry not in moving])

    def _goes_uncounted(self, name: str) -> bool:
        """Whether an unhealthy backend that does not serve anyway is out for its health too, once people let it serve.

        Not where the checks are not believed: in a panic each that people drain and undrain would be out for good.
        """
        return name not in self.counted and (name in self.ours or not (self.nobody_passes or name in self.unsure))

    def lacking(self, here: int, leaving: Collection[str], out: Sequence[Maintenance]) -> int:
        """How many must come back at once, with so many *here* in service and those *out*.

        That is so many that *keep_at_least* serve, at least one; in the moment of a failure also that no more are out than
        the share *panic*.
        """
        lacking = max(1, self._rules.keep_at_least) - here - self.joined
        if leaving and not self._helpers:
            most = int(self._rules.panic * len(self.counted) + _ROUNDING)
            lacking = max(lacking, sum(entry.backend in self.counted for entry in out) - most)
        return max(0, lacking)

    def in_motion(self, back: Sequence[Maintenance], here: int) -> list[Maintenance]:
        """Those of *back* that get slots now: who has begun, and as many more as keep at most IN_MOTION of the slots in
        motion, at least one. *here* is the weight of all in service.
        """
        moving, weight = list[Maintenance](), 0
        for entry in back:
            more = self.weights[entry.backend] if entry.backend in self.counted else 0
            if moving and not entry.returns and weight + more > IN_MOTION * (here + weight + more):
                break
            moving.append(entry)
            weight += more
        return moving


def weights_in_force(rules: PoolRules, overlay: Sequence[Maintenance]) -> dict[str, int]:
    """Return the weights of the backends that the agent takes out: those that have one by the spec, or by people."""
    given = {e.backend: e.weight for e in overlay if e.kind == "weight" and e.weight is not None and not e.returns}
    return {name: given.get(name, weight) for name, weight in rules.backends.items() if weight or given.get(name)}


def _is_out(entry: Maintenance | None) -> bool:
    return entry is not None and entry.gone >= DRAINED and not entry.returns


def return_step(entry: Maintenance, slow_start: float, now: datetime) -> Maintenance | None:
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


_BY_PEOPLE = ("drain", "down", "weight")


def decide_with_backup(
    rules: PoolRules, overlay: Sequence[Maintenance], health: PoolHealth, by: str, now: datetime
) -> Decision:
    """Return what should be, as `decide` does, with the entries of the pool's backup.

    Its backends join at once while fewer than *below* of the pool's own are in service, and leave over the slow start once
    enough are back with all of their slots. Those that are unhealthy, or that people took care of, stay away. While one of
    them works there is no panic: it passes the same checks, so what fails is not on this side. In a panic those that have
    joined stay.
    """
    if not rules.standby:
        return decide(rules, overlay, health, by, now)
    by_people = {entry.backend for entry in overlay if entry.kind in _BY_PEOPLE}
    own = decide(rules, overlay, health, by, now, _standby(rules, overlay))
    found = {entry.backend: entry for entry in overlay if entry.kind == "backup"}
    entries = list[Maintenance]()
    for name in (name for name in rules.standby if name not in by_people):
        entry = found.get(name)
        if name in health.unhealthy:
            entries += [entry] if own.panics and entry is not None else []
        elif len(own.serving) < rules.below:
            note = f"{len(own.serving)} of {len(weights_in_force(rules, overlay))} backends in service"
            joins = Maintenance(
                rules.pool, name, "backup", now.isoformat(timespec="milliseconds"), by, note, weight=rules.standby[name]
            )
            same = entry is not None and (entry.weight, entry.gone, entry.returns) == (joins.weight, DRAINED, "")
            entries.append(entry if same and entry is not None else joins)
        elif entry is not None and (leaving := return_step(entry, rules.slow_start, now)) is not None:
            entries.append(leaving)
    return replace(own, entries=(*own.entries, *entries))


def _standby(rules: PoolRules, overlay: Sequence[Maintenance]) -> list[str]:
    """The backends of the backup that serve if they are needed, or since people gave them a weight in the pool."""
    out = {entry.backend for entry in overlay if entry.kept_out_by_people}
    return [name for name in rules.standby if name not in out]
