# SPDX-License-Identifier: Apache-2.0
"""Weights that a running pool has instead of the spec's: the slots with them, and on the way to them. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby

from dnsteer.slots.assignment import assign
from dnsteer.slots.maintenance import DRAINED, Maintenance
from dnsteer.slots.membership import Membership
from dnsteer.slots.takeover import not_yet_gone

Weights = Mapping[str, int]


def reweighted(
    weights: Weights,
    slots: int,
    given: Sequence[Maintenance],
    table_by: Callable[[Weights], tuple[str, ...]],
    out: Collection[str],
) -> tuple[str, ...]:
    """Return the owner of each slot of a pool with the *given* weights, one after the other; empty: nobody has a weight.

    *table_by* returns the owners for settled weights, of which at least one is positive, without those who are *out*. An
    entry that is done makes the table that of a spec with its weight. Until then the slots in which the table before it
    differs go over one by one, and no others move: which slots are next depends on the weights alone, so who leaves
    meanwhile moves their own slots only. An entry that would leave nobody with a weight moves nothing.
    """
    now, settled, kept = weights, weights, dict[int, str]()
    for entry, before, after in _steps(weights, given):
        now = after
        if not any(now.values()):
            continue
        settled = now
        if entry.gone < DRAINED and any(before.values()):
            old, new, later = table_by(before), table_by(now), _not_yet_over(entry, before, now, slots)
            for slot in range(slots):
                stays = slot in later or new[slot] in out
                if old[slot] != new[slot] and stays and old[slot] not in out:
                    kept.setdefault(slot, old[slot])
        elif not entry.weight:  # an earlier entry may still have held slots back for it
            kept = {slot: name for slot, name in kept.items() if name != entry.backend}
    if not any(settled.values()):
        return ()
    table = table_by(settled)
    return tuple(kept.get(slot, name) for slot, name in enumerate(table)) if kept else table


def in_force(weights: Weights, given: Sequence[Maintenance]) -> Iterator[Weights]:
    """Yield the weights by which a pool has slots: those in the end, and those before each that is still on its way."""
    yield weights_in_the_end(weights, given)
    for entry, before, _ in _steps(weights, given):
        if entry.gone < DRAINED:
            yield before


def weights_in_the_end(weights: Weights, given: Sequence[Maintenance]) -> Weights:
    """Return the weights when all of the *given* ones are done."""
    return {**weights, **{entry.backend: entry.weight or 0 for entry in given if entry.backend in weights}}


def base_table(weights: Weights, slots: int) -> tuple[str, ...]:
    """Return the assignment by *weights*, as `assign` does."""
    return _base(tuple(sorted(weights.items())), slots)


def _steps(weights: Weights, given: Sequence[Maintenance]) -> Iterator[tuple[Maintenance, Weights, Weights]]:
    """Yield each entry with the weights before and after it. The backends of a backup that are equally far count as one."""
    now = weights
    for _, entries in groupby(given, key=lambda a: a.gone if a.kind == "backup" else a.backend):
        together = list(entries)
        before = {**now, **{a.backend: a.was for a in together if a.was is not None}}
        now = {**now, **{a.backend: a.weight or 0 for a in together}}
        yield together[0], before, now


def _not_yet_over(entry: Maintenance, before: Weights, after: Weights, slots: int) -> set[int]:
    """Return the slots that an entry has not come to.

    Those that its weight moves and all others, which move only where somebody is out, are counted apart: so each of its
    steps moves about as many.
    """
    old, new = base_table(before, slots), base_table(after, slots)
    own = [slot for slot in range(slots) if old[slot] != new[slot]]
    others = [slot for slot in range(slots) if old[slot] == new[slot]]
    return {*not_yet_gone(own, entry), *not_yet_gone(others, entry)}


@lru_cache(maxsize=4096)
def _base(weights: tuple[tuple[str, int], ...], slots: int) -> tuple[str, ...]:
    return assign(dict(weights), slots)


def in_service(pool: Membership, entries: Iterable[Maintenance]) -> set[str]:
    """The backends of a pool that have slots, or keep some until they are drained. *entries* are those of its overlay."""
    mine = [entry for entry in entries if entry.service in ("", pool.service)]
    weights = weights_in_the_end(pool.weights, [entry for entry in mine if entry.weight is not None])
    out = {entry.backend for entry in mine if entry.takes_out and entry.gone >= DRAINED}
    return {name for name, weight in weights.items() if weight and name not in out and name not in pool.down}
