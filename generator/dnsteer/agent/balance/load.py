"""Packets of each slot lately, from counters that only grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Numbers = Mapping[int, int]
"""Packets so far, by slot."""


class SlotLoad:
    """What was counted of one pool. Old packets count half after *half_life* seconds.

    Counts are by slot, whoever has it, so a slot that has moved takes its past along.
    """

    def __init__(self, half_life: float) -> None:
        self._half_life = half_life
        self._last: dict[int, Numbers] = {}
        self._time: float | None = None
        self._lately: dict[int, dict[int, float]] = {}

    def add(self, found: Mapping[int, Numbers], time: float) -> None:
        """Take in the counters of each membership of the pool, by its number, at a *time* in seconds."""
        if self._time is not None:
            keeps = 0.5 ** ((time - self._time) / self._half_life)
            for number, packets in found.items():
                last, lately = self._last.get(number), self._lately.setdefault(number, {})
                for slot in lately:
                    lately[slot] *= keeps
                for slot, total in packets.items():
                    if last is not None:
                        before = last.get(slot, 0)
                        lately[slot] = lately.get(slot, 0.0) + (total - before if total >= before else total)
        self._last, self._time = {**found}, time

    def lately(self, number: int, slots: int) -> Sequence[float]:
        """The packets of each of a membership's *slots*."""
        lately = self._lately.get(number, {})
        return [lately.get(slot, 0.0) for slot in range(slots)]
