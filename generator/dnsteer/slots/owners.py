"""The backend of each slot: the base assignment of a pool's members, and the overlay on it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from dnsteer.slots.assignment import assign
from dnsteer.slots.maintenance import Maintenance
from dnsteer.slots.membership import Membership
from dnsteer.slots.overlay import nobody_left, without


def owners_of(members: Membership, maintenance: Sequence[Maintenance]) -> tuple[str, ...]:
    """The backend's name for each slot of a pool. Empty when nobody is left and the pool drops then."""
    drop = members.on_all_down == "drop"
    return owners(members.weights, members.slots, members.down, maintenance, drop=drop)


def owners(
    weights: Mapping[str, int], slots: int, down: Collection[str], maintenance: Sequence[Maintenance], *, drop: bool
) -> tuple[str, ...]:
    """The member's name for each of *slots* slots, with members *down* by the spec or in *maintenance*; empty for drop."""
    if not any(weights.values()) or (drop and nobody_left(weights, down, maintenance)):
        return ()
    base = _base(tuple(sorted(weights.items())), slots)
    here = [a for a in maintenance if a.backend in weights]
    return without(base, weights, down, here) if down or here else base


@lru_cache(maxsize=4096)
def _base(weights: tuple[tuple[str, int], ...], slots: int) -> tuple[str, ...]:
    return assign(dict(weights), slots)
