"""Table echo: answers echo requests for VIPs and gateways."""

from __future__ import annotations

from dnsteer.tables.neighbor import NeighborRow
from dnsteer.tables.table import Table

TABLE = Table(
    name="echo",
    matches="echo request for a VIP or gateway",
    does="answers echo requests out of the ingress port",
    drops="not an echo request",
    uses={"neighbors": NeighborRow},
)
