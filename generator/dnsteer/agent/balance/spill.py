"""Which slots busy backends give to another one that has none of its own, and which they get back: a pure function.

As in P4Mite (an accelerator beside a server takes new connections while the server is above a threshold), by slots: those of
a slot go over together. Between the thresholds nothing moves, and a slot only goes from its backend and back to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from dnsteer.agent.balance.decide import Counted, Moves

_MORE = 0.05
"""The part by which one must bear more than another, where both are busy, so that slots do not go back and forth."""


@dataclass(frozen=True)
class Rules:
    """The backend *to* gets slots of backends whose metric is *above* one level; those *below* another get theirs back.

    *change* is the most that moves at once, as a part of a backend's load.
    """

    to: str
    above: float
    below: float
    change: float


def decide_spill(
    counted: Sequence[Counted], given: Mapping[int, str], metric: Mapping[str, float], rules: Rules, most: int
) -> Moves:
    """Return the slots that `to` should have, given those that it has. At most *most* slots move.

    A backend whose metric is not known, or that is out of service, neither gives nor gets. `to` gets what brings it to
    the level at most, by what it bears for the load that it has. Above that level it gets single slots, and only of who
    bears more by _MORE; and those that bear so much less get theirs back.
    """
    packets = (
        {slot: sum(c.packets[slot] for c in counted) for slot in range(len(counted[0].packets))} if counted else {}
    )
    if not any(packets.values()):
        packets = dict.fromkeys(packets, 1.0)  # nobody asks: slots are equal
    now, moved = dict(given), dict[int, None]()
    bears = metric.get(rules.to, 0.0)
    has_now = sum(packets[slot] for slot in given if slot in packets)
    room = has_now * (rules.above / bears - 1) if has_now and bears else inf
    to_is_in = any(rules.to in c.weights for c in counted)
    busiest, middle = "", (rules.above + rules.below) / 2
    for name in sorted(
        {name for c in counted for name in c.weights} - {rules.to}, key=lambda n: (-metric.get(n, 0), n)
    ):
        value = metric.get(name)
        if value is None:
            continue
        own = [slot for slot in packets if any(c.natural[slot] == name for c in counted)]
        has = sorted((s for s in own if s not in now), key=lambda s: (-packets[s], s))
        away = sorted((s for s in own if s in now), key=lambda s: (-packets[s], s))
        load, most_now = sum(packets[slot] for slot in has), most - len(moved)
        may = room > 0 if bears <= rules.above else bears * (1 + _MORE) < value
        if value > rules.above and to_is_in and may:
            busiest = busiest or name
            wanted = min(load * min(rules.change, 1 - middle / value), max(room, 0.0))
            for slot in _some([s for s in has[:-1] if packets[s]], packets, wanted, most_now):
                moved[slot], now[slot] = None, rules.to
                room -= packets[slot]
        elif away and (value < rules.below or (bears > rules.above and bears > value * (1 + _MORE))):
            part = min(rules.change, max(middle, bears) / value - 1 if value else 1.0)
            for slot in _some(away, packets, max(load, 1.0) * part, most_now):
                moved[slot] = None
                del now[slot]
    return Moves(now, tuple(moved), busiest)


def _some(slots: Sequence[int], packets: Mapping[int, float], wanted: float, most: int) -> list[int]:
    """The fewest of the slots, those with the most packets first, that make up about as much as *wanted*; at least one."""
    found: list[int] = []
    have = 0.0
    for slot in slots:
        if len(found) < most and have + packets[slot] <= wanted:
            found.append(slot)
            have += packets[slot]
    return found or list(slots[-1:] if most > 0 else [])
