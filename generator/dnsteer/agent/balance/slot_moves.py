# SPDX-License-Identifier: Apache-2.0
"""Which slots move so that each backend gets the packets that its weight says: a pure function of what was counted.

As in RSS++ (Barbette et al., CoNEXT 2019), what moves are the parts into which a hash has divided the clients, and few
of them: each step takes that one slot of the backend that is furthest above its share with which it and another backend are
as little above theirs as can be. Clients of a slot stay together, so a slot with more packets than a backend's share stays,
and its backend gives others away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt

CHANCE = 3.0
"""Standard deviations of a number of packets that chance makes: those of a Poisson process."""
_ENOUGH = 0.5
"""The part of the tolerance to which a backend is brought, so that the next few packets do not begin it anew."""
_ROUNDING = 1e-9
"""Part of a share by which a step must help at least: less is rounding, and a slot would go to and fro."""


@dataclass(frozen=True)
class PoolCounts:
    """The slots of a pool, or of a pool in one family or service: *packets* of each lately, and its backend.

    *natural* are the backends without balancing; *weights* are those of backends in service, which slots may go to.
    """

    packets: Sequence[float]
    owners: Sequence[str]
    natural: Sequence[str]
    weights: Mapping[str, float]


@dataclass(frozen=True)
class Moves:
    """The backend of each slot that balances, by slot, and what is *moved* now. *excess* is by which part the
    *hottest* backend got more than its share, and by which any of those that were too hot still does; chance included.
    *waited* is for how many intervals in a row backends had too much and gave next to nothing, where there is a pace.
    """

    given: Mapping[int, str]
    moved: tuple[int, ...] = ()
    hottest: str = ""
    excess: tuple[float, float] = (0.0, 0.0)
    waited: Mapping[str, int] = field(default_factory=dict)


def decide_moves(
    counted: Sequence[PoolCounts],
    given: Mapping[int, str],
    tolerance: float,
    most: int,
    chance: float = CHANCE,
    pace: Pace | None = None,
) -> Moves:
    """Return the slots that should be others' than by weight, given those that are now. At most *most* slots move.

    *tolerance* is a share of a backend's share, beyond the standard deviations of *chance*; *pace* bounds what moves at
    once. All that is *counted* has the same numbers of slots.
    """
    load = _Load([_Part(c, list(c.owners)) for c in counted], chance, pace)
    now, moved = dict(given), dict[int, None]()
    beyond = [name for name in load.want if load.beyond(name, tolerance)]
    if not beyond:
        return Moves(now)
    hottest = max(beyond, key=lambda name: (load.excess(name), name))
    excess = load.excess(hottest)
    while len(moved) < most:
        step = load.best_step(tolerance * _ENOUGH, set(moved))
        if step is None:
            break
        slot, to = step
        load.move(slot, to)
        moved[slot] = None
        if all(c.natural[slot] == to for c in counted if to in c.weights):
            now.pop(slot, None)
        else:
            now[slot] = to
    waited = pace.waiting(name for name in beyond if load.beyond(name, tolerance)) if pace is not None else {}
    return Moves(now, tuple(moved), hottest, (excess, max(map(load.excess, beyond))), waited)


@dataclass
class _Part:
    counted: PoolCounts
    owners: list[str]


@dataclass
class _Load:
    """Packets of each backend, with the slots as they would be."""

    parts: list[_Part]
    chance: float
    pace: Pace | None
    have: dict[str, float] = field(default_factory=dict)
    want: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part in self.parts:
            weights = part.counted.weights
            mine = [(name, n) for name, n in zip(part.owners, part.counted.packets, strict=True) if name in weights]
            total, weight = sum(n for _, n in mine), sum(weights.values())
            for name in weights:
                self.have.setdefault(name, 0.0)
                self.want[name] = self.want.get(name, 0.0) + total * weights[name] / weight
            for name, n in mine:
                self.have[name] += n

    def excess(self, name: str, more: float = 0.0) -> float:
        """The part by which a backend would have more than its share, with some packets *more*."""
        want = self.want[name]
        return (self.have[name] + more) / want - 1 if want else 0.0

    def beyond(self, name: str, tolerance: float) -> bool:
        """Whether a backend has more than the tolerance and chance account for."""
        want = self.want[name]
        return self.have[name] > want * (1 + tolerance) + self.chance * sqrt(want)

    def best_step(self, tolerance: float, done: set[int]) -> tuple[int, str] | None:
        """The slot that leaves the hottest backend that can be helped, and where it goes; None where nobody can be."""
        for name in sorted(self.want, key=lambda n: (-self.excess(n), n)):
            if not self.beyond(name, tolerance):
                continue
            best: tuple[float, float, bool, int, str] | None = None
            before = self.excess(name)
            for slot, packets in self._slots_of(name).items():
                if slot in done:
                    continue
                left = self.excess(name, -packets)
                for to, gets in self._targets(slot, name).items():
                    if self.pace is not None and not self.pace.can_move(packets, name, to):
                        continue
                    has = self.excess(to, gets)
                    step = max(left, has), has, self._is_away(slot, to), slot, to
                    if step[0] < before - _ROUNDING and (best is None or step < best):
                        best = step
            if best is not None:
                return best[3], best[4]
        return None

    def _is_away(self, slot: int, to: str) -> bool:
        """Whether a slot would be another backend's than without balancing."""
        return any(part.counted.natural[slot] != to for part in self.parts if to in part.counted.weights)

    def move(self, slot: int, to: str) -> None:
        """Give a slot to a backend, wherever it is a member."""
        for part in self.parts:
            if to in part.counted.weights:
                packets, owner = part.counted.packets[slot], part.owners[slot]
                if owner in part.counted.weights:
                    if self.pace is not None:
                        self.pace.move(packets, owner, to)
                    self.have[owner] -= packets
                    self.have[to] += packets
                    part.owners[slot] = to

    def _slots_of(self, name: str) -> dict[int, float]:
        found: dict[int, float] = {}
        for part in self.parts:
            for slot, owner in enumerate(part.owners):
                if owner == name and part.counted.packets[slot]:
                    found[slot] = found.get(slot, 0.0) + part.counted.packets[slot]
        return found

    def _targets(self, slot: int, owner: str) -> dict[str, float]:
        """The backends that a slot may go to, each with the packets that it would get by that."""
        found: dict[str, float] = {}
        for part in self.parts:
            if part.owners[slot] not in part.counted.weights:
                continue
            for name, weight in part.counted.weights.items():
                if weight and name != owner:
                    gets = part.counted.packets[slot] if part.owners[slot] != name else 0.0
                    found[name] = found.get(name, 0.0) + gets
        return found


@dataclass
class Pace:
    """What each backend may give, and get, in one interval, in the unit of packets: a metric follows moves only later.

    A slot with more than that goes alone, when its backend has *waited* so many intervals that what it may give adds up.
    """

    gives: Mapping[str, float]
    gets: Mapping[str, float]
    waited: Mapping[str, int]
    _gave: dict[str, float] = field(default_factory=dict)
    _got: dict[str, float] = field(default_factory=dict)

    def can_move(self, packets: float, owner: str, to: str) -> bool:
        """Whether a slot with so many *packets* may go from its *owner* to another backend now."""
        intervals = 1 + self.waited.get(owner, 0)
        return all(
            done.get(name, 0.0) + packets <= most[name] or (name not in done and packets <= most[name] * intervals)
            for done, most, name in ((self._gave, self.gives, owner), (self._got, self.gets, to))
        )

    def move(self, packets: float, owner: str, to: str) -> None:
        """Note that a slot goes."""
        self._gave[owner] = self._gave.get(owner, 0.0) + packets
        self._got[to] = self._got.get(to, 0.0) + packets

    def waiting(self, names: Iterable[str]) -> Mapping[str, int]:
        """How long those of *names* have waited now that gave less than half of what they may."""
        return {
            name: self.waited.get(name, 0) + 1 for name in names if self._gave.get(name, 0.0) < self.gives[name] / 2
        }
