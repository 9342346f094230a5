"""The plan: the content of the bridge's tables as rows, which templates render as flows."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from dnsteer.slots.membership import Membership
from dnsteer.tables.cookies import OBJECT_BITS, Category, cookie
from dnsteer.tables.rows import Rows
from dnsteer.tables.slot import SlotTable
from dnsteer.tables.subject import Subject

if TYPE_CHECKING:
    from dnsteer.plan.extension.program import Extension

_SLOTS = cookie(Category.SLOT, 0) >> OBJECT_BITS


@dataclass
class Plan:
    """All rows, in the order of the spec, and the bridge that they are for."""

    bridge: str
    mac: str
    gateway_mac: str
    pipeline: Subject
    digest: str
    marker: int
    rows: Rows = field(default_factory=Rows)
    subjects: dict[int, Subject] = field(default_factory=dict)
    members: list[Membership] = field(default_factory=list)
    extension: Extension | None = None
    has_gateways: bool = False
    any_vlan: bool = False

    @property
    def state(self) -> Subject:
        """The subject of the flow that tells which spec and overlay the tables were made from."""
        return Subject(
            cookie(Category.STATE, self.marker),
            "spec and overlay of the tables",
            self.pipeline.path,
            self.pipeline.line,
        )

    def subject(self, key: int) -> Subject | None:
        """Return the subject of a cookie, or None."""
        found = self.subjects.get(key)
        if found is not None:
            return found
        if key >> OBJECT_BITS == _SLOTS:
            pool, slot = key >> 16 & 0xFFFFFF, key & 0xFFFF
            table = self._slot_tables.get(pool)
            return table.subject(slot) if table is not None and slot < len(table.owners) else None
        return self.state if key == self.state.cookie else None

    @cached_property
    def _slot_tables(self) -> dict[int, SlotTable]:
        return {table.members.number: table for table in self.rows.of(SlotTable)}
