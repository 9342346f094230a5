"""Which slots busy backends give to another one that has none of its own, and which they get back: a pure function.

As in P4Mite (an accelerator beside a server takes new connections while the server is above a threshold), by slots: those of
a slot go over together. Between the thresholds nothing moves, and a slot only goes from its backend and back to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dnsteer.agent.balance.decide import Counted, Moves

_LESS = 0.1
"""The part by which a backend must bear less than a busy `to`, so that slots do not go back and forth between the two."""


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

    A backend whose metric is not known, or that is out of service, neither gives nor gets. `to` gets no more while it bears
    more than who would give; and while it is above the level itself, those that bear less by _LESS get theirs back.
    """
    packets = (
        {slot: sum(c.packets[slot] for c in counted) for slot in range(len(counted[0].packets))} if counted else {}
    )
    if not any(packets.values()):
        packets = dict.fromkeys(packets, 1.0)  # nobody asks: slots are equal
    now, moved = dict(given), dict[int, None]()
    to_is_in = any(rules.to in c.weights for c in counted)
    bears = metric.get(rules.to, 0.0)
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
        load = sum(packets[slot] for slot in has)
        if value > rules.above and to_is_in and bears < value:
            busiest = busiest or name
            part, candidates = min(rules.change, 1 - middle / value), [s for s in has[:-1] if packets[s]]
            to = rules.to
        elif away and (value < rules.below or (bears > rules.above and value < bears * (1 - _LESS))):
            part, candidates = min(rules.change, max(middle, bears) / value - 1 if value else 1.0), away
            load, to = max(load, 1.0), ""
        else:
            continue
        for slot in _some(candidates, packets, load * part, most - len(moved)):
            moved[slot] = None
            if to:
                now[slot] = to
            else:
                now.pop(slot)
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
