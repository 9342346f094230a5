# SPDX-License-Identifier: Apache-2.0
"""Table recirculate: ends the first pass of queries to pools of two passes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dnsteer.spec.model.families import Family
from dnsteer.tables.cookies import Category, Subject
from dnsteer.tables.table import Table
from dnsteer.tables.vip import ServiceRow

if TYPE_CHECKING:
    from dnsteer.tables.context import Context


class RecirculateRow(NamedTuple):
    """The end of the first pass of queries of a family to a pool by a mode.

    *address* is written to the destination, so that the VIP's is forgotten; empty if the mode writes none.
    """

    subject: Subject
    pool: int
    mode: int
    family: Family
    address: str


def subject_of_pool(ctx: Context, pool: int) -> Subject:
    """Return the subject of a pool of two passes by the number of its slots."""
    members = next(slots.members for slots in ctx.pools.values() if slots.members.number == pool)
    return ctx.subject(Category.POOL, pool, f"{members.title}, in two passes", ("pools", members.pool))


def rows(ctx: Context) -> Iterator[RecirculateRow]:
    """Yield a row for each pool of two passes, mode and family. The tracker takes IP only, so the family is matched."""
    pools = {slots.members.number: slots.pool for slots in ctx.pools.values()}
    modes = {mode.number: mode for mode in ctx.modes.values()}
    ways = dict.fromkeys((s.pool, s.mode, s.family) for s in ctx.rows.of(ServiceRow) if s.two_passes)
    for pool, mode, family in ways:
        yield RecirculateRow(subject_of_pool(ctx, pool), pool, mode, family, modes[mode].stand_in(pools[pool], family))


TABLE = Table(
    name="recirculate",
    matches="pool and forwarding mode",
    does="makes queries of all VIPs of a pool of two passes alike, and sends them into the second pass",
    traffic=("second_pass",),
    drops="no second pass",
    flows={
        "ip": "`passes: 2`: the connection tracker, which keeps nothing, gives the packet back to the next table. The "
        "scratch registers, which may hold what tells VIPs apart, are cleared. With NAT the destination becomes an "
        "address of the pool, the same for all VIPs, since the second pass matches it.",
        "ipv6": "The same for IPv6.",
    },
    uses={"recirculations": RecirculateRow},
    rows=rows,
)
