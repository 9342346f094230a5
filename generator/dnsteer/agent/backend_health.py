"""The health of every backend, from the results of its probes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dnsteer.agent.decide import PoolHealth
from dnsteer.agent.health import CheckState, Result, after_result
from dnsteer.agent.probes.targets import Key, ProbeTarget, slots_name
from dnsteer.slots.maintenance import Overlay


class Health:
    """States of the checks, by target. A backend is unhealthy while one of its checks is."""

    def __init__(self) -> None:
        self.states: dict[Key, CheckState] = {}
        self._by_slots: dict[str, list[ProbeTarget]] = {}
        self._untested: set[Key] = set()
        """Targets of which it is not known yet whether they are healthy."""

    def adopt(self, targets: Iterable[ProbeTarget], overlay: Overlay, time: float) -> None:
        """Know these targets from now on. Backends that the record has as unhealthy begin so, all new ones as healthy."""
        out = {
            (slots_name(entry.pool, entry.service), entry.backend): entry
            for entry in overlay
            if entry.kind == "health" and not entry.returns
        }
        known, self.states, self._by_slots = self.states, {}, {}
        tested = known.keys() - self._untested
        for target in targets:
            entry = next((out[key] for name in target.slots if (key := (name, target.backend)) in out), None)
            begins = CheckState(since=time) if entry is None else CheckState(False, why=entry.note, since=time)
            self.states[target.key] = known.get(target.key, begins)
            for name in target.slots:
                self._by_slots.setdefault(name, []).append(target)
        self._untested = self.states.keys() - tested

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
        """The backends that are unhealthy for a pool's slots (`slots_name`), each with its last failure, in the order in
        which they failed."""
        out: dict[str, CheckState] = {}
        for target in self._by_slots.get(slots, ()):
            state = self.states[target.key]
            if not state.healthy:
                out.setdefault(target.backend, state)
                if state.since < out[target.backend].since:
                    out[target.backend] = state
        return {name: state.why for name, state in sorted(out.items(), key=lambda item: item[1].since)}

    def of(self, slots: str) -> PoolHealth:
        """What is known of the backends for a pool's slots."""
        failing, known, named = set[str](), set[str](), set[str]()
        for target in self._by_slots.get(slots, ()):
            state = self.states[target.key]
            named.add(target.backend)
            if target.key not in self._untested and state.steady:
                known.add(target.backend)
            if not state.healthy and not state.answers:
                failing.add(target.backend)
        unhealthy = self.unhealthy(slots)
        return PoolHealth(unhealthy, unhealthy.keys() - failing, named - known - unhealthy.keys())

    def untested(self, slots: str) -> set[str]:
        """The backends for a pool's slots of which a check does not know yet whether they are healthy."""
        return {target.backend for target in self._by_slots.get(slots, ()) if target.key in self._untested}
