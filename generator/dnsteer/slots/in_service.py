"""Which backends of a pool are in service."""

from __future__ import annotations

from collections.abc import Iterable

from dnsteer.slots.maintenance import DRAINED, Maintenance
from dnsteer.slots.membership import Membership
from dnsteer.slots.weights import weights_in_the_end


def in_service(pool: Membership, entries: Iterable[Maintenance]) -> set[str]:
    """The backends of a pool that have slots, or keep some until they are drained. *entries* are those of its overlay."""
    mine = [entry for entry in entries if entry.service in ("", pool.service)]
    weights = weights_in_the_end(pool.weights, [entry for entry in mine if entry.weight is not None])
    out = {entry.backend for entry in mine if entry.takes_out and entry.gone >= DRAINED}
    return {name for name, weight in weights.items() if weight and name not in out and name not in pool.down}
