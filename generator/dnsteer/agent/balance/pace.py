"""How much of the load of each backend moves at once: a metric follows what moved after a while only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass
class Pace:
    """What each backend may give, and get, in one interval, in the unit of packets.

    A slot with more than that goes alone, when its backend has *waited* so many intervals that what it may give adds up.
    """

    gives: Mapping[str, float]
    gets: Mapping[str, float]
    waited: Mapping[str, int]
    _gave: dict[str, float] = field(default_factory=dict)
    _got: dict[str, float] = field(default_factory=dict)

    def allows(self, packets: float, owner: str, to: str) -> bool:
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
