# SPDX-License-Identifier: Apache-2.0
"""Table fragment: fragments of answers that come from the connection tracker."""

from __future__ import annotations

from dnsteer.tables.return_ import FragmentRow
from dnsteer.tables.table import Table

TABLE = Table(
    name="fragment",
    matches="fragment of an answer, after the connection tracker",
    does="drops fragments that the tracker did not translate",
    traffic=("fragments",),
    drops="fragment not translated",
    flows={
        "udp": "What the tracker translated has the VIP's address and goes on.",
        "miss": "A fragment that it could not translate must not reach the client with the backend's address.",
    },
    uses={"fragments": FragmentRow},
)
