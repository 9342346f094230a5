"""Which backend each slot of a pool names, and whether that is a fair image of the weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from dnsteer.plan.absence import Absence
from dnsteer.plan.owners import owners
from dnsteer.plan.slots import worst_share
from dnsteer.spec import meaning
from dnsteer.spec.errors import Finding
from dnsteer.spec.families import ANY, FAMILIES, Reach
from dnsteer.spec.load import Loaded
from dnsteer.spec.model import Pool, Spec, State


def slots_of(spec: Spec, pool: Pool, family: Reach, absences: Sequence[Absence] = ()) -> tuple[str, ...]:
    """The backend's name for each slot of *pool* in *family*.

    Empty when no backend takes queries in that family, or none is left and the pool drops then.
    """
    members = meaning.members(pool, family)
    down = [b.name for b in members if b.state is State.DOWN]
    weights = {b.name: b.weight for b in members}
    return owners(weights, meaning.slot_count(spec, pool), down, absences, drop=pool.on_all_down == "drop")


SHARE_TOLERANCE = Fraction(2, 100)
"""A share that is off by more than this, relative to its weight's, is worth a warning."""


def uneven(loaded: Loaded) -> Iterator[Finding]:
    """Pools with too few slots for their weights: the backend whose share is furthest off, one finding a pool."""
    asked = {
        (vip.pool, meaning.reach(vip, meaning.family_of(a))) for vip in loaded.spec.vips.values() for a in vip.addresses
    }
    for name, pool in loaded.spec.pools.items():
        slots = meaning.slot_count(loaded.spec, pool)
        judged: dict[str, int] = {}
        for family in (each for each in (*FAMILIES, ANY) if (name, each) in asked):
            weights = {b.name: b.weight for b in meaning.members(pool, family)}
            if not any(weights.values()) or weights == judged:
                continue
            judged = weights
            backend, error = worst_share(weights, slots)
            if abs(error) > SHARE_TOLERANCE:
                path = ("pools", name)
                found = f"{slots} slots, which give backend {backend} {float(error):+.1%} against its weight"
                hint = "name more slots, a power of two, if the difference matters"
                yield Finding(loaded.document.line(path), path, found, "shares within 2 % of the weights'", hint)
                break
