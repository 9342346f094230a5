"""Table advertise: the second half of a neighbour advertisement."""

from __future__ import annotations

from dnsteer.tables.neighbor import NeighborRow
from dnsteer.tables.table import Table

TABLE = Table(
    name="advertise",
    matches="neighbour advertisement in the making",
    does="sets the fields that exist only in an advertisement",
    uses={"neighbors": NeighborRow},
)
