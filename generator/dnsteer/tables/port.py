# SPDX-License-Identifier: Apache-2.0
"""Table port: drops the ports that share their low bits with a service's."""

from __future__ import annotations

from dnsteer.tables.table import Table

TABLE = Table(
    name="port",
    matches="protocol, destination port",
    does="drops other ports with the low bits of a service's, before the address is matched",
    traffic=("queries",),
    drops="port of no service",
    flows={
        "port": "The whole port of a service. IPv4 and IPv6 share the mask, and no address is matched yet.",
        "miss": "Ports that have only their low 8 bits in common with a service's: at most 255 megaflows for each of these, "
        "transport and MAC.",
    },
)
