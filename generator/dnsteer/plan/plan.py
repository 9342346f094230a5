# SPDX-License-Identifier: Apache-2.0
"""The plan: the content of the bridge's tables as rows, which templates render as flows."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from dnsteer.slots.membership import Membership
from dnsteer.tables.cookies import OBJECT_BITS, Category, Subject, cookie
from dnsteer.tables.rows import Rows
from dnsteer.tables.slot import SlotTable

if TYPE_CHECKING:
    from dnsteer.plan.extension.program import ExtensionPlan

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
    extension: ExtensionPlan | None = None
    has_gateways: bool = False
    has_client_networks: bool = False
    """Whether there is a network where VIPs are asked for and gateways are not."""
    has_own_traffic: bool = False
    """Whether traffic of backends' own passes."""
    follows_ipv6: bool = False
    """Whether the MAC address of a neighbour is found out by its IPv6 address."""
    tunnel_ports: tuple[tuple[str, str], ...] = ()
    """The ports that make tunnels, each with its type in OVSDB."""

    @property
    def state(self) -> Subject:
        """The subject of the flow whose cookie identifies the spec and overlay of the tables."""
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
        table = self._slot_table(key)
        if table is not None:
            return table.subject(key & 0xFFFF)
        return self.state if key == self.state.cookie else None

    def has_subject(self, key: int) -> bool:
        """Whether a cookie has a subject; those of slots, of which there may be 100,000, are not made to answer."""
        return key in self.subjects or self._slot_table(key) is not None or key == self.state.cookie

    def _slot_table(self, key: int) -> SlotTable | None:
        """Return the table that has the slot of a cookie, or None."""
        if key >> OBJECT_BITS != _SLOTS:
            return None
        table = self._slot_tables.get(key >> 16 & 0xFFFFFF)
        return table if table is not None and key & 0xFFFF < len(table.owners) else None

    @cached_property
    def _slot_tables(self) -> dict[int, SlotTable]:
        return {table.members.number: table for table in self.rows.of(SlotTable)}
