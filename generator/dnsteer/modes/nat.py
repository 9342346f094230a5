"""Stateless NAT: the query's destination becomes the backend's address, the answer's source the VIP's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dnsteer.modes.base import BackendEnd, Mode, NamedVip, backend_addresses, forward_row, return_numbers
from dnsteer.modes.nat_conflicts import check_nat
from dnsteer.spec import derived
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.health_checks import own_slots, service_name
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.spec import Backend, Forwarding, Protocol, Vip
from dnsteer.spec.model.types import ANY, Address, Reach
from dnsteer.spec.workers import Worker, has_workers
from dnsteer.tables.context import Context, PoolSlots
from dnsteer.tables.cookies import Category, number_names
from dnsteer.tables.forward import ForwardRow, PortRewrite
from dnsteer.tables.return_ import FragmentRow, NatReturnRow


class Nat(Mode):
    """Answers from a backend's address and port are rewritten to come from the VIP; so a backend's port serves one VIP."""

    word = Forwarding.NAT
    number = 2
    translates_ports = True
    answers_by = "NAT"
    why_unsupported = "the extension cannot translate answers back to the VIP for NAT"
    fragments = ""

    def check(self, scope: Scope, vips: Sequence[NamedVip]) -> Iterator[Finding]:
        """Report backends whose answers cannot be attributed to one VIP."""
        return check_nat(scope, vips)

    def backend_end(self, backend: Backend, address: Address) -> BackendEnd | None:
        """Return the backend's address in the family of *address*."""
        own = derived.address_of(backend, derived.family_of(address))
        return BackendEnd(own) if own is not None else None

    def forward_rows(self, ctx: Context, slots: PoolSlots, index: int, reached: Reach) -> Iterator[ForwardRow]:
        """Yield the row that sets the destination MAC and IP address, for each family that the backend has."""
        if reached == ANY:
            return
        backend = slots.pool.backends[index]
        address = derived.address_of(backend, reached)
        if address is None:
            return
        key = f"ports of {slots.members.number} in {reached}"
        ports = ctx.once(key, lambda: tuple(_target_ports(ctx, slots, reached)))
        rewrites = tuple(PortRewrite(protocol, port, port + backend.port_offset) for protocol, port in ports)
        yield forward_row(ctx, slots, index, self, reached, str(address), rewrites)

    def return_rows(self, ctx: Context, name: str, vip: Vip, address: Address) -> Iterator[NatReturnRow | FragmentRow]:
        """Yield rows that rewrite the source of answers, and of fragments of UDP answers, which carry no port."""
        family = derived.family_of(address)
        numbers = return_numbers(ctx)
        zones = ctx.once("zones", lambda: number_names(backend_addresses(ctx), 16))
        for i, backend in enumerate(ctx.spec.pools[vip.pool].backends):
            found = derived.address_of(backend, family)
            if found is None:
                continue
            own = str(found)
            path: Path = ("pools", vip.pool, "backends", i)
            title, more = f"answers of backend {backend.name}", backend.port_offset
            about = f"({own}) as VIP {name} {address}"
            for e in derived.endpoints(vip):
                protocol, from_port = e.protocol.value, e.target_port + more
                port = e.port if e.port != from_port else 0
                number = numbers[f"{own}/{protocol}/{from_port}"]
                subject = ctx.subject(Category.RETURN, number, f"{title} {about} port {e.port}/{protocol}", path)
                yield NatReturnRow(subject, family, protocol, own, from_port, str(address), port)
                if vip.fragments == "restore" and e.protocol is Protocol.UDP:
                    # One row for the fragments of all workers, whose ports differ: so the VIP's is written in any case.
                    port = e.port if isinstance(backend, Worker) else port
                    what = f"fragments of answers of backend {backend.host} {about}"
                    subject = ctx.subject(Category.RETURN, numbers[own], what, path)
                    yield FragmentRow(subject, family, own, str(address), port, zones[own])


def _target_ports(ctx: Context, slots: PoolSlots, family: Reach) -> Iterator[tuple[str, int]]:
    """Yield protocol and target port of each service whose queries come to a pool with workers by these slots."""
    if not has_workers(slots.pool):
        return
    name, own = slots.members.pool, own_slots(ctx.spec, slots.members.pool)
    found: dict[tuple[str, int], None] = {}
    for vip in ctx.spec.vips.values():
        if vip.pool != name or all(derived.family_of(a) != family for a in vip.addresses):
            continue
        for e in derived.endpoints(vip):
            service = service_name(e.protocol.value, e.port)
            if (service if service in own else "") == slots.members.service:
                found[e.protocol.value, e.target_port] = None
    yield from found
