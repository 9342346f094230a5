"""Which slots of each service the check sends queries for: every one, or, where that is too many, what proves as much.

The tables choose in two steps: the service of a packet names its pool and copies the bits of the slot, then pool and slot
name the backend. So each slot is asked once for each pool, forwarding mode, family and protocol, and the further services of
such a set by as few slots as show that every bit of the slot is copied to its place and that every backend is reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dnsteer.proof.reference.service import Service, ServiceKey
from dnsteer.spec.model.spec import Spec

_T = TypeVar("_T")
ALL_SLOTS = 100_000
"""Slots of all services together up to which every one is asked: some fifteen seconds."""
HASH_TRIES = 4
"""Queries per slot of a pool whose slots the switch's hash chooses."""


@dataclass(frozen=True)
class Coverage:
    """The slots to ask of each service, and the same in words."""

    slots: Mapping[ServiceKey, Sequence[int]]
    description: str

    @property
    def queries(self) -> int:
        """How many queries that makes at least: some slots are asked several times."""
        return sum(map(len, self.slots.values()))


def coverage(spec: Spec, services: Mapping[ServiceKey, Service], per_service: int | None) -> Coverage:
    """What to ask of each of *services*; no more than *per_service* slots each, where that is given."""
    if per_service is not None:
        sample = {key: evenly_spaced(range(len(service.slots)), per_service) for key, service in services.items()}
        return Coverage(sample, f"at most {per_service} slots of each service (a sample)")
    if sum(len(service.slots) for service in services.values()) <= ALL_SLOTS:
        return Coverage(
            {key: range(len(service.slots)) for key, service in services.items()}, "every slot of each service"
        )
    slots: dict[ServiceKey, Sequence[int]] = {}
    known: set[object] = set()
    for key, service in services.items():
        alike = spec.vips[service.vip].pool, service.mode, service.version, service.protocol
        slots[key] = sufficient_slots(service) if alike in known else range(len(service.slots))
        known.add(alike)
    description = (
        "every slot once for each pool, family and protocol; of further services each bit of the slot and each backend"
    )
    return Coverage(slots, description)


def sufficient_slots(service: Service) -> Sequence[int]:
    """Slots with each bit alone, none and all of them, and the first slot of each backend.

    Where the slot is not predicted, as many queries as that.
    """
    count = len(service.slots)
    bits = [1 << bit for bit in range(count.bit_length() - 1)]
    first: dict[str, int] = {}
    for slot, backend in enumerate(service.slots):
        first.setdefault(backend.name, slot)
    chosen = sorted({0, count - 1, *bits, *first.values()})
    return chosen if service.selection.predicts_slot else range(len(chosen))


def evenly_spaced(items: Sequence[_T], limit: int | None) -> Sequence[_T]:
    """As many of *items* as the limit allows, evenly spread."""
    if limit is None or limit >= len(items):
        return items
    return [items[i * len(items) // limit] for i in range(limit)]
