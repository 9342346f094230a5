"""Which backend each slot of a pool names."""

from __future__ import annotations

from functools import lru_cache

from dnsteer.plan.overlay import overlay
from dnsteer.plan.slots import assign, default_slots
from dnsteer.spec import meaning
from dnsteer.spec.meaning import Family
from dnsteer.spec.model import Pool, Spec, State


def slot_count(spec: Spec, pool: Pool) -> int:
    """Number of slots of *pool*, the same for both families."""
    if pool.slots is not None:
        return pool.slots
    weights = {b.name: b.weight for b in pool.backends}
    return default_slots(weights, meaning.slot_limit(spec, pool))


def slots_of(spec: Spec, pool: Pool, family: Family) -> tuple[str, ...]:
    """The backend's name for each slot of *pool* in *family*. Empty when no backend takes queries in that family."""
    members = meaning.members(pool, family)
    weights = tuple(sorted((b.name, b.weight) for b in members))
    if not any(weight for _, weight in weights):
        return ()
    base = _base(weights, slot_count(spec, pool))
    down = [b.name for b in members if b.state is State.DOWN]
    return overlay(base, dict(weights), down) if down else base


@lru_cache(maxsize=4096)
def _base(weights: tuple[tuple[str, int], ...], slots: int) -> tuple[str, ...]:
    return tuple(assign(dict(weights), slots))
