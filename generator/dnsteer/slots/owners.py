# SPDX-License-Identifier: Apache-2.0
"""The backend of each slot: the base assignment of the pool's members with the overlay applied."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from dnsteer.slots.maintenance import DRAINED, Maintenance
from dnsteer.slots.membership import Membership
from dnsteer.slots.takeover import no_backend_left, with_maintenance, with_moved_slots
from dnsteer.slots.weights import Weights, base_table, in_force, reweighted, weights_in_the_end


def owners_of(members: Membership, maintenance: Sequence[Maintenance]) -> tuple[str, ...]:
    """Return the backend's name for each slot of a pool; empty when no backend is left and the pool then drops."""
    drop, here = members.on_all_down == "drop", [a for a in maintenance if a.service in ("", members.service)]
    return owners(members.weights, members.slots, members.down, here, drop=drop)


@lru_cache(maxsize=128)
def known_owners_of(members: Membership, maintenance: tuple[Maintenance, ...]) -> tuple[str, ...]:
    """The same, remembered: a change looks at the same before and after several times."""
    return owners_of(members, maintenance)


def owners(
    weights: Mapping[str, int], slots: int, down: Collection[str], maintenance: Sequence[Maintenance], *, drop: bool
) -> tuple[str, ...]:
    """Return the member's name for each slot, given members *down* in the spec or in *maintenance*; empty: drop.

    Weights that were given count first, whenever that was; then those who are out leave. Slots that balance load are with
    the backends that got them as long as these are in service.
    """
    given, outages = _parts(weights, maintenance)
    if drop and _nobody_left(weights, down, given, outages):
        return ()

    def table_by(settled: Weights) -> tuple[str, ...]:
        base = base_table(settled, slots)
        return with_maintenance(base, settled, down, outages) if down or outages else base

    out = {*down, *(a.backend for a in outages if a.gone >= DRAINED)}
    table = reweighted(weights, slots, given, table_by, out)
    moved = [a for a in maintenance if a.slots and a.backend not in down]
    if not table or not moved:
        return table
    serving = weights_in_the_end(weights, given)
    return with_moved_slots(table, [a for a in moved if serving.get(a.backend) or _spills(a, given)], outages)


def _spills(entry: Maintenance, given: Sequence[Maintenance]) -> bool:
    """Whether an entry gives slots to a backend whose weight is 0 by the spec, and was not made 0 by a command."""
    return entry.kind == "spill" and all(a.backend != entry.backend for a in given)


def no_backend(members: Membership, maintenance: Sequence[Maintenance]) -> bool:
    """Whether no backend of a pool is left: each has no weight, is down or is fully drained."""
    here = [a for a in maintenance if a.service in ("", members.service)]
    return _nobody_left(members.weights, members.down, *_parts(members.weights, here))


def _nobody_left(
    weights: Weights, down: Collection[str], given: Sequence[Maintenance], outages: Sequence[Maintenance]
) -> bool:
    return all(no_backend_left(each, down, outages) for each in in_force(weights, given))


def _parts(weights: Weights, maintenance: Sequence[Maintenance]) -> tuple[list[Maintenance], list[Maintenance]]:
    """Return the entries of members that give weights, and those that take members out."""
    here = [a for a in maintenance if a.backend in weights]
    return [a for a in here if a.weight is not None], [a for a in here if a.takes_out]
