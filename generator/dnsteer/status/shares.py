"""How the packets of a pool are spread over its backends, beside what their weights and slots ask for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dnsteer.status.pools import BackendView, PoolView


@dataclass(frozen=True)
class Share:
    """A backend with its part of the pool's packets, slots and weights, 0 to 1; None where that is not known.

    The part of the weights is that which it should have with everybody in service.
    """

    pool: PoolView
    backend: BackendView
    packets: float | None
    slots: float | None
    weight: float | None

    @property
    def name(self) -> str:
        """POOL/BACKEND, with the family or service of a pool that has several tables of slots."""
        return f"{self.pool.title.removeprefix('pool ')}/{self.backend.name}"

    @property
    def away(self) -> float:
        """How far the packets are from what the slots ask for, 0 to 1."""
        return abs(self.packets - self.slots) if self.packets is not None and self.slots is not None else 0.0

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        parts = {"share": self.packets, "slots_share": self.slots, "weight_share": self.weight}
        rounded = {name: None if part is None else round(part, 4) for name, part in parts.items()}
        return {"pool": self.pool.name, "title": self.pool.title, **self.backend.as_json(), **rounded}


def shares(pools: Iterable[PoolView]) -> list[Share]:
    """All backends of all pools, in the order of the spec."""
    return [share for pool in pools for share in _of_pool(pool)]


def _of_pool(pool: PoolView) -> list[Share]:
    packets, weights = pool.rate.packets, sum(map(_weight, pool.backends))
    return [
        Share(
            pool,
            b,
            _part(b.rate.packets, packets),
            _part(b.slots, pool.slots),
            _part(_weight(b), weights),
        )
        for b in pool.backends
    ]


def _weight(backend: BackendView) -> int:
    return backend.weight if backend.given is None or backend.given.weight is None else backend.given.weight


def _part(value: float | None, whole: float | None) -> float | None:
    return value / whole if value is not None and whole else None
