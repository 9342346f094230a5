"""Slots while some backends are down: their slots, and only these, go to the others."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from dnsteer.plan.slots import hand_out, place


def overlay(base: Sequence[str], weights: Mapping[str, int], down: Collection[str]) -> tuple[str, ...]:
    """*base* with the slots of members that are *down* handed to the members that are up.

    How many each takes over: slot by slot, the member that is then furthest below its share by weight. Which: by the same
    ranking as in `assign`, so that most slots handed out stay where they are when a further member goes down. A slot of a
    member that is up never moves, and a member of weight 0 takes over none. The result depends on *base*, not on what was
    down before: with nothing down it is *base* again.

    When no member with a weight is up, *base* is returned as it is.
    """
    gone = set(down)
    takers = {name: weight for name, weight in weights.items() if weight > 0 and name not in gone}
    free = [slot for slot, name in enumerate(base) if name in gone]
    if not free or not takers:
        return tuple(base)
    owners = hand_out(free, _wants(base, takers, len(free)), takers, len(base))
    return tuple(owners.get(slot, name) for slot, name in enumerate(base))


def _wants(base: Sequence[str], takers: Mapping[str, int], free: int) -> dict[str, int]:
    """How many of *free* slots each of *takers* takes over.

    Going to the member furthest below its share each time gives the least sum of squared deviations from the shares that
    the slots already held allow. That is the largest remainders of `quotas` unless a member holds more than those.
    """
    held = Counter(name for name in base if name in takers)
    slots, total = sum(held.values()) + free, sum(takers.values())
    # (slots held - share) * total, so that it is a whole number
    queue = [(held[name] * total - slots * weight, place(name)) for name, weight in takers.items()]
    heapq.heapify(queue)
    wants: Counter[str] = Counter()
    for _ in range(free):
        above, (digest, name) = queue[0]
        wants[name] += 1
        heapq.heapreplace(queue, (above + total, (digest, name)))
    return wants
