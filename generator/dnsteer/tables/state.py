# SPDX-License-Identifier: Apache-2.0
"""Table state: the cookie of its only flow identifies the spec and overlay that the tables were built from."""

from __future__ import annotations

from dnsteer.tables.table import Table

TABLE = Table(
    name="state",
    matches="nothing: no packet gets here",
    does="holds a digest of the spec and overlay in the cookie of its only flow",
    traffic=(),
    holds="state",
    drops="no packet comes here",
    flows={
        "any": "No packet comes here. The cookie is the category and a digest of the spec and of the drains and downs "
        "that the tables were made from: it is changed in the same bundle as they are, so it tells which of two "
        "states the tables are.",
    },
)
