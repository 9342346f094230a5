# SPDX-License-Identifier: Apache-2.0
"""Table keep: the backend of a TCP connection that the tracker knows; all others go on to find their slot.

The tracker marks a connection with the number of its backend. The mark is matched, and not the tracker's state: with direct
server return it sees one direction only, and connections never count as established.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dnsteer.slots.maintenance import Maintenance
from dnsteer.slots.membership import Member, Membership
from dnsteer.spec.model.families import Family
from dnsteer.tables.cookies import Category, Subject, cookie
from dnsteer.tables.rows import Rows
from dnsteer.tables.table import Register, Table
from dnsteer.tables.vip import ServiceRow

if TYPE_CHECKING:
    from dnsteer.tables.context import Context


class KeptRow(NamedTuple):
    """A backend of a pool to which connections stay. Its number is their mark."""

    subject: Subject
    pool: int
    backend: int


class BeginRow(NamedTuple):
    """A family in which connections are kept, from the packet on that begins them."""

    family: Family


def keeping(members: Membership, maintenance: Sequence[Maintenance]) -> tuple[Member, ...]:
    """The backends of a pool that keep their connections: all but those that are down, by the spec or in *maintenance*.

    One that is drained, or without weight, serves the connections that it has.
    """
    if not members.keeps:
        return ()
    down = {
        entry.backend
        for entry in maintenance
        if entry.kind in ("down", "health") and not entry.returns and entry.service in ("", members.service)
    }
    return tuple(m for m in members.members if not m.down and m.name not in down)


def kept_cookie(members: Membership, member: Member) -> int:
    """The cookie of the connections to a backend of a pool."""
    return cookie(Category.CONNECTIONS, member.number << 16 | members.number)


def kept_rows(members: Membership, maintenance: Sequence[Maintenance]) -> Iterator[KeptRow]:
    """Yield the rows of a pool for a running switch, without what comments need."""
    for member in keeping(members, maintenance):
        subject = Subject(kept_cookie(members, member), member.name, (), 0)
        yield KeptRow(subject, members.number, member.number)


def rows(ctx: Context) -> Iterator[KeptRow | BeginRow]:
    """Yield a row for each backend that keeps its connections, and for each family of services that are kept."""
    for slots in ctx.pools.values():
        members = slots.members
        places = {backend.name: i for i, backend in enumerate(slots.pool.backends)}
        for member in keeping(members, ctx.overlay.of(members.pool)):
            number = member.number << 16 | members.number
            title = f"connections to backend {member.name} of {members.title}"
            path = ("pools", members.pool, "backends", places[member.name])
            yield KeptRow(ctx.subject(Category.CONNECTIONS, number, title, path), members.number, member.number)
    for family in dict.fromkeys(s.family for s in ctx.rows.of(ServiceRow) if s.zone):
        yield BeginRow(family)


def tracks(rows: Rows) -> bool:
    """Whether the connections of any service are kept."""
    return bool(rows.of(BeginRow))


TABLE = Table(
    name="keep",
    matches="pool and the tracker's mark",
    does="finds the backend of a connection that is kept; others, and packets that begin one, go on to their slot",
    traffic=("tracked",),
    holds="connections",
    miss="next",
    flows={
        "tcp": "SYN: it goes by its slot, so that a backend which is drained gets no new connection, and what follows in "
        "`forward` makes the tracker remember its backend.",
        "tcp6": "The same for IPv6.",
        "register": "`keep: connections`: the mark is the number of the backend that the connection began with. A backend "
        "that is down has no such flow: what it served goes by its slot.",
        "miss": "A connection that the tracker does not know goes by its slot, and is not remembered: it began before the "
        "tracker kept it, or the tracker has forgotten it.",
    },
    uses={"kept": KeptRow, "begins": BeginRow},
    rows=rows,
    registers=(Register("backend", 2, "number of the backend", "forward"),),
    is_wanted=tracks,
)
