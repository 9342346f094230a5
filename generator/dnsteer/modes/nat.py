"""Stateless NAT: the query's destination becomes the backend's address, the answer's source the VIP's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dnsteer.modes.base import BackendEnd, Mode, NamedVip, backend_addresses, forward_row, return_numbers
from dnsteer.modes.nat_conflicts import check_nat
from dnsteer.spec import derived
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.model.families import ANY, Reach
from dnsteer.spec.model.spec import Backend, Forwarding, Protocol, Vip
from dnsteer.spec.model.types import Address
from dnsteer.spec.scope import Scope
from dnsteer.tables.context import Context, PoolSlots
from dnsteer.tables.cookies import Category, number_names
from dnsteer.tables.forward import ForwardRow
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
        address = derived.address_of(slots.pool.backends[index], reached)
        if address is not None:
            yield forward_row(ctx, slots, index, self, reached, str(address))

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
            title = f"answers of backend {backend.name} ({own}) as VIP {name} {address}"
            for e in derived.endpoints(vip):
                protocol, port = e.protocol.value, e.port if e.port != e.target_port else 0
                number = numbers[f"{own}/{protocol}/{e.target_port}"]
                subject = ctx.subject(Category.RETURN, number, f"{title} port {e.port}/{protocol}", path)
                yield NatReturnRow(subject, family, protocol, own, e.target_port, str(address), port)
                if vip.fragments == "restore" and e.protocol is Protocol.UDP:
                    subject = ctx.subject(Category.RETURN, numbers[own], f"fragments of {title}", path)
                    yield FragmentRow(subject, family, own, str(address), port, zones[own])
