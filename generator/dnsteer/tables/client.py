# SPDX-License-Identifier: Apache-2.0
"""Table client: the bucket of a query's client, by the last bits of the prefix of its address."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dnsteer.spec.model.families import FAMILIES, Family
from dnsteer.tables.access import has_client_limits, subject_of_limit
from dnsteer.tables.client_limits import client_limits
from dnsteer.tables.cookies import Subject
from dnsteer.tables.table import Register, Table

if TYPE_CHECKING:
    from dnsteer.tables.context import Context


class ClientLimitRow(NamedTuple):
    """The bits of a client's address, from bit *low* on, that choose one of the buckets of a limit."""

    subject: Subject
    limit: int
    family: Family
    low: int
    bits: int


def rows(ctx: Context) -> Iterator[ClientLimitRow]:
    """Yield a row for each limit of clients and family."""
    for one in client_limits(ctx.spec):
        for family in FAMILIES:
            low = one.clients.lowest_bit(family)
            yield ClientLimitRow(subject_of_limit(ctx, one), one.number, family, low, one.clients.bits)


TABLE = Table(
    name="client",
    matches="the limit of clients",
    does="sets the bucket of a client: bits of the source address",
    traffic=("clients",),
    drops="no limit of clients",
    flows={
        "ip": "The last bits of the prefix that tells clients apart, so that neighbouring prefixes have different buckets. "
        "`move` unwildcards just these: a megaflow for each bucket, however many clients there are.",
        "ipv6": "The same for IPv6.",
        "miss": "No packet comes here.",
    },
    uses={"client_limits": ClientLimitRow},
    rows=rows,
    registers=(Register("bucket", 6, "bucket of the client", "client_meter"),),
    is_wanted=has_client_limits,
)
