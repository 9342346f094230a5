# SPDX-License-Identifier: Apache-2.0
"""Slot assignment while backends are down or drained: only the slots of these backends move, to the others."""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from dnsteer.slots.assignment import hand_out, hash_rank
from dnsteer.slots.maintenance import DRAINED, Maintenance


def with_members_down(base: Sequence[str], weights: Mapping[str, int], down: Collection[str]) -> tuple[str, ...]:
    """Return *base* with the slots of members that are *down* moved to the members that are up.

    How many each takes over: one slot at a time, the member furthest below its share by weight. Which slots: by the same
    ranking as in `assign`, so that most of the moved slots stay put when another member goes down. A slot of a member that
    is up never moves, and a member of weight 0 takes over none. The result depends on *base* alone, not on earlier outages:
    with nothing down it is *base* again.

    When no member with a weight is up, *base* is returned unchanged.
    """
    gone = set(down)
    return _moved_to_others(base, weights, gone, gone)


def with_maintenance(
    base: Sequence[str], weights: Mapping[str, int], down: Collection[str], maintenance: Sequence[Maintenance]
) -> tuple[str, ...]:
    """Return *base* without the members *down* in the spec, then without those in *maintenance*, one after the other.

    Each entry moves exactly the slots that its backend holds at that point. So taking one more backend out moves its own
    share only, and bringing the last one back moves exactly that share back. A drain in progress has moved only its *gone*
    part, always the same slots first. An entry that would leave no backend moves nothing.

    Afterwards no backend that is fully out holds a slot while a backend with a weight is in: neither one that failed during
    its drain, nor the last one taken out while other drains were in progress.
    """
    table, away = with_members_down(base, weights, down), set(down)
    kept: dict[int, str] = {}
    for entry in maintenance:
        away.add(entry.backend)
        if entry.gone >= DRAINED:  # an earlier drain of it may still have held slots back
            kept = {slot: name for slot, name in kept.items() if name != entry.backend}
        own = [slot for slot, name in enumerate(table) if name == entry.backend]
        for slot in not_yet_gone(own, entry):
            kept.setdefault(slot, entry.backend)
        # Later entries are computed as if it were fully gone, so that its next steps move only its own slots.
        table = _moved_to_others(table, weights, away, {entry.backend})
    out = {*down, *(a.backend for a in maintenance if a.gone >= DRAINED)}
    return _moved_to_others([kept.get(slot, name) for slot, name in enumerate(table)], weights, out, out)


def with_moved_slots(
    table: Sequence[str], moved: Sequence[Maintenance], outages: Sequence[Maintenance]
) -> tuple[str, ...]:
    """Return *table* with the slots that backends were given to balance load, one entry after the other.

    A backend that is out has none of them: they are whose they would be without; on its way out or back it has a part.
    """
    owners = list(table)
    for entry in moved:
        taken: Sequence[int] = [slot for slot in entry.slots if slot < len(owners)]
        for outage in outages:
            if outage.backend == entry.backend:
                taken = not_yet_gone(taken, outage)
        for slot in taken:
            owners[slot] = entry.backend
    return tuple(owners)


def no_backend_left(weights: Mapping[str, int], down: Collection[str], maintenance: Sequence[Maintenance]) -> bool:
    """Whether every member with a weight is down or fully drained."""
    away = {*down, *(a.backend for a in maintenance if a.gone >= DRAINED)}
    return all(name in away for name, weight in weights.items() if weight)


def not_yet_gone(own: Sequence[int], entry: Maintenance) -> list[int]:
    """Return those of an entry's *own* slots that it has not moved yet."""
    if entry.gone >= DRAINED:
        return []
    order = sorted(own, key=lambda slot: hashlib.blake2b(f"{entry.backend}\0{slot}".encode(), digest_size=8).digest())
    return order[-(-len(order) * entry.gone // DRAINED) :]


def _moved_to_others(
    base: Sequence[str], weights: Mapping[str, int], away: Collection[str], leaving: Collection[str]
) -> tuple[str, ...]:
    """Return *base* with the slots of members *leaving* moved to the members not *away*."""
    takers = {name: weight for name, weight in weights.items() if weight > 0 and name not in away}
    free = [slot for slot, name in enumerate(base) if name in leaving]
    if not free or not takers:
        return tuple(base)
    owners = hand_out(free, _slots_to_take_over(base, takers, len(free)), takers, len(base))
    return tuple(owners.get(slot, name) for slot, name in enumerate(base))


def _slots_to_take_over(base: Sequence[str], takers: Mapping[str, int], free: int) -> dict[str, int]:
    """Return how many of the *free* slots each member of *takers* takes over.

    Giving each slot to the member furthest below its share minimises the sum of squared deviations from the shares, given
    the slots already held. The result equals the largest remainders of `quotas` unless a member holds more than that.
    """
    held = Counter(name for name in base if name in takers)
    slots, total = sum(held.values()) + free, sum(takers.values())
    # (slots held - share) * total, so that it is a whole number
    queue = [(held[name] * total - slots * weight, hash_rank(name)) for name, weight in takers.items()]
    heapq.heapify(queue)
    wants: Counter[str] = Counter()
    for _ in range(free):
        above, (digest, name) = queue[0]
        wants[name] += 1
        heapq.heapreplace(queue, (above + total, (digest, name)))
    return wants
