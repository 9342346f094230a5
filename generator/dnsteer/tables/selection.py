# SPDX-License-Identifier: Apache-2.0
"""Table selection: the slot of a query in its second pass, where the VIP is forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dnsteer.spec.model.families import Family
from dnsteer.tables.cookies import Subject
from dnsteer.tables.recirculate import subject_of_pool
from dnsteer.tables.table import Table
from dnsteer.tables.vip import ServiceRow, slot_bits

if TYPE_CHECKING:
    from dnsteer.tables.context import Context


class SelectionRow(NamedTuple):
    """The bits of the source port that select the slot of a pool's queries, for each protocol and family of its services."""

    subject: Subject
    pool: int
    protocol: str
    family: Family
    slot_bits: int


def rows(ctx: Context) -> Iterator[SelectionRow]:
    """Yield a row for each pool of two passes, protocol and family."""
    bits = {slots.members.number: slot_bits(ctx.spec, slots.pool) for slots in ctx.pools.values()}
    kinds = dict.fromkeys((s.pool, s.protocol, s.family) for s in ctx.rows.of(ServiceRow) if s.two_passes)
    for pool, protocol, family in kinds:
        yield SelectionRow(subject_of_pool(ctx, pool), pool, protocol, family, bits[pool])


TABLE = Table(
    name="selection",
    matches="protocol and pool",
    does="sets the slot in the second pass of a pool of two passes",
    traffic=("second_pass",),
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
