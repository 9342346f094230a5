"""Which backend each slot of a pool names, and whether that is a fair image of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from dnsteer.plan.overlay import overlay
from dnsteer.plan.slots import assign, worst_share
from dnsteer.spec import meaning
from dnsteer.spec.errors import Finding
from dnsteer.spec.load import Loaded
from dnsteer.spec.meaning import FAMILIES, Family
from dnsteer.spec.model import Pool, Spec, State


def slots_of(spec: Spec, pool: Pool, family: Family) -> tuple[str, ...]:
    """The backend's name for each slot of *pool* in *family*. Empty when no backend takes queries in that family."""
    members = meaning.members(pool, family)
    weights = tuple(sorted((b.name, b.weight) for b in members))
    if not any(weight for _, weight in weights):
        return ()
    base = _base(weights, meaning.slot_count(spec, pool))
    down = [b.name for b in members if b.state is State.DOWN]
    return overlay(base, dict(weights), down) if down else base


@lru_cache(maxsize=4096)
def _base(weights: tuple[tuple[str, int], ...], slots: int) -> tuple[str, ...]:
    return tuple(assign(dict(weights), slots))


SHARE_TOLERANCE = Fraction(2, 100)
"""A share that is off by more than this, relative to its weight's, is worth a warning."""


def uneven(loaded: Loaded) -> Iterator[Finding]:
    """Pools with too few slots for their weights: the backend whose share is furthest off, one finding a pool."""
    for name, pool in loaded.spec.pools.items():
        slots = meaning.slot_count(loaded.spec, pool)
        for family in FAMILIES:
            weights = {b.name: b.weight for b in meaning.members(pool, family)}
            if not any(weights.values()):
                continue
            backend, error = worst_share(weights, slots)
            if abs(error) > SHARE_TOLERANCE:
                path = ("pools", name)
                found = f"{slots} slots, which give backend {backend} {float(error):+.1%} against its weight"
                hint = "name more slots, a power of two, if the difference matters"
                yield Finding(loaded.document.line(path), path, found, "shares within 2 % of the weights'", hint)
                break
