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
        self._pools: dict[str, str] = {}
        """The pools of these slots."""
        self.kept: dict[str, tuple[str, ...]] = {}

    def follow(self, effect: Effect, rules: Mapping[str, PoolRules]) -> None:
        """Take notice of what was decided by *rules*, which are by the names of slots."""
        for name, decision in effect.decisions.items():
            if decision.panics and name not in self.slots:
                self.slots.add(name)
                self._pools[name] = rules[name].pool
                self._tell(rules[name].pool, rules, effect.id)
                self._report.panic(rules[name], decision, list(self._health.unhealthy(name)), effect.id)
            elif not decision.panics and name in self.slots:
                self.slots.discard(name)
                self._tell(rules[name].pool, rules, effect.id)
                self._report.panic_over(rules[name], effect.id)
            if set(decision.kept) != set(self.kept.get(name, ())):
                self.kept[name] = decision.kept
                self._tell_kept(rules[name].pool, rules)
                self._report.too_few(rules[name], decision.kept, effect.id)

    def adopt(self, rules: Mapping[str, PoolRules]) -> None:
        """Know only what these rules are about, those of the state that is followed now: nobody decides about others."""
        gone = [name for name in self.slots if name not in rules]
        self.slots.difference_update(gone)
        for pool in {self._pools.pop(name) for name in gone}:
            self._tell(pool, rules, "")
        self.kept = {name: kept for name, kept in self.kept.items() if name in rules}
        for pool in {rules[name].pool for name in rules}:
            self._tell_kept(pool, rules)

    def _tell_kept(self, pool: str, rules: Mapping[str, PoolRules]) -> None:
        """Tell who of a pool is kept, for whichever service."""
        names = (name for slots, kept in self.kept.items() if rules[slots].pool == pool for name in kept)
        self._recorder.kept(pool, sorted(set(names)))

    def _tell(self, pool: str, rules: Mapping[str, PoolRules], decision: str) -> None:
        """Tell whether a pool is in panic: for one of several services is for the pool."""
        services = tuple(sorted(rules[n].service for n in self.slots if n in rules and rules[n].pool == pool))
        self._recorder.panicked(pool, panics=bool(services), decision=decision)
        self._recorder.panics_for(pool, services)
