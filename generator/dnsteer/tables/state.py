"""Table state: its one flow's cookie says which spec and overlay the tables were made from."""

from __future__ import annotations

from dnsteer.tables.table import Table

TABLE = Table(
    name="state",
    matches="nothing: no packet comes here",
    does="the cookie of its one flow tells which spec and overlay the tables were made from",
    reached=False,
)
