# SPDX-License-Identifier: Apache-2.0
"""Which slots busy backends give to another one that has none of its own, and which they get back: a pure function.

As in P4Mite (an accelerator beside a server takes new connections while the server is above a threshold), by slots: those of
a slot go over together. Between the thresholds nothing moves, and a slot only goes from its backend and back to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from dnsteer.agent.balance.slot_moves import Moves, PoolCounts

_MORE = 0.05
"""The part by which one metric must exceed another, where both are busy, so that slots do not go back and forth."""


@dataclass(frozen=True)
class SpillRules:
    """The backend *to* gets slots of backends whose metric is *above* one level; those *below* another get theirs back.

    *change* is the most that moves at once, as a part of a backend's load.
    """

    to: str
    above: float
    below: float
    change: float


def decide_spill(
    counted: Sequence[PoolCounts], given: Mapping[int, str], metric: Mapping[str, float], rules: SpillRules, most: int
) -> Moves:
    """Return the slots that `to` should have, given those that it has. At most *most* slots move.

    A backend whose metric is not known, or that is out of service, neither gives nor gets. `to` gets what brings it to
    the level at most, by its metric and the load that it has. Above that level it gets single slots, and only of backends
    whose metric is higher by _MORE; those whose metric is lower by as much get theirs back.
    """
    slots = _Slots(counted, given, metric, rules, most)
    busy, middle = slots.to_metric, (rules.above + rules.below) / 2
    busiest = ""
    for name in sorted(slots.givers, key=lambda n: (-metric[n], n)):
        value = metric[name]
        has, away = slots.of(name)
        load = sum(slots.packets[slot] for slot in has)
        if value > rules.above and slots.may_give(value):
            busiest = busiest or name
            wanted = min(load * min(rules.change, 1 - middle / value), max(slots.room, 0.0))
            slots.give([slot for slot in has[:-1] if slots.packets[slot]], wanted)
        elif away and (value < rules.below or slots.is_busier_than(value)):
            part = min(rules.change, max(middle, busy) / value - 1 if value else 1.0)
            slots.give_back(away, max(load, 1.0) * part)
    return Moves(slots.now, tuple(slots.moved), busiest)


class _Slots:
    """The slots of all backends in one decision, and those of them that `to` has *now*; *moved* are in order of their moves.

    *packets* are of each slot, *to_metric* is the metric of `to`, *room* the packets that bring it to the level *above*.
    *givers* are all others whose metric is known.
    """

    def __init__(
        self,
        counted: Sequence[PoolCounts],
        given: Mapping[int, str],
        metric: Mapping[str, float],
        rules: SpillRules,
        most: int,
    ) -> None:
        self.now, self.moved = dict(given), dict[int, None]()
        self.packets = _packets_by_slot(counted)
        self.to_metric = metric.get(rules.to, 0.0)
        has_now = sum(self.packets[slot] for slot in given if slot in self.packets)
        self.room = has_now * (rules.above / self.to_metric - 1) if has_now and self.to_metric else inf
        self.givers = {name for c in counted for name in c.weights if name != rules.to and metric.get(name) is not None}
        self._counted, self._rules, self._most = counted, rules, most
        self._in_service = any(rules.to in c.weights for c in counted)

    def of(self, name: str) -> tuple[list[int], list[int]]:
        """The slots that a backend has, and those of its own that `to` has; those with the most packets first."""
        own = [slot for slot in self.packets if any(c.natural[slot] == name for c in self._counted)]
        own.sort(key=lambda slot: (-self.packets[slot], slot))
        return [slot for slot in own if slot not in self.now], [slot for slot in own if slot in self.now]

    def may_give(self, value: float) -> bool:
        """Whether `to` takes slots of a backend with this metric."""
        if not self._in_service:
            return False
        return self.room > 0 if self.to_metric <= self._rules.above else self.to_metric * (1 + _MORE) < value

    def is_busier_than(self, value: float) -> bool:
        """Whether `to` is above the level, and its metric exceeds *value*, that of another backend."""
        return self.to_metric > self._rules.above and self.to_metric > value * (1 + _MORE)

    def give(self, slots: Sequence[int], wanted: float) -> None:
        """Give `to` some of these slots, with about as many packets as *wanted*."""
        for slot in _some(slots, self.packets, wanted, self._most - len(self.moved)):
            self.moved[slot], self.now[slot] = None, self._rules.to
            self.room -= self.packets[slot]

    def give_back(self, slots: Sequence[int], wanted: float) -> None:
        """Give some of these slots back to their backend."""
        for slot in _some(slots, self.packets, wanted, self._most - len(self.moved)):
            self.moved[slot] = None
            del self.now[slot]


def _packets_by_slot(counted: Sequence[PoolCounts]) -> dict[int, float]:
    """The packets of each slot in all pools together; where nobody asks, all slots have one."""
    packets = (
        {slot: sum(c.packets[slot] for c in counted) for slot in range(len(counted[0].packets))} if counted else {}
    )
    return packets if any(packets.values()) else dict.fromkeys(packets, 1.0)


def _some(slots: Sequence[int], packets: Mapping[int, float], wanted: float, most: int) -> list[int]:
    """The fewest of the slots, those with the most packets first, that make up about as much as *wanted*; at least one."""
    found: list[int] = []
    have = 0.0
    for slot in slots:
        if len(found) < most and have + packets[slot] <= wanted:
            found.append(slot)
            have += packets[slot]
    return found or list(slots[-1:] if most > 0 else [])
