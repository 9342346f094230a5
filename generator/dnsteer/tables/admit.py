# SPDX-License-Identifier: Apache-2.0
"""Table admit: sends queries that all lists allow through the datapath again, without the client's address."""

from __future__ import annotations

from dnsteer.tables.access import ListedServiceRow, has_lists
from dnsteer.tables.client import ClientLimitRow
from dnsteer.tables.table import Table

TABLE = Table(
    name="admit",
    matches="nothing, or the limit of clients where there is one",
    does="sends queries that their lists allow into a second pass, in which the slot is chosen, or their client's bucket",
    traffic=("sources", "listed"),
    drops="no query over IP",
    flows={
        "ip": "By the connection tracker, which remembers nothing of it; registers that differ are cleared, so that all "
        "share what comes after.",
        "ipv6": "The same for IPv6.",
        "miss": "No packet comes here.",
    },
    uses={"listed": ListedServiceRow, "client_limits": ClientLimitRow},
    is_wanted=has_lists,
)
