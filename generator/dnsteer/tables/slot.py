# SPDX-License-Identifier: Apache-2.0
"""Table slot: the backend of each slot. A pool with selection dp-hash has a group instead, with one bucket per slot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dnsteer.slots.membership import Membership
from dnsteer.spec.errors import Path
from dnsteer.tables.cookies import GROUP_BASE, Category, Subject, cookie, number_names
from dnsteer.tables.table import Table

if TYPE_CHECKING:
    from dnsteer.spec.document import SpecPlace
    from dnsteer.spec.model.spec import Pool
    from dnsteer.tables.context import Context, PoolSlots


@dataclass(frozen=True)
class SlotTable:
    """The slots of a pool (per family if its families have different backends).

    *owners* has the name of each slot's backend; it is empty if no backend is left and the pool then drops. *backends*
    has the subject of each backend by name; it is empty if no comments are needed.
    """

    members: Membership
    owners: tuple[str, ...]
    backends: Mapping[str, Subject] = field(default_factory=dict)

    @property
    def cookie(self) -> int:
        """The cookie of slot 0; other slots have their number in its lowest 16 bits."""
        return cookie(Category.SLOT, self.members.number << 16)

    def subject(self, slot: int) -> Subject:
        """Return the subject of one slot, titled with its backend."""
        owner = self.owners[slot]
        at = self.backends[owner]
        title = f"{self.members.title} slot {slot} -> {owner}"
        return Subject(self.cookie | slot, title, at.path, at.line, at.part)


class GroupRow(NamedTuple):
    """An OpenFlow select group with one bucket of weight 1 per slot; *backends* has the backend of each slot."""

    subject: Subject
    pool: int
    group: int
    backends: tuple[int, ...]


_FIRST_PROBE, _PROBE_BITS = 2048, 11


def probe_numbers(pool: Pool) -> dict[str, int]:
    """Return the number of each backend for probes, by name: the upper 12 bits of their source ports, 32784 and more.

    It depends on the names, so that the others keep theirs when a backend is added.
    """
    return {name: _FIRST_PROBE + n for name, n in number_names((b.name for b in pool.backends), _PROBE_BITS).items()}


class ProbeSlotRow(NamedTuple):
    """Probes of a pool's backend: it gets those with its *number*, whichever backend owns their slot."""

    subject: Subject
    pool: int
    number: int
    backend: int


def group_row(members: Membership, owners: tuple[str, ...], at: SpecPlace | None = None) -> GroupRow:
    """Return the group of a pool with selection dp-hash, where the switch's hash picks the slot."""
    numbers = {m.name: m.number for m in members.members}
    key = cookie(Category.POOL, members.number)
    line, part = (at.line, at.part) if at is not None else (0, "")
    subject = Subject(key, f"{members.title}, by dp-hash", ("pools", members.pool), line, part)
    return GroupRow(subject, members.number, GROUP_BASE + members.number, tuple(numbers[o] for o in owners))


def rows(ctx: Context) -> Iterator[SlotTable | GroupRow | ProbeSlotRow]:
    """Yield the slots or the group of each pool, except pools used only by the extension, whose program has their slots."""
    from dnsteer.spec.model.spec import Selection  # here, since the quick verbs do without it

    document = ctx.loaded.document
    place, written = document.place, document.path_in_document
    for slots in ctx.pools.values():
        pool, name = slots.pool, slots.members.pool
        if all(ctx.modes[mode].uses_extension(pool) for _, mode in slots.ways):
            continue
        if pool.selection is not Selection.DP_HASH:
            paths: dict[str, Path] = {b.name: ("pools", name, "backends", i) for i, b in enumerate(pool.backends)}
            at = {
                backend: Subject(0, f"backend {backend}", written(path), found.line, found.part)
                for backend, path, found in ((name, path, place(path)) for name, path in paths.items())
            }
            yield SlotTable(slots.members, slots.owners, at)
        elif slots.owners:
            row = group_row(slots.members, slots.owners, place(("pools", name)))
            ctx.subjects[row.subject.cookie] = row.subject
            yield row
        if ctx.spec.switch.probe is not None:
            yield from _probe_rows(ctx, slots)


def _probe_rows(ctx: Context, slots: PoolSlots) -> Iterator[ProbeSlotRow]:
    members, numbers = slots.members, probe_numbers(slots.pool)
    places = {backend.name: i for i, backend in enumerate(slots.pool.backends)}
    for member in members.members:
        path = ("pools", members.pool, "backends", places[member.name])
        title = f"probes of backend {member.name} of {members.title}"
        subject = ctx.subject(Category.PROBE, member.number << 16 | members.number, title, path)
        yield ProbeSlotRow(subject, members.number, numbers[member.name], member.number)


TABLE = Table(
    name="slot",
    matches="pool and slot",
    does="sets the backend; for a pool with selection dp-hash its group does",
    traffic=("queries", "second_pass", "tracked"),
    holds="slots",
    drops="no backend in service",
    flows={
        "register": "One flow per slot: the slot names a backend. A change of weights changes these flows and no others.",
    },
    uses={"slots": SlotTable, "groups": GroupRow, "probe_slots": ProbeSlotRow},
    rows=rows,
)
