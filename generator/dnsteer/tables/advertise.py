# SPDX-License-Identifier: Apache-2.0
"""Table advertise: the second half of a neighbour advertisement."""

from __future__ import annotations

from dnsteer.tables.neighbor import NeighborRow
from dnsteer.tables.table import Table

TABLE = Table(
    name="advertise",
    matches="neighbour solicitation that becomes an advertisement",
    does="sets the fields that only an advertisement has",
    traffic=("neighbors",),
    drops="advertisement not sent",
    flows={
        "icmp6 all": "Neighbour advertisement to all nodes, part two: flags and the link-layer address.",
        "icmp6": "Neighbour advertisement, part two: fields that exist only in an advertisement.",
        "miss": "Other advertisements are dropped. They unwildcard the same fields as those that are sent.",
    },
    uses={"neighbors": NeighborRow},
)
