# SPDX-License-Identifier: Apache-2.0
"""Table selection: the slot of a query in its second pass, where the VIP is forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dnsteer.spec.model.families import Family
from dnsteer.tables.cookies import Subject
from dnsteer.tables.recirculate import subject_of_pool
from dnsteer.tables.table import Table
from dnsteer.tables.vip import ServiceRow, slot_bits, slot_source

if TYPE_CHECKING:
    from dnsteer.tables.context import Context


class SelectionRow(NamedTuple):
    """The bits of source port or address that select the slot of a pool's queries, for each protocol and family."""

    subject: Subject
    pool: int
    protocol: str
    family: Family
    slot_bits: int
    slot_field: str
    slot_low: int


def rows(ctx: Context) -> Iterator[SelectionRow]:
    """Yield a row for each pool of two passes, protocol and family, and for TCP to pools whose connections are kept."""
    pools = {slots.members.number: slots.pool for slots in ctx.pools.values()}
    kinds = dict.fromkeys((s.pool, s.protocol, s.family) for s in ctx.rows.of(ServiceRow) if s.two_passes or s.zone)
    for pool, protocol, family in kinds:
        own = pools[pool]
        source = slot_source(ctx.spec, own, protocol, family)
        yield SelectionRow(subject_of_pool(ctx, pool), pool, protocol, family, slot_bits(ctx.spec, own), *source)


TABLE = Table(
    name="selection",
    matches="protocol and pool",
    does="sets the slot in the second pass of a pool of two passes",
    traffic=("second_pass", "tracked"),
    drops="no slot",
    flows={
        "udp": "The second pass: the slot is bits of the source port, as in `vip` where there is one pass. "
        "Nothing of the VIP is matched.",
        "tcp": "The same for TCP.",
        "udp6": "The same for IPv6.",
        "tcp6": "The same for TCP over IPv6.",
    },
    uses={"selections": SelectionRow},
    rows=rows,
)
