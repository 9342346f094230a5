# SPDX-License-Identifier: Apache-2.0
"""Which slots of each service the check queries: all, or, if those are too many, a subset that proves as much.

The tables choose in two steps: a packet's service determines its pool and copies the bits of the slot; then pool and slot
determine the backend. So every slot is queried once for each pool, forwarding mode, family and protocol. For the other
services of such a set, a few slots suffice to show that every bit is copied to its place and that every backend is reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dnsteer.proof.reference.service import AddressService, ServiceKey
from dnsteer.spec.model.spec import Spec

_T = TypeVar("_T")
ALL_SLOTS = 100_000
"""Up to this many slots over all services, every slot is queried, which takes some fifteen seconds."""
HASH_TRIES = 4
"""Queries per slot of a pool whose slots the switch's hash chooses."""


@dataclass(frozen=True)
class Coverage:
    """The slots to query of each service, and a description of that choice."""

    slots: Mapping[ServiceKey, Sequence[int]]
    description: str

    @property
    def queries(self) -> int:
        """The minimum number of queries: some slots are queried several times."""
        return sum(map(len, self.slots.values()))


def coverage(spec: Spec, services: Mapping[ServiceKey, AddressService], per_service: int | None) -> Coverage:
    """Choose the slots to query of each of *services*; at most *per_service* slots each, if given."""
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


def sufficient_slots(service: AddressService) -> Sequence[int]:
    """Slots whose numbers have a single bit set, no bit or all bits, and the first slot of each backend.

    If the slot is not predicted, that many queries.
    """
    count = len(service.slots)
    bits = [1 << bit for bit in range(count.bit_length() - 1)]
    first: dict[str, int] = {}
    for slot, backend in enumerate(service.slots):
        first.setdefault(backend.name, slot)
    chosen = sorted({0, count - 1, *bits, *first.values()})
    return chosen if service.selection.predicts_slot else range(len(chosen))


def evenly_spaced(items: Sequence[_T], limit: int | None) -> Sequence[_T]:
    """Return at most *limit* of *items*, evenly spaced; all of them without a limit."""
    if limit is None or limit >= len(items):
        return items
    return [items[i * len(items) // limit] for i in range(limit)]
