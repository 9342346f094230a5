# SPDX-License-Identifier: Apache-2.0
"""Table solicitation: drops neighbour solicitations that a router has forwarded, before any address is looked at."""

from __future__ import annotations

from dnsteer.tables.table import Table

TABLE = Table(
    name="solicitation",
    matches="hop limit",
    does="drops solicitations that come from behind a router: their hop limit is below 255 (RFC 4861, section 7.1.1)",
    traffic=("neighbors",),
    drops="solicitation from behind a router",
    flows={
        "icmp6": "A solicitation of a neighbour. Nobody behind a router can send one: routers lower the hop limit.",
        "miss": "Others are dropped by their hop limit alone.",
    },
)
