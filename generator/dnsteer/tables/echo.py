# SPDX-License-Identifier: Apache-2.0
"""Table echo: answers echo requests for VIPs and gateways."""

from __future__ import annotations

from dnsteer.tables.neighbor import NeighborRow
from dnsteer.tables.table import Table

TABLE = Table(
    name="echo",
    matches="echo request for a VIP or gateway",
    does="answers echo requests out of the ingress port",
    traffic=("echo",),
    drops="not an echo request",
    flows={
        "icmp": "Echo responder. TTL 64 is set because the request's may be nearly used up.",
        "icmp6": "Echo responder for IPv6.",
        "icmp own": "ICMP of a backend or for one, and for no address of the switch (`pass: backends`).",
        "miss": "Other ICMP is dropped. It unwildcards the same fields as an echo request that is answered.",
    },
    uses={"neighbors": NeighborRow},
)
