# SPDX-License-Identifier: Apache-2.0
"""Table admit_clients: sends queries that are within their client's rate through the datapath again."""

from __future__ import annotations

from dnsteer.tables.access import has_client_limits
from dnsteer.tables.client import ClientLimitRow
from dnsteer.tables.table import Table

TABLE = Table(
    name="admit_clients",
    matches="nothing",
    does="sends queries within their client's rate into another pass, in which the slot is chosen",
    traffic=("clients",),
    drops="no query over IP",
    flows={
        "ip": "By the connection tracker, which remembers nothing of it: so buckets and slots add up, and do not multiply.",
        "ipv6": "The same for IPv6.",
        "miss": "No packet comes here.",
    },
    uses={"client_limits": ClientLimitRow},
    is_wanted=has_client_limits,
)
