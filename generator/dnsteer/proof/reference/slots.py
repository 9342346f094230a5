# SPDX-License-Identifier: Apache-2.0
"""Compute the backend of each slot from the documented rule (docs/slots.md), without the code that makes the tables.

`dnsteer.plan` computes the same for the flows; since no code is shared, a mistake there shows up as a difference. The
functions below follow the items of that page's section "By hand".
"""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from dnsteer.spec.model.spec import Flavor, Pool, Selection, Switch

_THOUSANDTHS = 1000
_NUMBER_BYTES = 4
"""A ranking gives each slot a number of 32 bits."""
_FREE = ""
"""Marks a slot of a table that has no backend yet."""


class Outage(Protocol):
    """A backend that a command took out of its pool or gave another *weight*; None: it took it out.

    *gone* thousandths of the slots that move have moved; 1000: all. *was* is the weight before, None for that of the spec.
    """

    @property
    def backend(self) -> str:
        """The backend's name."""

    @property
    def gone(self) -> int:
        """Thousandths of the slots that have moved."""

    @property
    def kind(self) -> str:
        """The command; backends of a `backup` join and leave together."""

    @property
    def weight(self) -> int | None:
        """The weight that was given; None when the backend is out."""

    @property
    def was(self) -> int | None:
        """The weight before, where it is not the spec's."""

    @property
    def slots(self) -> Sequence[int]:
        """The slots that it was given to balance load; of all other kinds none."""


class PoolOutage(Outage, Protocol):
    """An outage that also has the name of the pool, and of the service that it is about, such as `853/tcp`; empty: all."""

    @property
    def pool(self) -> str:
        """The pool's name."""

    @property
    def service(self) -> str:
        """The service."""

    @property
    def returns(self) -> str:
        """When its slots began to go back; empty: they do not."""


def number_of_slots(switch: Switch, pool: Pool, sharing: int) -> int:
    """The number of slots of a pool that *sharing* services have: the spec's, or that of section "How many slots" there."""
    if pool.slots is not None:
        return pool.slots
    if pool.selection is Selection.DP_HASH and switch.flavor is Flavor.OVS_DOCA:
        return 16
    number = 256
    if pool.selection in (Selection.SOURCE_PORT, Selection.SOURCE_ADDRESS) and pool.passes != 2:
        number = 256 if sharing <= 64 else 128 if sharing <= 128 else 64
        while number < min(256, 4 * len(pool.backends)):
            number *= 2
    return number


@lru_cache(maxsize=1024)
def reference_table(weights: tuple[tuple[str, int], ...], slots: int) -> tuple[str, ...]:
    """The backend of each slot when all are in service. *weights*: pairs of name and weight, at least one weight above 0."""
    counted = {name: weight for name, weight in weights if weight}
    table = [_FREE] * slots
    _grant(table, counted, _largest_remainders(counted, slots))
    return tuple(table)


def table_with_changes(
    weights: Mapping[str, int], slots: int, down: Collection[str], changes: Sequence[Outage]
) -> tuple[str, ...]:
    """Return the table by *weights*, by the weights that commands gave, and without the backends that are out.

    Last come the slots that balance load: each is with the backend that got it, as far as that is in service.
    Empty if nobody has a weight. Of each weight the slots go over in the order in which slots leave a backend, those that
    are its own first to last and all others too; one that it has not reached stays as it was before that weight.
    """
    commands = [change for change in changes if not change.slots]
    outages = [change for change in commands if change.weight is None]
    out = {*down, *(outage.backend for outage in outages if outage.gone >= _THOUSANDTHS)}

    def table(by: Mapping[str, int]) -> tuple[str, ...]:
        return table_with_outages(reference_table(tuple(by.items()), slots), by, down, outages)

    steps = [step for step in _weight_changes(weights, commands) if any(step.after.values())]
    last = steps[-1].after if steps else weights
    if not any(last.values()):
        return ()
    held = _held_slots(steps, slots, out, table)
    now = [held.get(slot, owner) for slot, owner in enumerate(table(last))]
    for change in changes:
        if change.slots and _takes_balanced_slots(change, weights, commands, down):
            for slot in _balanced_slots(change, outages, slots):
                now[slot] = change.backend
    return tuple(now)


@dataclass(frozen=True)
class _WeightChange:
    """A *change* of a weight, with all weights *before* and *after* it."""

    change: Outage
    before: Mapping[str, int]
    after: Mapping[str, int]


def _weight_changes(weights: Mapping[str, int], changes: Iterable[Outage]) -> Iterator[_WeightChange]:
    """Yield each change of a weight, first to last; neighbouring backups of one progress are one change."""
    left = [change for change in changes if change.weight is not None]
    now = dict(weights)
    while left:
        first = left.pop(0)
        one = [first]
        while first.kind == "backup" and left and (left[0].kind, left[0].gone) == ("backup", first.gone):
            one.append(left.pop(0))
        before, now = dict(now), dict(now)
        for change in one:
            if change.was is not None:
                before[change.backend] = change.was
            now[change.backend] = change.weight or 0
        yield _WeightChange(first, before, now)


def _held_slots(
    steps: Iterable[_WeightChange],
    slots: int,
    out: Collection[str],
    table: Callable[[Mapping[str, int]], tuple[str, ...]],
) -> dict[int, str]:
    """The slots that changes of weights have not reached, with the backends that keep them; *table* is that by weights."""
    held = dict[int, str]()
    for step in steps:
        change = step.change
        if change.gone == _THOUSANDTHS:
            if not change.weight:
                held = {slot: owner for slot, owner in held.items() if owner != change.backend}
        elif any(step.before.values()):
            late = _late(change, step.before, step.after, slots)
            for slot, (before, after) in enumerate(zip(table(step.before), table(step.after), strict=True)):
                if before not in {after, *out} and (slot in late or after in out):
                    held.setdefault(slot, before)
    return held


def _takes_balanced_slots(
    change: Outage, weights: Mapping[str, int], commands: Iterable[Outage], down: Collection[str]
) -> bool:
    """Whether a backend takes the slots that balance load: with a weight by the last command, or by the spec.

    A spill gives slots to a backend that has no weight in the spec.
    """
    name = change.backend
    if name not in weights or name in down:
        return False
    given = [command.weight for command in commands if command.backend == name and command.weight is not None]
    return given[-1] > 0 if given else weights[name] > 0 or change.kind == "spill"


def _balanced_slots(change: Outage, outages: Iterable[Outage], slots: int) -> list[int]:
    """The slots that a backend was given to balance load, without those that have left it."""
    name = change.backend
    own = sorted((slot for slot in change.slots if slot < slots), key=lambda slot: _drain_order(name, slot))
    for outage in outages:
        if outage.backend == name:
            own = own[math.ceil(len(own) * outage.gone / _THOUSANDTHS) :]
    return own


def _late(change: Outage, before: Mapping[str, int], after: Mapping[str, int], slots: int) -> set[int]:
    """The slots that a change of a weight has not reached."""
    pairs = zip(
        reference_table(tuple(before.items()), slots), reference_table(tuple(after.items()), slots), strict=True
    )
    own = {slot for slot, (old, new) in enumerate(pairs) if old != new}
    late: set[int] = set()
    for sort in (own, set(range(slots)) - own):
        order = sorted(sort, key=lambda slot: _drain_order(change.backend, slot))
        late.update(order[math.ceil(len(order) * change.gone / _THOUSANDTHS) :])
    return late


def table_with_outages(
    base: Sequence[str], weights: Mapping[str, int], down: Collection[str], outages: Iterable[Outage]
) -> tuple[str, ...]:
    """Return *base* without the backends that the spec sets *down*, and then, one at a time, without the *outages*."""
    table = _reassign(base, weights, leaving=down, out=down)
    out = set(down)
    fully_out = set(down)
    still_held: dict[int, str] = {}  # slots that a gradual drain has not reached yet
    for outage in outages:
        name = outage.backend
        out.add(name)
        if outage.gone >= _THOUSANDTHS:
            fully_out.add(name)
            still_held = {slot: holder for slot, holder in still_held.items() if holder != name}
        own = sorted((slot for slot, owner in enumerate(table) if owner == name), key=lambda s: _drain_order(name, s))
        left = math.ceil(len(own) * outage.gone / _THOUSANDTHS)
        for slot in own[left:]:
            still_held.setdefault(slot, name)
        table = _reassign(table, weights, leaving={name}, out=out)
    now = [still_held.get(slot, owner) for slot, owner in enumerate(table)]
    return _reassign(now, weights, leaving=fully_out, out=fully_out)


def no_backend_in_service(weights: Mapping[str, int], down: Collection[str], changes: Sequence[Outage]) -> bool:
    """Whether every backend with a weight above 0 is down or was taken out completely.

    A backend has the weight that a command gave it, and until that is reached the one before too.
    """
    changes = [change for change in changes if not change.slots]
    out = {*down, *(each.backend for each in changes if each.weight is None and each.gone >= _THOUSANDTHS)}
    final: Mapping[str, int] = weights
    serving: set[str] = set()
    for step in _weight_changes(weights, changes):
        final = step.after
        if step.change.gone < _THOUSANDTHS:
            serving |= {name for name, weight in step.before.items() if weight}
    serving |= {name for name, weight in final.items() if weight}
    return serving <= out


def _largest_remainders(weights: Mapping[str, int], slots: int) -> dict[str, int]:
    total = sum(weights.values())
    number = {name: slots * weight // total for name, weight in weights.items()}
    by_remainder = sorted(weights, key=lambda name: (-(slots * weights[name] % total), _name_order(name)))
    for name in by_remainder[: slots - sum(number.values())]:
        number[name] += 1
    return number


def _reassign(
    table: Sequence[str], weights: Mapping[str, int], *, leaving: Collection[str], out: Collection[str]
) -> tuple[str, ...]:
    """Give the slots of the *leaving* backends to those that are not *out*; if all are out, nothing changes."""
    up = {name: weight for name, weight in weights.items() if weight and name not in out}
    now = [_FREE if name in leaving else name for name in table]
    free = now.count(_FREE)
    if not up or not free:
        return tuple(table)
    held = {name: now.count(name) for name in up}
    total, slots = sum(up.values()), sum(held.values()) + free
    order = {name: _name_order(name) for name in up}
    given = dict.fromkeys(up, 0)
    for _ in range(free):
        name = min(up, key=lambda name: ((held[name] + given[name]) * total - slots * up[name], order[name]))
        given[name] += 1
    _grant(now, up, given)
    return tuple(now)


def _grant(table: list[str], weights: Mapping[str, int], number: Mapping[str, int]) -> None:
    """Fill the free slots of *table*: each backend gets its *number* of them, by the order in which choices come up."""
    wanted = {name: count for name, count in number.items() if count}
    common = math.gcd(*(weights[name] for name in wanted))
    free = sum(wanted.values())

    def choices(name: str) -> Iterator[tuple[int, bytes, int, str]]:
        step = math.isqrt(2**64 // (weights[name] // common))
        order = _name_order(name)
        for rank, slot in enumerate(_ranking(name, len(table))):
            if not wanted[name]:
                return
            yield (2 * rank + 1) * step, order, slot, name

    for _, _, slot, name in heapq.merge(*map(choices, wanted)):
        if table[slot] == _FREE and wanted[name]:
            table[slot] = name
            wanted[name] -= 1
            free -= 1
            if not free:
                return


@lru_cache(maxsize=256)
def _ranking(name: str, slots: int) -> tuple[int, ...]:
    drawn = hashlib.shake_256(b"slots\0" + name.encode()).digest(_NUMBER_BYTES * slots)
    numbers = [int.from_bytes(drawn[at : at + _NUMBER_BYTES], "little") for at in range(0, len(drawn), _NUMBER_BYTES)]
    return tuple(slot for _, slot in sorted(zip(numbers, range(slots), strict=True)))


def _name_order(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def _drain_order(name: str, slot: int) -> bytes:
    return hashlib.blake2b(name.encode() + b"\0" + str(slot).encode(), digest_size=8).digest()
