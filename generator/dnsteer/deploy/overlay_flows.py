# SPDX-License-Identifier: Apache-2.0
"""The part of the tables that depends on the overlay: slots and kept connections of pools, and the tables' number."""

from __future__ import annotations

from collections.abc import Iterable

from dnsteer.plan.plan import Plan
from dnsteer.render.flows import Group, flow_lines, groups_of, render_table
from dnsteer.slots.maintenance import Overlay, marker
from dnsteer.slots.membership import Membership
from dnsteer.slots.owners import known_owners_of
from dnsteer.switch.state import AppliedState
from dnsteer.tables.cookies import Category, Subject, cookie
from dnsteer.tables.keep import KeptRow, kept_rows
from dnsteer.tables.order import PIPELINE
from dnsteer.tables.slot import SlotTable, group_row


def overlay_flows(
    state: AppliedState, overlay: Overlay, pools: Iterable[Membership]
) -> tuple[dict[str, None], list[Group]]:
    """Return the flows, as the switch prints them, and the groups of *pools*, and the flow with the tables' number."""
    pipeline = Subject(cookie(Category.PIPELINE, 0), "pipeline", (), 0)
    plan = Plan("", "", "", pipeline, state.digest, marker(state.digest, overlay))
    for members in pools:
        owners = known_owners_of(members, overlay.of(members.pool))
        plan.rows.add(kept_rows(members, overlay.of(members.pool)))
        if members.selection != "dp-hash":
            plan.rows.add([SlotTable(members, owners)])
        elif owners:
            plan.rows.add([group_row(members, owners)])
    pool = f"{PIPELINE.registers['pool'].field}="
    tables = [PIPELINE.holding("slots"), *([PIPELINE.holding("connections")] if plan.rows.of(KeptRow) else [])]
    own = [line for table in tables for line in flow_lines(render_table(plan, table, notes=False)) if pool in line]
    number = flow_lines(render_table(plan, PIPELINE.holding("state")))
    return dict.fromkeys([*own, *number]), list(groups_of(plan))
