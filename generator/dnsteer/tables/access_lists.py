# SPDX-License-Identifier: Apache-2.0
"""Tables switch_list1 to vip_list16: windows of the client's address, of the switch's access list and of those of VIPs."""

from __future__ import annotations

from dnsteer.tables.access import SWITCH_TABLE, VIP_TABLE, has_lists
from dnsteer.tables.access_tree import WINDOW, WINDOWS, AccessWindow
from dnsteer.tables.rows import Rows
from dnsteer.tables.table import Table, Traffic


def _table(scope: str, whose: str, depth: int) -> Table:
    name = f"{scope}{depth}"
    begins = scope == VIP_TABLE and depth == 1
    traffic: tuple[Traffic, ...] = ("sources", "listed") if begins else ("sources",)

    def is_wanted(rows: Rows) -> bool:
        return has_lists(rows) and (begins or any(window.table == name for window in rows.of(AccessWindow)))

    return Table(
        name=name,
        matches=f"the first {depth * WINDOW} bits of the source address, and the port where a list has ports",
        does=f"drops queries of clients that {whose} denies",
        traffic=traffic,
        drops=f"denied by {whose}",
        flows={
            "prefix": "A prefix of the list: queries are dropped, or go on. One with longer prefixes below it leads to the "
            "next of these tables. All look at all bits of the window, so that they have one mask.",
            "register": "What no entry matches, or the same of a prefix that leads here.",
            "miss": "No list of its VIP." if begins else "No packet comes here: a window begins with all addresses.",
        },
        uses={"windows": AccessWindow},
        template="access_list",
        is_wanted=is_wanted,
    )


SWITCH_TABLES = tuple(_table(SWITCH_TABLE, "the switch's access list", depth) for depth in range(1, WINDOWS + 1))
VIP_TABLES = tuple(_table(VIP_TABLE, "the VIP's access list", depth) for depth in range(1, WINDOWS + 1))
