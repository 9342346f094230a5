"""Table forward: rewrites a query towards its backend. Its rows are of the forwarding modes."""

from __future__ import annotations

from typing import NamedTuple

from dnsteer.spec.model.families import Family
from dnsteer.tables.subject import Subject
from dnsteer.tables.table import Table


class ForwardRow(NamedTuple):
    """What to do for a backend, by the mode *word*.

    *address* is the new destination, empty where it stays; *out* 0: the port that the query came in by.
    """

    subject: Subject
    word: str
    mode: int
    family: Family
    pool: int
    backend: int
    mac: str
    address: str
    out: int


TABLE = Table(
    name="forward",
    matches="forwarding mode, pool and backend",
    does="rewrites the packet for the backend",
    uses={"forwards": ForwardRow},
)
