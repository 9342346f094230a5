"""The backend of each slot: the base assignment of the pool's members with the overlay applied."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from dnsteer.slots.assignment import assign
from dnsteer.slots.maintenance import Maintenance
from dnsteer.slots.membership import Membership
from dnsteer.slots.overlay import no_backend_left, with_maintenance


def owners_of(members: Membership, maintenance: Sequence[Maintenance]) -> tuple[str, ...]:
    """Return the backend's name for each slot of a pool; empty when no backend is left and the pool then drops."""
    return _owners_of(members, tuple(maintenance))


@lru_cache(maxsize=128)  # a change looks at the same before and after again and again
def _owners_of(members: Membership, maintenance: tuple[Maintenance, ...]) -> tuple[str, ...]:
    drop = members.on_all_down == "drop"
    return owners(members.weights, members.slots, members.down, maintenance, drop=drop)


def owners(
    weights: Mapping[str, int], slots: int, down: Collection[str], maintenance: Sequence[Maintenance], *, drop: bool
) -> tuple[str, ...]:
    """Return the member's name for each slot, given members *down* in the spec or in *maintenance*; empty: drop."""
    if not any(weights.values()) or (drop and no_backend_left(weights, down, maintenance)):
        return ()
    base = _base(tuple(sorted(weights.items())), slots)
    here = [a for a in maintenance if a.backend in weights]
    return with_maintenance(base, weights, down, here) if down or here else base


@lru_cache(maxsize=4096)
def _base(weights: tuple[tuple[str, int], ...], slots: int) -> tuple[str, ...]:
    return assign(dict(weights), slots)
