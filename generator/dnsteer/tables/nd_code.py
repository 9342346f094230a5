# SPDX-License-Identifier: Apache-2.0
"""Table nd_code: drops neighbour solicitations with a code, before any address is looked at."""

from __future__ import annotations

from dnsteer.tables.table import Table

TABLE = Table(
    name="nd_code",
    matches="ICMPv6 code",
    does="drops solicitations whose code is not 0 (RFC 4861, section 4.3)",
    traffic=("neighbors",),
    drops="solicitation with a code",
    flows={
        "icmp6 ns": "A solicitation as it should be. A table of its own: a switch that looked at hop limit and code at once "
        "would have masks for some bits of the code.",
        "miss": "Others are dropped by their code.",
    },
)
