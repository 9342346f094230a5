# SPDX-License-Identifier: Apache-2.0
"""The interface of a forwarding mode: how queries reach a backend and how its answers come back, as rows of the tables."""

from __future__ import annotations

from abc import ABC
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from dnsteer.modes.extension import ExtendedService, ExtensionBackend, Pipe, Targets
from dnsteer.spec import derived
from dnsteer.spec.errors import DefinitionError, Finding, Path, near
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.families import Family, Reach
from dnsteer.spec.model.spec import Backend, Forwarding, Pool, Protocol, Selection, Switch, Vip
from dnsteer.spec.model.types import Address
from dnsteer.spec.networks import vlan_of
from dnsteer.tables.context import Context, PoolSlots
from dnsteer.tables.cookies import OBJECT_BITS, Category, number_names
from dnsteer.tables.forward import ForwardRow, PortRewrite
from dnsteer.tables.ingress import OUT_SAME
from dnsteer.tables.return_ import OwnReturnRow, ReturnRow

PROTOCOL_NUMBERS = {"tcp": 6, "udp": 17}


class NamedVip(NamedTuple):
    """A VIP with its name and its pool."""

    name: str
    vip: Vip
    pool: Pool


class BackendEnd(NamedTuple):
    """The backend's end of packets between the switch and a backend.

    *address* is in the innermost IP header. Where that is not the backend's own, *mac* or *tunnel*, the address at which a
    tunnel ends, tells whose the packet is. *client* are the first bytes that addresses of clients have there.
    """

    address: Address
    mac: str = ""
    tunnel: Address | None = None
    client: bytes = b""


class Mode(ABC):
    """A forwarding mode, with defaults. One object of each subclass serves all VIPs."""

    word: Forwarding
    """The mode's name in the spec."""
    number = 0
    """Value of the register `mode`; 0 if only the extension forwards."""
    program = ""
    """The mode's name in the extension's program; empty if the extension does not support it."""
    why_unsupported = "the extension's program cannot forward this way"
    """Why the extension does not support the mode, in words; used if *program* is empty."""
    by_extension = False
    """Whether every VIP of the mode goes through the extension, whatever its pool's selection."""
    changed_by = "the extension"
    """What rewrites queries, in words."""
    translates_ports = False
    """Whether a service may have a different port on the backends (target_port)."""
    owns_vip = False
    """Whether backends own the VIP's address and answer as the VIP."""
    tunnels = False
    """Whether the extension encapsulates queries in a tunnel."""
    translates = False
    """Whether the extension translates queries and answers between IPv4 and IPv6."""
    query_rewrites = 1
    """Number of header fields that the extension rewrites in a query."""
    by_mac = False
    """Whether queries to different backends differ only in the destination MAC address."""
    answers_by = ""
    """What makes answers always come back through the switch, in words; empty if they need not."""
    why_no_errors = ""
    """Why ICMP errors to a VIP cannot be copied to its backends; empty if they can."""
    fragments = "direct server return translates no answers, so that fragments of them are never dropped"
    """Why `fragments: drop` has no effect; empty if it has one."""

    def __init_subclass__(cls) -> None:
        """Refuse what no mode has, since a name with a slip would be a default that stays. Raises DefinitionError."""
        for name in vars(cls):
            if not name.startswith("_") and not hasattr(Mode, name) and name not in Mode.__annotations__:
                known = [known for known in dir(Mode) if not known.startswith("_")]
                raise DefinitionError(
                    f"{cls.__module__.replace('.', '/')}.py: a mode has no {name}; {near(name, known)}"
                )

    def reach(self, family: Family) -> Reach:
        """Return the family in which a backend needs an address to take queries to *family*; ANY for either family."""
        return family

    def uses_extension(self, pool: Pool) -> bool:
        """Whether packets to a VIP served by *pool* go through the extension."""
        return self.by_extension or pool.selection in (Selection.CLIENT, Selection.SPRAY)

    def stand_in(self, pool: Pool, family: Family) -> str:
        """Return the destination that queries have between two passes, for all VIPs; empty if theirs stays.

        A mode that writes the destination needs one: what is written is matched, and would tell VIPs apart.
        """
        return ""

    def answers_pass(self, switch: Switch, backend: Backend) -> bool:
        """Whether the answers of *backend* come back through the switch."""
        return bool(self.answers_by) or backend.port in switch.ports

    def answers_in(self, family: Family) -> Family:
        """Return the family of the answers that backends send, for clients in *family*."""
        return family

    def mtu_excess(self, vip: Vip, pool: Pool) -> int:
        """Return by how many bytes a full-size TCP segment to a VIP exceeds the MTU of the links it arrived by.

        A translation that makes packets longer counts 0: servers ask for segments that fit their links (RFC 9293, 3.7.1).
        """
        return 0

    def pipes(self, services: Sequence[ExtendedService], targets: Targets) -> Iterator[Pipe]:
        """Yield the pipes that the extension's program needs for the mode's services, in addition to those of all modes."""
        return iter(())

    def stages(self, families: Collection[Family]) -> tuple[str, ...]:
        """Return the names of these pipes on the longest path of a query, if backends are reached in *families*."""
        return ()

    def returned_as(self, service: ExtendedService, target: ExtensionBackend) -> tuple[Family, int]:
        """Return the family and IP protocol number of a service's queries when the extension returns them."""
        return service.family, PROTOCOL_NUMBERS[service.protocol]

    def added_bytes(self, target: ExtensionBackend) -> int:
        """Return by how many bytes the extension lengthens queries to a target."""
        return 0

    def check(self, scope: Scope, vips: Sequence[NamedVip]) -> Iterator[Finding]:
        """Yield findings about what cannot work with *vips*, the mode's VIPs whose pools exist."""
        return iter(())

    def forward_rows(self, ctx: Context, slots: PoolSlots, index: int, reached: Reach) -> Iterator[ForwardRow]:
        """Yield the rows of table forward for the pool's backend at *index*; none if the extension forwards."""
        return iter(())

    def return_rows(self, ctx: Context, name: str, vip: Vip, address: Address) -> Iterator[ReturnRow]:
        """Yield the rows of table return for answers of a VIP's address."""
        return iter(())

    def backend_end(self, backend: Backend, address: Address) -> BackendEnd | None:
        """Return what identifies packets of a VIP's *address* at a backend; None if it gets none. Each mode has its own."""
        raise NotImplementedError

    def target(self, backend: Backend, family: Family) -> str:
        """Return the address by which the extension reaches a backend for queries in *family*; empty: by its MAC address."""
        return ""


def forward_row(
    ctx: Context,
    slots: PoolSlots,
    index: int,
    mode: Mode,
    family: Reach,
    address: str = "",
    ports: tuple[PortRewrite, ...] = (),
    tunnel: tuple[str, str, int] | None = None,
) -> ForwardRow:
    """Return the forward row of a pool's backend at *index*.

    *family* is that of the queries where a field of the IP header is rewritten, so one row for each; else ANY.
    *address* is the new destination, empty if it stays; *ports* are the ports that change. *tunnel* has the port that makes
    the tunnel to the backend, where that ends, and its key.
    """
    members, backend = slots.members, slots.pool.backends[index]
    number = ctx.backends[f"{members.pool}/{backend.name}"]
    subject = ctx.subject(
        Category.BACKEND,
        number << 16 | members.number,
        f"backend {backend.name} of {members.title}",
        ("pools", members.pool, "backends", index),
    )
    out, tag = ctx.ports[backend.port] if backend.port else OUT_SAME, ctx.vlans.tag(vlan_of(ctx.spec.switch, backend))
    end, tunnel_key = "", 0
    if tunnel is not None:  # the frame inside has no tag
        out, end, tunnel_key, tag = ctx.ports[tunnel[0]], tunnel[1], tunnel[2], ctx.vlans.untag
    key = members.number, mode.word
    zone = derived.tracking(ctx.spec).zone if key in ctx.keeping else 0
    return ForwardRow(
        subject,
        mode.word.value,
        mode.number,
        family,
        members.number,
        number,
        backend.mac,
        address,
        out,
        ports,
        zone,
        ctx.keeping.get(key, False),
        tag,
        end,
        tunnel_key,
    )


def return_numbers(ctx: Context) -> dict[str, int]:
    """Return the cookie numbers of return rows, by `ADDRESS/PROTOCOL/PORT` or `ADDRESS` of a backend or `vip/ADDRESS`."""
    return ctx.once("return numbers", lambda: _return_numbers(ctx))


def _return_numbers(ctx: Context) -> dict[str, int]:
    addresses = backend_addresses(ctx)
    vips = ctx.spec.vips.values()
    services = {(e.protocol.value, e.target_port) for vip in vips for e in derived.endpoints(vip)}
    names = [f"{a}/{protocol}/{port}" for a in addresses for protocol, port in services]
    for pool in ctx.spec.pools.values():
        for b in pool.backends:
            if b.port_offset:
                own = [str(a) for a in (b.ipv4, b.ipv6) if a]
                names += [f"{a}/{protocol}/{port + b.port_offset}" for a in own for protocol, port in services]
    return number_names([*names, *addresses, *(f"vip/{a}" for vip in vips for a in vip.addresses)], OBJECT_BITS)


def backend_addresses(ctx: Context) -> list[str]:
    """Return all addresses of backends, in the order of the spec; shared ones repeat."""
    return [str(a) for pool in ctx.spec.pools.values() for b in pool.backends for a in (b.ipv4, b.ipv6) if a]


class OwnsVip(Mode):
    """A mode whose backends own the VIP's address and answer as the VIP."""

    owns_vip = True

    def return_rows(self, ctx: Context, name: str, vip: Vip, address: Address) -> Iterator[OwnReturnRow]:
        """Yield the row that passes the VIP's answers, only if a backend's answers come through the switch."""
        family = derived.family_of(address)
        backends = derived.members(ctx.spec.pools[vip.pool], self.reach(family))
        if not any(self.answers_pass(ctx.spec.switch, backend) for backend in backends):
            return
        path: Path = ("vips", name, "addresses", vip.addresses.index(address))
        title = f"answers of backends as VIP {name} {address}"
        subject = ctx.subject(Category.RETURN, return_numbers(ctx)[f"vip/{address}"], title, path)
        here = {e.protocol for e in derived.endpoints(vip)}
        yield OwnReturnRow(subject, family, str(address), tuple(p.value for p in Protocol if p in here))
