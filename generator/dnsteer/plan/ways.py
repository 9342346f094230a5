"""The ways of a plan: back from the backends to the clients, and out of the switch."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.plan.context import Context
from dnsteer.plan.numbers import OBJECT_BITS, Category, number_names
from dnsteer.plan.objects import DsrReturnRow, EgressRow, FragmentRow, NatReturnRow, PortRow
from dnsteer.plan.pipeline import OUT_SAME, PATH_ANSWER, PATH_QUERY
from dnsteer.spec import derived
from dnsteer.spec.errors import Path
from dnsteer.spec.model.spec import Forwarding, Protocol, Vip
from dnsteer.spec.model.types import Address


def add_returns(ctx: Context) -> None:
    """Add the rows that turn answers back into the VIP's."""
    spec = ctx.spec
    if not spec.switch.gateways:
        return
    addresses = [str(a) for pool in spec.pools.values() for b in pool.backends for a in (b.ipv4, b.ipv6) if a]
    services = {(e.protocol.value, e.target_port) for vip in spec.vips.values() for e in derived.endpoints(vip)}
    names = [f"{a}/{protocol}/{port}" for a in addresses for protocol, port in services]
    vips = [f"vip/{a}" for vip in spec.vips.values() for a in vip.addresses]
    numbers = number_names([*names, *addresses, *vips], OBJECT_BITS)
    zones = number_names(addresses, 16)
    _nat(ctx, numbers, zones)
    _dsr(ctx, numbers)


def _nat(ctx: Context, numbers: dict[str, int], zones: dict[str, int]) -> None:
    returns: dict[tuple[str, str, int], NatReturnRow] = {}
    fragments: dict[str, FragmentRow] = {}
    for vip_name, vip, address in _addresses(ctx, (Forwarding.NAT,)):
        family = derived.family_of(address)
        for i, backend in enumerate(ctx.spec.pools[vip.pool].backends):
            found = derived.address_of(backend, family)
            if found is None:
                continue
            own = str(found)
            path: Path = ("pools", vip.pool, "backends", i)
            title = f"answers of backend {backend.name} ({own}) as VIP {vip_name} {address}"
            for e in derived.endpoints(vip):
                protocol = e.protocol.value
                moved = e.port if e.port != e.target_port else 0
                key = (own, protocol, e.target_port)
                if key not in returns:
                    number = numbers[f"{own}/{protocol}/{e.target_port}"]
                    subject = ctx.subject(Category.RETURN, number, f"{title} port {e.port}/{protocol}", path)
                    returns[key] = NatReturnRow(subject, family, protocol, own, e.target_port, str(address), moved)
                if vip.fragments == "restore" and e.protocol is Protocol.UDP and own not in fragments:
                    subject = ctx.subject(Category.RETURN, numbers[own], f"fragments of {title}", path)
                    fragments[own] = FragmentRow(subject, family, own, str(address), moved, zones[own])
    ctx.plan.nat_returns.extend(returns.values())
    ctx.plan.fragments.extend(fragments.values())


def _dsr(ctx: Context, numbers: dict[str, int]) -> None:
    rows: dict[str, DsrReturnRow] = {}
    for vip_name, vip, address in _addresses(ctx, (Forwarding.DSR, Forwarding.IPIP)):
        family = derived.family_of(address)
        if not any(
            derived.answers_pass(ctx.spec.switch, vip, b)
            for b in derived.members(ctx.spec.pools[vip.pool], derived.reach(vip, family))
        ):
            continue
        key = str(address)
        earlier = rows[key].protocols if key in rows else ()
        here = {e.protocol.value for e in derived.endpoints(vip)}
        protocols = tuple(p.value for p in Protocol if p.value in here or p.value in earlier)
        path: Path = ("vips", vip_name, "addresses", vip.addresses.index(address))
        title = f"answers of backends as VIP {vip_name} {address}"
        subject = ctx.subject(Category.RETURN, numbers[f"vip/{address}"], title, path)
        rows[key] = DsrReturnRow(subject, family, key, protocols)
    ctx.plan.dsr_returns.extend(rows.values())


def _addresses(ctx: Context, modes: tuple[Forwarding, ...]) -> Iterator[tuple[str, Vip, Address]]:
    for name, vip in ctx.spec.vips.items():
        if vip.forwarding in modes:
            for address in vip.addresses:
                yield name, vip, address


def add_egress(ctx: Context) -> None:
    """Add the rows that send packets out, only those that a packet can reach."""
    plan = ctx.plan
    by_number = {p.number: p for p in plan.ports}
    query_outs = {row.out for row in plan.forwards}
    uplinks = [p for p in plan.ports if p.uplink]
    if OUT_SAME in query_outs:
        plan.egress.append(EgressRow(plan.pipeline, PATH_QUERY, OUT_SAME, "", "", True, ""))
    for port in plan.ports:
        if port.number not in query_outs:
            continue
        if port.uplink:
            plan.egress.append(EgressRow(port.subject, PATH_QUERY, port.number, "", port.name, True, ""))
            if len(uplinks) == 1:
                continue  # queries come in by uplinks alone
        plan.egress.append(EgressRow(port.subject, PATH_QUERY, port.number, port.name, "", port.uplink, ""))
    if not plan.has_gateways:
        return
    answer_outs: dict[int, PortRow] = {}
    for port in plan.ports:
        if port.answers_out == OUT_SAME and port.next_hop:
            plan.egress.append(EgressRow(port.subject, PATH_ANSWER, OUT_SAME, "", port.name, True, port.next_hop))
        elif port.answers_out is not None:
            answer_outs[port.answers_out] = by_number[port.answers_out]
    for number, port in answer_outs.items():
        plan.egress.append(EgressRow(port.subject, PATH_ANSWER, number, port.name, "", True, port.next_hop or ""))
