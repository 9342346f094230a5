# SPDX-License-Identifier: Apache-2.0
"""Table client_meter: drops queries of clients whose bucket has had more than its rate."""

from __future__ import annotations

from dnsteer.tables.access import has_client_limits
from dnsteer.tables.client import ClientLimitRow
from dnsteer.tables.meter_rows import MeterRow
from dnsteer.tables.table import Table

TABLE = Table(
    name="client_meter",
    matches="the limit of clients and the bucket",
    does="drops queries of clients that come faster than their bucket's rate",
    traffic=("clients",),
    drops="no bucket",
    flows={
        "register": "A bucket has a meter of its own. The registers are cleared, since what differs in them would make "
        "what follows differ for each bucket.",
        "miss": "No packet comes here: each value of the bits is a bucket.",
    },
    uses={"client_limits": ClientLimitRow, "meters": MeterRow},
    is_wanted=has_client_limits,
)
