"""Build the plan of a spec."""

from __future__ import annotations

from dnsteer.plan.context import Context
from dnsteer.plan.numbers import OBJECT_BITS, Category, cookie, number_names
from dnsteer.plan.objects import (
    ForwardRow,
    GroupRow,
    NeighborRow,
    Plan,
    PortRow,
    ServiceRow,
    SlotRow,
    Subject,
)
from dnsteer.plan.pipeline import GROUP_BASE, OUT_SAME
from dnsteer.plan.selection import slots_of
from dnsteer.plan.ways import add_egress, add_returns
from dnsteer.spec import meaning
from dnsteer.spec.errors import Path
from dnsteer.spec.load import Loaded, digest
from dnsteer.spec.meaning import FAMILIES, Family
from dnsteer.spec.model import Forwarding, Pool, Selection, Spec

_WORD = {"ipv4": "IPv4", "ipv6": "IPv6"}


def build_plan(loaded: Loaded) -> Plan:
    """The plan of a valid spec. A pure function: the same spec gives the same plan everywhere."""
    spec = loaded.spec
    switch = spec.switch
    backends = number_names((f"{p}/{b.name}" for p, pool in spec.pools.items() for b in pool.backends), 24)
    pipeline = Subject(cookie(Category.PIPELINE, 0), "pipeline", ("switch",), loaded.document.line(("switch",)))
    plan = Plan(switch.bridge, switch.mac, meaning.gateway_mac(switch), pipeline, digest(spec))
    plan.subjects[pipeline.cookie] = pipeline
    ctx = Context(
        loaded,
        spec,
        plan,
        number_names([*switch.uplinks, *switch.ports], 16),
        number_names((_key(p, pool, f) for p, pool in spec.pools.items() for f in FAMILIES), 16),
        _numbers_of_vips(spec),
        backends,
    )
    _ports(ctx)
    _neighbors(ctx)
    _services(ctx)
    used = {
        (vip.pool, meaning.family_of(address), vip.forwarding)
        for vip in spec.vips.values()
        for address in vip.addresses
    }
    for name, pool in spec.pools.items():
        ways = [(family, mode) for family in FAMILIES for mode in Forwarding if (name, family, mode) in used]
        for key in dict.fromkeys(_key(name, pool, family) for family, _ in ways):
            _pool(ctx, name, key, [way for way in ways if _key(name, pool, way[0]) == key])
    add_returns(ctx)
    add_egress(ctx)
    return plan


def _numbers_of_vips(spec: Spec) -> dict[str, int]:
    names: list[str] = []
    for name, vip in spec.vips.items():
        for address in vip.addresses:
            names.append(f"{name}/{address}")
            names += [f"{name}/{address}/{e.protocol.value}/{e.port}" for e in meaning.endpoints(vip)]
    return number_names(names, OBJECT_BITS)


def _ports(ctx: Context) -> None:
    switch = ctx.spec.switch
    for part, names in (("uplinks", switch.uplinks), ("ports", switch.ports)):
        for name in names:
            number = ctx.ports[name]
            leave = meaning.answers_leave_by(switch, name)
            out = None if leave is None else (OUT_SAME if leave == name else ctx.ports[leave])
            is_uplink = part == "uplinks"
            title = f"{'uplink' if is_uplink else 'port'} {name}"
            subject = ctx.subject(Category.PORT, number, title, ("switch", part, name))
            next_hop = switch.uplinks[name].next_hop if is_uplink else None
            ctx.plan.ports.append(PortRow(subject, name, number, is_uplink, next_hop, out))


def _neighbors(ctx: Context) -> None:
    switch, plan = ctx.spec.switch, ctx.plan
    gateways = number_names((str(a) for a in switch.gateways), OBJECT_BITS)
    for i, address in enumerate(switch.gateways):
        subject = ctx.subject(Category.GATEWAY, gateways[str(address)], f"gateway {address}", ("switch", "gateways", i))
        plan.neighbors.append(
            NeighborRow(subject, str(address), meaning.family_of(address), plan.gateway_mac, True, True)
        )
    echo = {a for vip in ctx.spec.vips.values() if vip.echo for a in vip.addresses}
    seen = set()
    for name, vip in ctx.spec.vips.items():
        for i, address in enumerate(vip.addresses):
            if address in seen:
                continue  # VIPs may share an address; it is answered for once
            seen.add(address)
            subject = ctx.subject(
                Category.VIP, ctx.vips[f"{name}/{address}"], f"VIP {name} {address}", ("vips", name, "addresses", i)
            )
            family = meaning.family_of(address)
            plan.neighbors.append(NeighborRow(subject, str(address), family, plan.mac, False, address in echo))


def _services(ctx: Context) -> None:
    for name, vip in ctx.spec.vips.items():
        pool = ctx.spec.pools[vip.pool]
        for address in vip.addresses:
            family = meaning.family_of(address)
            bits = _slot_bits(ctx.spec, pool, family)
            for e in meaning.endpoints(vip):
                subject = ctx.subject(
                    Category.SERVICE,
                    ctx.vips[f"{name}/{address}/{e.protocol.value}/{e.port}"],
                    f"VIP {name} {address} port {e.port}/{e.protocol.value}",
                    ("vips", name, "services", e.index),
                )
                ctx.plan.services.append(
                    ServiceRow(
                        subject,
                        str(address),
                        family,
                        e.protocol.value,
                        e.port,
                        e.target_port if e.target_port != e.port else 0,
                        ctx.pools[_key(vip.pool, pool, family)],
                        vip.forwarding.value,
                        bits,
                    )
                )


def _slot_bits(spec: Spec, pool: Pool, family: Family) -> int:
    if pool.selection is Selection.DP_HASH:
        return 0
    return len(slots_of(spec, pool, family)).bit_length() - 1


def _key(name: str, pool: Pool, family: Family) -> str:
    """What numbers a pool's slots: the pool, or the pool in a family where its families have different backends."""
    same = all(b.ipv4 is not None and b.ipv6 is not None for b in pool.backends)
    return name if same else f"{name}/{family}"


def _pool(ctx: Context, name: str, key: str, ways: list[tuple[Family, Forwarding]]) -> None:
    pool = ctx.spec.pools[name]
    slots = slots_of(ctx.spec, pool, ways[0][0])
    number = ctx.pools[key]
    what = f"pool {name}" if key == name else f"pool {name} {_WORD[ways[0][0]]}"
    numbers = {b.name: ctx.backends[f"{name}/{b.name}"] for b in pool.backends}
    paths: dict[str, Path] = {b.name: ("pools", name, "backends", i) for i, b in enumerate(pool.backends)}
    if pool.selection is Selection.DP_HASH:
        subject = ctx.subject(Category.POOL, number, f"{what}, by dp-hash", ("pools", name))
        group = GROUP_BASE + number
        ctx.plan.groups.append(GroupRow(subject, number, group, tuple(numbers[s] for s in slots)))
    else:
        for slot, owner in enumerate(slots):
            title = f"{what} slot {slot} -> {owner}"
            subject = ctx.subject(Category.SLOT, number << 16 | slot, title, paths[owner])
            ctx.plan.slots.append(SlotRow(subject, number, slot, numbers[owner]))
    # Backends without a slot get their rows as well: a later change of slots is then a change of slots alone.
    for backend in pool.backends:
        out = ctx.ports[backend.port] if backend.port else OUT_SAME
        this = numbers[backend.name]
        title = f"backend {backend.name} of {what}"
        direct = False
        for family, mode in ways:
            address = meaning.address_of(backend, family)
            if address is None or (direct and mode is Forwarding.DSR):
                continue  # direct server return rewrites the MAC alone: one row serves both families
            direct = direct or mode is Forwarding.DSR
            nat = str(address) if mode is Forwarding.NAT else ""
            subject = ctx.subject(Category.BACKEND, this << 16 | number, title, paths[backend.name])
            ctx.plan.forwards.append(ForwardRow(subject, mode.value, family, number, this, backend.mac, nat, out))
