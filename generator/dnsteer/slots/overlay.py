"""Slots while some backends are down or drained: their slots, and only these, go to the others."""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from dnsteer.slots.assignment import hand_out, place
from dnsteer.slots.maintenance import DRAINED, Maintenance


def overlay(base: Sequence[str], weights: Mapping[str, int], down: Collection[str]) -> tuple[str, ...]:
    """*base* with the slots of members that are *down* handed to the members that are up.

    How many each takes over: slot by slot, the member that is then furthest below its share by weight. Which: by the same
    ranking as in `assign`, so that most slots handed out stay where they are when a further member goes down. A slot of a
    member that is up never moves, and a member of weight 0 takes over none. The result depends on *base*, not on what was
    down before: with nothing down it is *base* again.

    When no member with a weight is up, *base* is returned as it is.
    """
    gone = set(down)
    return _handed(base, weights, gone, gone)


def without(
    base: Sequence[str], weights: Mapping[str, int], down: Collection[str], maintenance: Sequence[Maintenance]
) -> tuple[str, ...]:
    """*base* with the members that the spec has *down*, and then one after the other those in *maintenance*, taken out.

    Each entry moves the slots that its backend holds by then, and no others, so that taking one more backend out moves
    exactly its own share, and taking the last one back in moves exactly that back. Of a drain on its way only the part that
    is gone has left, always the same slots first. What would leave nobody is left out: the slots stay as they were before.

    In the end nobody who is wholly out has a slot while somebody with a weight is there: neither the one whose drain was
    overtaken by a failure, nor the last one that went while others were still on their way.
    """
    table, away = overlay(base, weights, down), set(down)
    held: dict[int, str] = {}
    for entry in maintenance:
        away.add(entry.backend)
        if entry.gone >= DRAINED:  # what an earlier drain of it has not come to yet goes now
            held = {slot: name for slot, name in held.items() if name != entry.backend}
        own = [slot for slot, name in enumerate(table) if name == entry.backend]
        for slot in _later(own, entry):
            held.setdefault(slot, entry.backend)
        # Those after it are taken out as if it were gone altogether, so that its further steps move its own slots alone.
        table = _handed(table, weights, away, {entry.backend})
    out = {*down, *(a.backend for a in maintenance if a.gone >= DRAINED)}
    return _handed([held.get(slot, name) for slot, name in enumerate(table)], weights, out, out)


def nobody_left(weights: Mapping[str, int], down: Collection[str], maintenance: Sequence[Maintenance]) -> bool:
    """Whether every member with a weight is down, or drained to the end."""
    away = {*down, *(a.backend for a in maintenance if a.gone >= DRAINED)}
    return all(name in away for name, weight in weights.items() if weight)


def _handed(
    base: Sequence[str], weights: Mapping[str, int], away: Collection[str], leaving: Collection[str]
) -> tuple[str, ...]:
    """*base* with the slots of members that are *leaving* handed to those that are not *away*."""
    takers = {name: weight for name, weight in weights.items() if weight > 0 and name not in away}
    free = [slot for slot, name in enumerate(base) if name in leaving]
    if not free or not takers:
        return tuple(base)
    owners = hand_out(free, _wants(base, takers, len(free)), takers, len(base))
    return tuple(owners.get(slot, name) for slot, name in enumerate(base))


def _later(own: Sequence[int], entry: Maintenance) -> list[int]:
    """Those of a backend's *own* slots that its drain has not come to yet."""
    if entry.gone >= DRAINED:
        return []
    order = sorted(own, key=lambda slot: hashlib.blake2b(f"{entry.backend}\0{slot}".encode(), digest_size=8).digest())
    return order[-(-len(order) * entry.gone // DRAINED) :]


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
