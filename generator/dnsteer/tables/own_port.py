# SPDX-License-Identifier: Apache-2.0
"""Tables own_port1 to own_port3: tell backends' own traffic from answers, and from what is sent past the VIPs, by ports.

A resolver asks from any port, so that the whole port would make a megaflow for each question. By a few bits at a time it
makes 63 of a backend, protocol and family, since ephemeral ports and those of services differ in the first six bits; 125 at
most, where something scans the ports beside a service's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dnsteer.tables.own_traffic import has_own_traffic
from dnsteer.tables.return_ import RouterRow
from dnsteer.tables.table import Table

if TYPE_CHECKING:
    from dnsteer.tables.context import Context

LENGTHS = (6, 11, 16)
"""Bits of the port that the tables look at, one after the other."""


class OwnPortRow(NamedTuple):
    """The first bits of a port at which backends serve VIPs, as a masked match; in the last table, *last*, all of them."""

    table: str
    protocol: str
    port: str
    last: bool


class OwnKindRow(NamedTuple):
    """Packets of a protocol, and the *bits* of the port that a table looks at, in brackets; empty: all."""

    table: str
    protocol: str
    bits: str


def rows(ctx: Context) -> Iterator[OwnPortRow | OwnKindRow]:
    """Yield the rows of all tables."""
    from dnsteer.spec.own_traffic import served_ports  # here, since the quick verbs do without it

    if ctx.spec.switch.own_traffic is None:
        return
    for protocol, ports in served_ports(ctx.spec).items():
        for table, length in zip(TABLES, LENGTHS, strict=True):
            low, name, last = 16 - length, table.name, length == 16
            yield OwnKindRow(name, protocol, f"[{low}..15]" if low else "")
            for prefix in sorted({port >> low << low for port in ports}):
                yield OwnPortRow(
                    name, protocol, str(prefix) if last else f"{prefix:#x}/{0xFFFF >> low << low:#x}", last
                )


def _none(_: Context) -> Iterator[OwnPortRow]:
    """Yield nothing: the first table makes the rows of all."""
    return iter(())


def _table(number: int) -> Table:
    return Table(
        name=f"own_port{number}",
        matches="port of a backend, a few bits more in each table",
        does="tells traffic of backends' own from answers, and drops what is sent to their services past the VIPs",
        traffic=("own",),
        drops="sent to a backend's service past the VIPs, or by a router as an answer",
        flows={
            "udp": "The first bits of a port at which backends serve VIPs: an answer, or sent past the VIPs, as more bits "
            "will tell.",
            "tcp": "The same for TCP.",
            "udp6": "The same for IPv6.",
            "tcp6": "The same for TCP over IPv6.",
            "router": "A router sends nothing of backends: see table return.",
            "low": "Other ports: traffic of a backend's own, of which no more bits of the port are looked at.",
            "icmp": "ICMP of a backend, also in fragments.",
            "icmp6": "The same for IPv6, not in fragments.",
            "frag": "Fragments for backends, which have no port.",
            "miss": "Other protocols, and of backends fragments, which may be those of answers.",
        },
        uses={"own_ports": OwnPortRow, "own_kinds": OwnKindRow, "routers": RouterRow},
        rows=rows if number == 1 else _none,
        is_wanted=has_own_traffic,
        template="own_port",
    )


TABLES: tuple[Table, ...] = tuple(_table(number) for number in range(1, len(LENGTHS) + 1))
