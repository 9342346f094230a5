# SPDX-License-Identifier: Apache-2.0
"""Table error: finds the VIP of an ICMP error; and table copy: gives each of its backends a copy.

A router on the way to a client names in its error a packet that the VIP has sent. OpenFlow does not match the packet in the
error. The tracker does: where it keeps the connection, the error has the connection's mark, and goes to its backend alone.
Of all others nobody knows which backend it was: so each one gets a copy, and those that it is not about ignore it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dnsteer.spec.model.families import Family
from dnsteer.tables.cookies import OBJECT_BITS, Category, Subject, number_names
from dnsteer.tables.error_code import has_copies
from dnsteer.tables.table import Register, Table

if TYPE_CHECKING:
    from dnsteer.spec.model.spec import Backend
    from dnsteer.tables.context import Context


class ErrorRow(NamedTuple):
    """An address of VIPs to whose backends errors are copied: those of the *receivers*' number."""

    subject: Subject
    address: str
    family: Family
    receivers: int


class BackendCopy(NamedTuple):
    """A copy for the backend at *mac*; an empty *port* is the ingress port. By an uplink the source MAC is written.

    *tag* is the action that gives the copy the backend's VLAN, with priority 0; *members* are those of the bond that *port*
    is.
    """

    mac: str
    port: str
    set_source: bool
    tag: str = ""
    members: tuple[str, ...] = ()


class CopyRow(NamedTuple):
    """The copies of an error that came in by an *uplink*, or by a member of one.

    Those whose source MAC is written are the last ones, and of these the ones that leave by another bond, since the member
    that is active there becomes the ingress port. With a *mark*, the only one of an error about a connection that is kept.
    """

    subject: Subject
    receivers: int
    uplink: str
    copies: tuple[BackendCopy, ...]
    mark: int = 0


def rows(ctx: Context) -> Iterator[ErrorRow | CopyRow]:
    """Yield a row for each address of VIPs with copies, then one for each set of receivers and uplink."""
    pools = _pools_by_address(ctx)
    names = {text: f"{'+'.join(sorted(found))}/{family}" for (text, family), (_, found) in pools.items()}
    numbers = number_names(names.values(), 16)
    done: set[int] = set()
    copies: list[CopyRow] = []
    for (text, family), (subject, found) in pools.items():
        receivers = numbers[names[text]]
        yield ErrorRow(subject, text, family, receivers)
        if receivers not in done:
            done.add(receivers)
            copies += _copies(ctx, receivers, sorted(found), family, [p for p in sorted(found) if found[p]])
    yield from copies


def _pools_by_address(ctx: Context) -> dict[tuple[str, Family], tuple[Subject, dict[str, bool]]]:
    """The addresses to which errors are copied, each with its subject and the pools of the VIPs that share it.

    Of each pool whether connections to it are kept, by any VIP: the mark says then which of its backends has one.
    """
    from dnsteer.spec import derived  # here, since the quick verbs do without it

    found: dict[tuple[str, Family], tuple[Subject, dict[str, bool]]] = {}
    kept = derived.pools_of_kept_errors(ctx.spec)
    for name, vip in ctx.spec.vips.items():
        if not derived.copies_errors(vip, ctx.spec.pools[vip.pool]):
            continue
        for i, (address, text) in enumerate(zip(vip.addresses, ctx.addresses[name], strict=True)):
            number = ctx.vips[f"{name}/{text}"]
            subject = ctx.subject(Category.VIP, number, f"VIP {name} {text}", ("vips", name, "addresses", i))
            found.setdefault((text, derived.family_of(address)), (subject, {}))[1][vip.pool] = vip.pool in kept
    return found


def _copies(ctx: Context, receivers: int, pools: list[str], family: Family, kept: Sequence[str]) -> Iterator[CopyRow]:
    """Yield the copies for the backends of *pools*, and first those of connections to the pools that are *kept*."""
    from dnsteer.spec import bonds, derived  # here, since the quick verbs do without it

    backends = [b for name in pools for b in derived.members(ctx.spec.pools[name], family) if b.mac]
    of_pools = f"pool {pools[0]}" if len(pools) == 1 else f"pools {' and '.join(pools)}"
    number = 1 << OBJECT_BITS - 1 | receivers
    subject = ctx.subject(Category.POOL, number, f"ICMP errors for backends of {of_pools}", ("pools", pools[0]))
    marks = {
        ctx.backends[f"{name}/{b.name}"]: b
        for name in kept
        for b in derived.members(ctx.spec.pools[name], family)
        if b.mac
    }
    for uplink in ctx.spec.switch.uplinks:
        ports = bonds.bond_members(ctx.spec.switch, uplink) or (uplink,)
        for mark, backend in marks.items():
            for port in ports:
                yield CopyRow(subject, receivers, port, (_copy(ctx, backend, uplink),), mark)
        found = dict.fromkeys(_copy(ctx, backend, uplink) for backend in backends)
        ordered = tuple(sorted(found, key=lambda each: (each.set_source, bool(each.members))))
        for port in ports:
            if ordered:
                yield CopyRow(subject, receivers, port, ordered)


def _copy(ctx: Context, backend: Backend, uplink: str) -> BackendCopy:
    from dnsteer.spec.bonds import bond_members  # here, since the quick verbs do without it
    from dnsteer.spec.networks import vlan_of

    port = "" if backend.port in (None, uplink) else backend.port or ""
    tag = ctx.vlans.tag_alone(vlan_of(ctx.spec.switch, backend))
    switch = ctx.spec.switch
    return BackendCopy(backend.mac, port, not port or port in switch.uplinks, tag, bond_members(switch, port))


def _none(_: Context) -> Iterator[ErrorRow]:
    """Yield nothing: table error makes the rows of both."""
    return iter(())


TABLE = Table(
    name="error",
    matches="destination address of an ICMP error",
    does="finds the backends that get an ICMP error",
    traffic=("errors",),
    drops="ICMP error for no VIP whose backends get them",
    flows={
        "icmp": "An error to a VIP: the number of those who get it goes to register 6.",
        "icmp6": "The same for IPv6.",
        "miss": "Errors to other addresses are dropped: as many as the meter lets through.",
    },
    uses={"errors": ErrorRow},
    rows=rows,
    is_wanted=has_copies,
    registers=(Register("receivers", 6, "number of the backends that get an ICMP error", "copy"),),
)
COPY_TABLE = Table(
    name="copy",
    matches="number of the receivers, ingress port, the tracker's mark",
    does="sends a copy of an ICMP error to each backend",
    traffic=("errors",),
    drops="ICMP error for backends whose MAC addresses are not known yet",
    flows={
        "ct_mark": "An error about a connection that is kept goes to its backend alone: the mark is that backend's number.",
        "register": "A copy for each backend, with its MAC address: one datapath flow for each VIP and uplink. Those that "
        "leave by an uplink come last, since the source MAC is written for them.",
    },
    uses={"copies": CopyRow},
    rows=_none,
    is_wanted=has_copies,
)
