"""Table echo: answers echo requests for VIPs and gateways."""

from __future__ import annotations

from dnsteer.tables.neighbor import NeighborRow
from dnsteer.tables.table import Table

TABLE = Table(
    name="echo",
    matches="echo request for a VIP or gateway",
    does="answers it out of the port that it came in by",
    uses={"neighbors": NeighborRow},
)
