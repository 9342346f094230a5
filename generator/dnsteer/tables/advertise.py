"""Table advertise: the second half of a neighbour advertisement."""

from __future__ import annotations

from dnsteer.tables.neighbor import NeighborRow
from dnsteer.tables.table import Table

TABLE = Table(
    name="advertise",
    matches="neighbour solicitation that becomes an advertisement",
    does="sets the fields that only an advertisement has",
    drops="advertisement not sent",
    uses={"neighbors": NeighborRow},
)
