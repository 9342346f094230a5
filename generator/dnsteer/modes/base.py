"""What a forwarding mode is: how queries reach a backend, and how its answers come back, as rows of the tables."""

from __future__ import annotations

from abc import ABC
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from dnsteer.modes.extension import ExtendedService, Pipe, Target, Targets
from dnsteer.spec import derived
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.model.families import Family, Reach
from dnsteer.spec.model.spec import Backend, Forwarding, Pool, Protocol, Selection, Switch, Vip
from dnsteer.spec.model.types import Address
from dnsteer.spec.scope import Scope
from dnsteer.tables.context import Context, PoolSlots
from dnsteer.tables.cookies import OBJECT_BITS, Category, number_names
from dnsteer.tables.forward import ForwardRow
from dnsteer.tables.ingress import OUT_SAME
from dnsteer.tables.return_ import OwnReturnRow

PROTOCOL_NUMBERS = {"tcp": 6, "udp": 17}


class NamedVip(NamedTuple):
    """A VIP with its name and its pool."""

    name: str
    vip: Vip
    pool: Pool


class Mode(ABC):
    """A forwarding mode. One object of each class does for all VIPs; what it does not say is as here."""

    word: Forwarding
    """How the spec calls it."""
    number = 0
    """Value of the register `mode`; 0 where the extension alone forwards."""
    program = ""
    """How the extension's program calls it; empty where the extension cannot do it."""
    no_program = "the extension's program cannot forward this way"
    """Why not, in words, where there is no *program*."""
    by_extension = False
    """Whether every VIP of the mode goes through the extension, whatever its pool's selection."""
    changed_by = "the extension"
    """What changes queries, in words."""
    translates_ports = False
    """Whether a service may have another port on the backends (target_port)."""
    owns_vip = False
    """Whether backends own the VIP's address and answer as the VIP."""
    tunnels = False
    """Whether the extension puts queries into tunnels."""
    translates = False
    """Whether the extension translates queries and answers into the other family."""
    query_rewrites = 1
    """Header fields that the extension writes of a query."""
    by_mac = False
    """Whether the MAC address alone tells backends apart."""
    answers_by = ""
    """Why answers always come back through the switch, in words; empty where they need not."""
    fragments = "direct server return translates no answers, so that fragments of them are never dropped"
    """Why `fragments: drop` has no effect; empty where it has one."""

    def reach(self, family: Family) -> Reach:
        """Addresses that a backend must have one of to take queries to an address in *family*."""
        return family

    def extended(self, pool: Pool) -> bool:
        """Whether packets of a VIP that *pool* serves go through the extension."""
        return self.by_extension or pool.selection in (Selection.CLIENT, Selection.SPRAY)

    def answers_pass(self, switch: Switch, backend: Backend) -> bool:
        """Whether the answers of *backend* come back through the switch."""
        return bool(self.answers_by) or backend.port in switch.ports

    def answers_in(self, family: Family) -> Family:
        """The family in which answers come from backends, for clients in *family*."""
        return family

    def lengthens(self, vip: Vip, pool: Pool) -> int:
        """Bytes by which a full-size TCP segment towards a VIP exceeds the MTU of the links that it came by.

        A translation that makes packets longer counts 0: servers ask for segments that fit their links (RFC 9293, 3.7.1).
        """
        return 0

    def pipes(self, services: Sequence[ExtendedService], targets: Targets) -> Iterator[Pipe]:
        """Pipes that the extension's program makes for all services of the mode, besides those that every mode has."""
        return iter(())

    def stages(self, families: Collection[Family]) -> tuple[str, ...]:
        """Names of these pipes on the longest way of a query, where backends are reached in *families*."""
        return ()

    def comes_back(self, service: ExtendedService, target: Target) -> tuple[Family, int]:
        """Family and protocol number of what the extension gives back of a service's queries."""
        return service.family, PROTOCOL_NUMBERS[service.protocol]

    def grows(self, target: Target) -> int:
        """By how many bytes the extension makes queries to a target longer."""
        return 0

    def check(self, scope: Scope, vips: Sequence[NamedVip]) -> Iterator[Finding]:
        """What cannot work with the VIPs of the mode whose pools there are."""
        return iter(())

    def forward_rows(self, ctx: Context, slots: PoolSlots, index: int, reached: Reach) -> Iterator[ForwardRow]:
        """What table forward does for a backend of a pool, by its index. Nothing where the extension forwards."""
        return iter(())

    def return_rows(self, ctx: Context, name: str, vip: Vip, address: Address) -> Iterator[object]:
        """What table return does with answers for a VIP's address."""
        return iter(())

    def target(self, backend: Backend, family: Family) -> str:
        """The address by which the extension reaches a backend for queries in *family*; empty: by its MAC address."""
        return ""


def forward_row(
    ctx: Context, slots: PoolSlots, index: int, mode: Mode, family: Family, address: str = ""
) -> ForwardRow:
    """The row of one backend of a pool; *address* is its new destination."""
    members, backend = slots.members, slots.pool.backends[index]
    number = ctx.backends[f"{members.pool}/{backend.name}"]
    subject = ctx.subject(
        Category.BACKEND,
        number << 16 | members.number,
        f"backend {backend.name} of {members.title}",
        ("pools", members.pool, "backends", index),
    )
    out = ctx.ports[backend.port] if backend.port else OUT_SAME
    return ForwardRow(subject, mode.word.value, mode.number, family, members.number, number, backend.mac, address, out)


def return_numbers(ctx: Context) -> dict[str, int]:
    """Numbers of what answers are told by: `ADDRESS/PROTOCOL/PORT` and `ADDRESS` of backends, `vip/ADDRESS` of VIPs."""
    return ctx.once("return numbers", lambda: _return_numbers(ctx))


def _return_numbers(ctx: Context) -> dict[str, int]:
    addresses = backend_addresses(ctx)
    vips = ctx.spec.vips.values()
    services = {(e.protocol.value, e.target_port) for vip in vips for e in derived.endpoints(vip)}
    names = [f"{a}/{protocol}/{port}" for a in addresses for protocol, port in services]
    return number_names([*names, *addresses, *(f"vip/{a}" for vip in vips for a in vip.addresses)], OBJECT_BITS)


def backend_addresses(ctx: Context) -> list[str]:
    """All addresses of backends."""
    return [str(a) for pool in ctx.spec.pools.values() for b in pool.backends for a in (b.ipv4, b.ipv6) if a]


class OwnsVip(Mode):
    """A mode whose backends own the VIP's address and answer as the VIP."""

    owns_vip = True

    def return_rows(self, ctx: Context, name: str, vip: Vip, address: Address) -> Iterator[OwnReturnRow]:
        """Answers pass the switch only where a backend is on a port of its own."""
        family = derived.family_of(address)
        backends = derived.members(ctx.spec.pools[vip.pool], self.reach(family))
        if not any(self.answers_pass(ctx.spec.switch, backend) for backend in backends):
            return
        path: Path = ("vips", name, "addresses", vip.addresses.index(address))
        title = f"answers of backends as VIP {name} {address}"
        subject = ctx.subject(Category.RETURN, return_numbers(ctx)[f"vip/{address}"], title, path)
        here = {e.protocol for e in derived.endpoints(vip)}
        yield OwnReturnRow(subject, family, str(address), tuple(p.value for p in Protocol if p in here))
