"""What is read of a switch to judge its settings (settings.py)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dnsteer.plan.bridge import WantedBridge
from dnsteer.plan.plan import Plan
from dnsteer.plan.sizes import sizes_of
from dnsteer.spec.model.spec import Spec
from dnsteer.switch.bridge_rows import Bridge
from dnsteer.tables.order import PIPELINE

if TYPE_CHECKING:
    from dnsteer.switch.openflow import Tables

TABLE_NAMES = {t.number: t.name for t in PIPELINE.tables.values()}
"""The names of the pipeline's tables by number."""


@dataclass(frozen=True)
class SettingsInput:
    """What was read of a switch. *tables* is None if none can be read; *lines* are the plan's flows.

    *no_megaflows*: the switch is known to make none.
    """

    spec: Spec
    plan: Plan
    want: WantedBridge
    have: Bridge
    config: Mapping[str, str]
    tables: Tables | None
    lines: Collection[str] = ()
    no_megaflows: bool = False

    def own_flows(self, table: str) -> int:
        """Return how many flows the plan has in a table, by its name or number."""
        number = next((n for n, name in TABLE_NAMES.items() if table in (name, str(n))), None)
        return sum(f" table={number}," in line for line in self.lines)

    def datapath_flows(self) -> int:
        """Return how many datapath flows all clients together can cause."""
        return sizes_of(self.spec, self.plan).total
