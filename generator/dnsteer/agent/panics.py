# SPDX-License-Identifier: Apache-2.0
"""Pools whose unhealthy backends stay in service: told when that begins and when it is over."""

from __future__ import annotations

from collections.abc import Mapping

from dnsteer.agent.backend_health import Health
from dnsteer.agent.effect import Effect
from dnsteer.agent.health_decision import PoolRules
from dnsteer.metrics.observer import AgentObserver, KeptChange, PanicChange


class Panics:
    """The names of slots whose pool is in panic: no backend passes. *kept* are those who stay since too few are left."""

    def __init__(self, health: Health, observer: AgentObserver) -> None:
        self._health, self._observer = health, observer
        self.slots: set[str] = set()
        self._pools: dict[str, str] = {}
        """The pools of these slots."""
        self.kept: dict[str, tuple[str, ...]] = {}

    def follow(self, effect: Effect, rules: Mapping[str, PoolRules]) -> None:
        """Take notice of what was decided by *rules*, which are by the names of slots."""
        for name, decision in effect.decisions.items():
            pool, service = rules[name].pool, rules[name].service
            if decision.panics and name not in self.slots:
                self.slots.add(name)
                self._pools[name] = pool
                failing = tuple(self._health.unhealthy(name))
                change = PanicChange(service, True, failing, tuple(decision.spared), tuple(decision.idle))
                self._tell(pool, rules, effect.id, change)
            elif not decision.panics and name in self.slots:
                self.slots.discard(name)
                self._tell(pool, rules, effect.id, PanicChange(service, False))
            if set(decision.kept) != set(self.kept.get(name, ())):
                self.kept[name] = decision.kept
                kept = KeptChange(service, rules[name].keep_at_least, decision.kept)
                self._tell_kept(pool, rules, effect.id, kept)

    def adopt(self, rules: Mapping[str, PoolRules]) -> None:
        """Know only what these rules are about, those of the state that is followed now: nobody decides about others."""
        gone = [name for name in self.slots if name not in rules]
        self.slots.difference_update(gone)
        for pool in {self._pools.pop(name) for name in gone}:
            self._tell(pool, rules)
        self.kept = {name: kept for name, kept in self.kept.items() if name in rules}
        for pool in {rules[name].pool for name in rules}:
            self._tell_kept(pool, rules)

    def _tell_kept(
        self, pool: str, rules: Mapping[str, PoolRules], decision: str = "", change: KeptChange | None = None
    ) -> None:
        """Tell who of a pool is kept, for whichever service."""
        names = (name for slots, kept in self.kept.items() if rules[slots].pool == pool for name in kept)
        self._observer.kept(pool, sorted(set(names)), decision, change)

    def _tell(
        self, pool: str, rules: Mapping[str, PoolRules], decision: str = "", change: PanicChange | None = None
    ) -> None:
        """Tell whether a pool is in panic: for one of several services is for the pool."""
        services = tuple(sorted(rules[n].service for n in self.slots if n in rules and rules[n].pool == pool))
        self._observer.panicked(pool, services, decision, change)
