"""Table fragment: fragments of answers that come from the connection tracker."""

from __future__ import annotations

from dnsteer.tables.return_ import FragmentRow
from dnsteer.tables.table import Table

TABLE = Table(
    name="fragment",
    matches="source address of a fragment of an answer after the connection tracker",
    does="drops what it did not translate",
    uses={"fragments": FragmentRow},
)
