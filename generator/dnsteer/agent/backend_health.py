"""The health of every backend, from the results of its probes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dnsteer.agent.decide import PoolHealth
from dnsteer.agent.evidence import Evidence
from dnsteer.agent.flapping import began_with
from dnsteer.agent.health import CheckState, Result, after_result
from dnsteer.agent.probes.serials import Serials
from dnsteer.agent.probes.targets import Key, ProbeTarget, slots_name
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.health_checks import EffectiveQuery
from dnsteer.switch.flapping import PastFailures


class Health:
    """States of the checks, by target. A backend is unhealthy while one of its checks is that takes it out."""

    def __init__(self) -> None:
        self.states: dict[Key, CheckState] = {}
        self._by_slots: dict[str, dict[str, list[Key]]] = {}
        """The targets of each backend that decide about a pool's slots (`slots_name`)."""
        self._untested: set[Key] = set()
        """Targets of which it is not known yet whether they are healthy."""
        self._serials: dict[tuple[str, int, EffectiveQuery], Serials] = {}
        """By pool and number of the check, and what it asks."""
        self._evidence = Evidence()

    def adopt(
        self,
        targets: Iterable[ProbeTarget],
        overlay: Overlay,
        time: float,
        past: Mapping[Key, PastFailures] | None = None,
    ) -> None:
        """Know these targets from now on. Backends that the record has as unhealthy begin so, all new ones as healthy.

        *past* are failures that an earlier agent has seen.
        """
        known_targets = list(targets)
        out = {
            (slots_name(entry.pool, entry.service), entry.backend): entry
            for entry in overlay
            if entry.kind == "health" and not entry.returns
        }
        known, self.states, self._by_slots = self.states, {}, {}
        asked = {_serials_of(target): set[Key]() for target in known_targets}
        for target in known_targets:
            asked[_serials_of(target)].add(target.key)
        self._serials = {check: one for check, one in self._serials.items() if check in asked}
        for check, serials in self._serials.items():
            serials.keep(asked[check])
        tested = known.keys() - self._untested
        for target in known_targets:
            entry = next((out[key] for name in target.slots if (key := (name, target.backend)) in out), None)
            begins = CheckState(since=time) if entry is None else CheckState(False, why=entry.note, since=time)
            before = (past or {}).get(target.key)
            self.states[target.key] = known.get(target.key) or began_with(
                begins, before, time, target.thresholds.hold_max
            )
            if target.check.on_failure == "warn":
                continue
            for name in target.slots:
                self._by_slots.setdefault(name, {}).setdefault(target.backend, []).append(target.key)
        self._untested = self.states.keys() - tested
        self._evidence.adopt(known_targets)

    def compare_serials(self, target: ProbeTarget, result: Result) -> Result:
        """Return a result as it is once the serial is compared with those of the pool's other backends."""
        allowed = target.query.serial_lag
        if allowed is None:
            return result
        serials = self._serials.setdefault(_serials_of(target), Serials())
        if result.serial is None:
            return result
        newest, lag = serials.lag(target.key, result.serial, result.time)
        if lag <= allowed:
            return result
        why = f"answered serial {result.serial}, behind {newest} of another backend for more than {allowed:g} s"
        return replace(result, why=f"{target.name}: {why}")

    def add(self, target: ProbeTarget, result: Result) -> bool:
        """Add a result; return whether the check changed its state."""
        before = self.states.get(target.key)
        if before is None:
            return False  # of a target that is gone
        after = after_result(before, result, target.thresholds)
        if result.good or not after.healthy:  # a first failure tells neither
            self._untested.discard(target.key)
        self.states[target.key] = after
        if result.serial is None and not after.healthy and (serials := self._serials.get(_serials_of(target))):
            serials.forget(target.key)  # one lost probe would tell nothing
        self._evidence.add(target, result)
        return after.healthy != before.healthy

    def unhealthy(self, slots: str) -> Mapping[str, str]:
        """The backends that are unhealthy for a pool's slots (`slots_name`), each with its last failure, in the order in
        which they failed."""
        found = {name: self._failed(keys) for name, keys in self._by_slots.get(slots, {}).items()}
        states = {name: self.states[keys[0]] for name, keys in found.items() if keys}
        return {name: state.why for name, state in sorted(states.items(), key=lambda item: item[1].since)}

    def of(self, slots: str) -> PoolHealth:
        """What is known of the backends for a pool's slots."""
        backends, unhealthy = self._by_slots.get(slots, {}), self.unhealthy(slots)
        failed = {name: self._failed(backends[name]) for name in unhealthy}
        return PoolHealth(
            unhealthy,
            recovering={name for name, keys in failed.items() if all(self.states[key].answers for key in keys)},
            unproven={name for name, keys in failed.items() if not any(map(self._evidence.proves, keys))},
            unknown={n for n, keys in backends.items() if n not in unhealthy and self._untested.issuperset(keys)},
        )

    def answering(self, slots: str) -> set[str]:
        """The backends that are unhealthy for a pool's slots though all that they fail they answer, in another way than
        expected."""
        found = {name: self._failed(keys) for name, keys in self._by_slots.get(slots, {}).items()}
        return {name for name, keys in found.items() if keys and all(self.states[key].answered for key in keys)}

    def untested(self, slots: str) -> dict[str, set[str]]:
        """The backends for a pool's slots of which a check does not know yet whether they are healthy, each with the
        addresses at which it is not known: of VIPs, through the bridge, or its own."""
        found = {
            name: {key[3] for key in self._untested.intersection(keys)}
            for name, keys in self._by_slots.get(slots, {}).items()
        }
        return {name: addresses for name, addresses in found.items() if addresses}

    def is_untested(self, target: ProbeTarget) -> bool:
        """Whether it is not known yet whether a target is healthy."""
        return target.key in self._untested

    def is_awaited(self, target: ProbeTarget) -> bool:
        """Whether the next result of a target shows if it is the fault of another backend that this one fails."""
        return self._evidence.is_awaited(target)

    def _failed(self, keys: Iterable[Key]) -> list[Key]:
        """Those of a backend's targets that are unhealthy, first failed first."""
        return sorted((key for key in keys if not self.states[key].healthy), key=lambda key: self.states[key].since)


def _serials_of(target: ProbeTarget) -> tuple[str, int, EffectiveQuery]:
    """With whose serials those of a target are compared: its own check of the pool's backends."""
    return target.pool, target.number, target.query
