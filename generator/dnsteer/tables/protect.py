"""Table protect: drops ports that no service has by a few bits. What its flows need of the services is the mask policy's."""

from __future__ import annotations

from dnsteer.tables.table import Table

TABLE = Table(
    name="protect",
    matches="protocol, low bits of the destination port",
    does="drops what no service has before more is matched (deny lists and meters will stand here)",
)
