"""Slots while some backends are down: their slots, and only these, go to the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from dnsteer.plan.slots import hand_out, quotas


def overlay(base: Sequence[str], weights: Mapping[str, int], down: Collection[str]) -> tuple[str, ...]:
    """*base* with the slots of members that are *down* handed to the members that are up.

    The members that are up end as near to their weights as the slots they keep allow (`_totals`), and take over slots by the
    same ranking as in `assign`, so that most slots handed out stay where they are when a further member goes down. A slot
    of a member that is up never moves, and a member of weight 0 takes over none. The result depends on *base* alone, not on
    what was down before: with nothing down it is *base* again.

    When no member with a weight is up, *base* is returned as it is. Raises ValueError for a negative weight.
    """
    up = {name: weight for name, weight in weights.items() if name not in down}
    gone = set(down)
    free = [slot for slot, name in enumerate(base) if name in gone]
    if not free or not any(up.values()):
        return tuple(base)
    held = Counter(name for name in base if name not in gone)
    totals = _totals(up, held, len(base) - sum(held[name] for name in held if name not in up))
    owners = hand_out(free, {name: total - held[name] for name, total in totals.items()}, up, len(base))
    return tuple(owners.get(slot, name) for slot, name in enumerate(base))


def _totals(up: Mapping[str, int], held: Mapping[str, int], slots: int) -> dict[str, int]:
    """How many of *slots* slots each member that is up ends with: by weight, but nobody with fewer than it *held*.

    Largest remainders, as in `quotas`; who would have to give up slots keeps what it has, and the rest is shared again.
    """
    out: dict[str, int] = {}
    open_members = dict(up)
    while True:
        shares = quotas(open_members, slots)
        keepers = [name for name, share in shares.items() if share < held[name]]
        if not keepers:
            return out | shares
        for name in keepers:
            out[name] = held[name]
            slots -= held[name]
            del open_members[name]
