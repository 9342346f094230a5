"""What a forwarding mode is: how queries reach a backend, and how its answers come back, as rows of the tables."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator

from dnsteer.spec import derived
from dnsteer.spec.errors import Path
from dnsteer.spec.model.families import Family, Reach
from dnsteer.spec.model.spec import Backend, Forwarding, Protocol, Vip
from dnsteer.spec.model.types import Address
from dnsteer.tables.context import Context, PoolSlots
from dnsteer.tables.cookies import OBJECT_BITS, Category, number_names
from dnsteer.tables.forward import ForwardRow
from dnsteer.tables.ingress import OUT_SAME
from dnsteer.tables.return_ import OwnReturnRow


class Mode(ABC):
    """A forwarding mode. One object of each class does for all VIPs."""

    word: Forwarding
    """How the spec calls it."""
    program = ""
    """How the extension's program calls it, where VIPs of the mode may go through the extension."""

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
    ctx: Context, slots: PoolSlots, index: int, mode: Forwarding, family: Family, address: str = ""
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
    return ForwardRow(subject, mode.value, family, members.number, number, backend.mac, address, out)


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

    def return_rows(self, ctx: Context, name: str, vip: Vip, address: Address) -> Iterator[OwnReturnRow]:
        """Answers pass the switch only where a backend is on a port of its own."""
        switch, family = ctx.spec.switch, derived.family_of(address)
        backends = derived.members(ctx.spec.pools[vip.pool], derived.reach(vip, family))
        if not any(derived.answers_pass(switch, vip, backend) for backend in backends):
            return
        path: Path = ("vips", name, "addresses", vip.addresses.index(address))
        title = f"answers of backends as VIP {name} {address}"
        subject = ctx.subject(Category.RETURN, return_numbers(ctx)[f"vip/{address}"], title, path)
        here = {e.protocol for e in derived.endpoints(vip)}
        yield OwnReturnRow(subject, family, str(address), tuple(p.value for p in Protocol if p in here))
