"""The health of every backend, from the results of its probes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dnsteer.agent.health import CheckState, Result, after_result
from dnsteer.agent.probes.serials import Serials
from dnsteer.agent.probes.targets import Key, ProbeTarget, slots_name
from dnsteer.slots.maintenance import Overlay


class Health:
    """States of the checks, by target. A backend is unhealthy while one of its checks is that takes it out."""

    def __init__(self) -> None:
        self.states: dict[Key, CheckState] = {}
        self._by_slots: dict[str, list[ProbeTarget]] = {}
        self._untested: set[Key] = set()
        """Targets of which it is not known yet whether they are healthy."""
        self._serials: dict[tuple[str, int], Serials] = {}
        """By pool and number of the check."""

    def adopt(self, targets: Iterable[ProbeTarget], overlay: Overlay, time: float) -> None:
        """Know these targets from now on. Backends that the record has as unhealthy begin so, all new ones as healthy."""
        out = {
            (slots_name(entry.pool, entry.service), entry.backend): entry
            for entry in overlay
            if entry.kind == "health" and not entry.returns
        }
        known, self.states, self._by_slots = self.states, {}, {}
        self._serials.clear()
        tested = known.keys() - self._untested
        for target in targets:
            entry = next((out[key] for name in target.slots if (key := (name, target.backend)) in out), None)
            begins = CheckState(since=time) if entry is None else CheckState(False, why=entry.note, since=time)
            self.states[target.key] = known.get(target.key, begins)
            if target.check.on_failure == "warn":
                continue
            for name in target.slots:
                self._by_slots.setdefault(name, []).append(target)
        self._untested = self.states.keys() - tested

    def compare_serials(self, target: ProbeTarget, result: Result) -> Result:
        """Return a result as it is once the serial is compared with those of the pool's other backends."""
        allowed = target.query.serial_lag
        if allowed is None:
            return result
        serials = self._serials.setdefault((target.pool, target.number), Serials())
        if result.serial is None:
            serials.forget(target.key)
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
        return after.healthy != before.healthy

    def unhealthy(self, slots: str) -> Mapping[str, str]:
        """The backends that are unhealthy for a pool's slots (`slots_name`), each with its last failure."""
        out: dict[str, str] = {}
        for target in self._by_slots.get(slots, ()):
            state = self.states[target.key]
            if not state.healthy:
                out.setdefault(target.backend, state.why)
        return out

    def untested(self, slots: str) -> set[str]:
        """The backends for a pool's slots of which a check does not know yet whether they are healthy."""
        return {target.backend for target in self._by_slots.get(slots, ()) if target.key in self._untested}
