"""Pools whose unhealthy backends stay in service: told when that begins and when it is over."""

from __future__ import annotations

from collections.abc import Mapping

from dnsteer.agent.backend_health import Health
from dnsteer.agent.decide import PoolRules
from dnsteer.agent.effect import Effect
from dnsteer.agent.report import Reporter
from dnsteer.metrics.recorder import Recorder


class Panics:
    """The names of slots whose pool is in panic: no backend passes. *kept* are those who stay since too few are left."""

    def __init__(self, health: Health, report: Reporter, recorder: Recorder) -> None:
        self._health, self._report, self._recorder = health, report, recorder
        self.slots: set[str] = set()
        self.kept: dict[str, tuple[str, ...]] = {}

    def follow(self, effect: Effect, rules: Mapping[str, PoolRules]) -> None:
        """Take notice of what was decided by *rules*, which are by the names of slots."""
        for name, decision in effect.decisions.items():
            if decision.panics and name not in self.slots:
                self.slots.add(name)
                self._tell(name, rules, effect.id)
                self._report.panic(rules[name], decision, list(self._health.unhealthy(name)), effect.id)
            elif not decision.panics and name in self.slots:
                self.slots.discard(name)
                self._tell(name, rules, effect.id)
                self._report.panic_over(rules[name], effect.id)
            if set(decision.kept) != set(self.kept.get(name, ())):
                self.kept[name] = decision.kept
                self._report.too_few(rules[name], decision.kept, effect.id)

    def _tell(self, slots: str, rules: Mapping[str, PoolRules], decision: str) -> None:
        """Tell whether the pool of these slots is in panic: for one of several services is for the pool."""
        pool = rules[slots].pool
        services = tuple(sorted(rules[n].service for n in self.slots if n in rules and rules[n].pool == pool))
        self._recorder.panicked(pool, panics=bool(services), decision=decision)
        self._recorder.panics_for(pool, services)
