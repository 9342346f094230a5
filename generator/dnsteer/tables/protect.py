# SPDX-License-Identifier: Apache-2.0
"""Table protect: drops ports that no service has, by a few bits. The mask policy supplies the bits that its flows match."""

from __future__ import annotations

from dnsteer.tables.table import Table

TABLE = Table(
    name="protect",
    matches="protocol, low bits of the destination port",
    does="drops ports that no service has before anything else is matched",
    traffic=("queries",),
    drops="port or protocol of no service",
    flows={
        "port": "The low 8 bits of a service's port: only those go on.",
        "own": "What comes for backends' own addresses (`pass: backends`), by its protocol.",
        "low": "Other ports are dropped by these 8 bits: one mask for both families, and at most 255 megaflows for each "
        "transport and MAC.",
        "miss": "Fragments and other protocols are dropped by protocol.",
    },
)
