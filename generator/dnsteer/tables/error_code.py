# SPDX-License-Identifier: Apache-2.0
"""Table error_code: of ICMP errors over IPv4, passes those of the code that path MTU discovery needs."""

from __future__ import annotations

from dnsteer.tables.error import has_copies
from dnsteer.tables.table import Table

TABLE = Table(
    name="error_code",
    matches="ICMP code",
    does="drops ICMP errors over IPv4 but for code 4, fragmentation needed, before any address is looked at",
    traffic=("errors",),
    drops="ICMP error that is not of the path MTU",
    flows={
        "icmp": "Fragmentation needed (RFC 1191).",
        "icmp6": "Packet too big, of any code, which receivers ignore (RFC 4443, section 3.2).",
        "miss": "Other errors over IPv4 are dropped by their code.",
    },
    is_wanted=has_copies,
)
