# SPDX-License-Identifier: Apache-2.0
"""The base assignment: exact shares by weight, little movement. Pure functions of names, weights and size.

How many slots a member gets: largest remainders (Hamilton's method), so the counts are as near to the weights as whole
slots can be.

Which slots: every member ranks all slots by a hash of its own name, as in rendezvous hashing (Thaler & Ravishankar, "Using
name-based mappings to increase hit rates", IEEE/ACM Trans. Networking 6(1), 1998). The members' choices come up in one
order, first choices first, heavier members sooner; a choice is granted while its slot is free and its member wants slots.
The result is the stable matching of members and slots (Gale & Shapley, "College admissions and the stability of
marriage", Amer. Math. Monthly 69(1), 1962): no member would rather have a slot that another got by a later choice. It
has one answer, and a change of one member touches only the choices that come up after its own. docs/slots.md compares it.
"""

from __future__ import annotations

import hashlib
import heapq
import struct
from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import gcd, isqrt


def quotas(weights: Mapping[str, int], slots: int) -> dict[str, int]:
    """Return how many of *slots* slots each member of *weights* gets, in the order of *weights*; the sum is *slots*.

    Largest remainders (Hamilton's method): each member gets the integer part of slots * weight / sum of weights; the
    remaining slots go one each to the largest fractions, ties by the hash of the name. A member of weight 0 gets none.
    Raises ValueError when *slots* is below 1, a weight is negative or no weight is positive.
    """
    total = sum(_checked(weights, slots).values())
    out = {name: weight * slots // total for name, weight in weights.items()}
    fractions = sorted(out, key=lambda name: (-(weights[name] * slots % total), hash_rank(name)))
    for name in fractions[: slots - sum(out.values())]:
        out[name] += 1
    return out


def assign(weights: Mapping[str, int], slots: int) -> tuple[str, ...]:
    """Return the member of each of *slots* slots; every member has exactly its quota.

    The result is the same on every machine and for any order of *weights*. Raises ValueError as `quotas` does.
    """
    owners = hand_out(range(slots), quotas(weights, slots), weights, slots)
    return tuple(owners[slot] for slot in range(slots))


def worst_share(weights: Mapping[str, int], slots: int) -> tuple[str, Fraction]:
    """Return the member whose share of the slots deviates most from its weight's share, and the relative deviation.

    Negative means too few slots, -1 none at all. Members of weight 0 do not count. Raises ValueError as `quotas` does.
    """
    total, counts = sum(weights.values()), quotas(weights, slots)
    furthest, off, of = "", 0, 1  # compared as whole numbers: fractions take ten times as long
    for name, weight in weights.items():
        if not weight:
            continue
        error = counts[name] * total - slots * weight
        if (abs(error) * of, name) > (abs(off) * weight, furthest):
            furthest, off, of = name, error, weight
    return furthest, Fraction(off, slots * of)


def hand_out(free: Iterable[int], wants: Mapping[str, int], weights: Mapping[str, int], slots: int) -> dict[int, str]:
    """Distribute the *free* slots of a pool of *slots* slots to its members, *wants* to each; return the owner by slot.

    *wants* must add up to the number of free slots and be 0 for members of weight 0.
    """
    names = sorted((name for name, want in wants.items() if want), key=hash_rank)
    left = [wants[name] for name in names]
    steps = _steps([weights[name] for name in names])
    choices = [_ranking(name, slots) for name in names]
    open_slots, owners = set(free), {}
    # One entry per member: when its next choice comes up, the member's index, the choice's rank.
    queue = [(step, index, 0) for index, step in enumerate(steps)]
    heapq.heapify(queue)
    while queue:
        _, index, rank = queue[0]
        ranking = choices[index]
        if ranking[rank] in open_slots:
            open_slots.remove(ranking[rank])
            owners[ranking[rank]] = names[index]
            left[index] -= 1
        if not left[index]:
            heapq.heappop(queue)
            continue
        while ranking[rank] not in open_slots:  # a slot that is taken stays taken
            rank += 1
        heapq.heapreplace(queue, ((2 * rank + 1) * steps[index], index, rank))
    return owners


def hash_rank(name: str) -> tuple[bytes, str]:
    """Return a sort key that orders names by their hash, so neither alphabetically nor as in the spec."""
    return hashlib.sha256(name.encode()).digest(), name


def _steps(weights: list[int]) -> list[int]:
    """Half the time between two choices of a member, for each weight: the choice of rank r comes up at (2 r + 1) steps.

    A step is 1 / sqrt(weight). With 1 / weight a changed weight would move all of its member's choices, with 1 light and
    heavy members would compete for the same slots at the end; the root moves the fewest slots of the exponents measured.
    Whole numbers (32 bits of fraction) so that no machine rounds differently; common factors drop out, so weights 10 and 20
    give what 1 and 2 give.
    """
    common = gcd(*weights)
    return [isqrt((1 << 64) // (weight // common)) for weight in weights]


def _ranking(name: str, slots: int) -> list[int]:
    """Return all slots in the order in which the member *name* prefers them: a permutation derived from the name."""
    drawn = struct.unpack(f"<{slots}I", hashlib.shake_256(b"slots\0" + name.encode()).digest(4 * slots))
    return sorted(range(slots), key=drawn.__getitem__)


def _checked(weights: Mapping[str, int], slots: int) -> Mapping[str, int]:
    if slots < 1:
        raise ValueError(f"{slots} slots; want at least 1")
    for name, weight in weights.items():
        if weight < 0:
            raise ValueError(f"weight of {name} is {weight}; want 0 or more")
    if not any(weights.values()):
        raise ValueError("no member has a weight")
    return weights
