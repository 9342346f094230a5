"""Build the plan of a spec."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.plan.context import Context
from dnsteer.plan.extension.build import add_extension, slots_key
from dnsteer.plan.maintenance import NO_OVERLAY, Overlay, marker
from dnsteer.plan.membership import Member, Membership
from dnsteer.plan.numbers import OBJECT_BITS, Category, cookie, number_names
from dnsteer.plan.objects import (
    ForwardRow,
    NeighborRow,
    Plan,
    PortRow,
    ServiceRow,
    SlotTable,
    group_row,
)
from dnsteer.plan.pipeline import OUT_SAME
from dnsteer.plan.slot_owners import owners_of
from dnsteer.plan.subject import Subject
from dnsteer.plan.ways import add_egress, add_returns
from dnsteer.spec import derived
from dnsteer.spec.errors import Path
from dnsteer.spec.load import Loaded
from dnsteer.spec.model.families import ANY, FAMILIES, Reach
from dnsteer.spec.model.spec import Forwarding, Pool, Selection, Spec, State, Switch

_WORD = {"ipv4": "IPv4", "ipv6": "IPv6"}


def build_plan(loaded: Loaded, overlay: Overlay = NO_OVERLAY) -> Plan:
    """The plan of a valid spec and an overlay. A pure function: the same spec and overlay give the same plan everywhere."""
    spec = loaded.spec
    switch = spec.switch
    backends = number_names((f"{p}/{b.name}" for p, pool in spec.pools.items() for b in pool.backends), 24)
    pipeline = Subject(cookie(Category.PIPELINE, 0), "pipeline", ("switch",), loaded.document.line(("switch",)))
    key = loaded.digest
    plan = Plan(switch.bridge, switch.mac, derived.gateway_mac(switch), pipeline, key, marker(key, overlay))
    plan.any_vlan = switch.vlans == "any"
    plan.subjects[pipeline.cookie] = pipeline
    ctx = Context(
        loaded,
        spec,
        plan,
        number_names([*switch.uplinks, *switch.ports, *_extension_ports(switch)], 16),
        number_names(_pool_keys(spec), 16),
        _numbers_of_vips(spec),
        backends,
    )
    _ports(ctx)
    _neighbors(ctx)
    _services(ctx)
    used = {
        (vip.pool, derived.reach(vip, derived.family_of(address)), vip.forwarding)
        for vip in spec.vips.values()
        for address in vip.addresses
    }
    slots: dict[str, tuple[str, ...]] = {}
    for name, pool in spec.pools.items():
        ways = [(reached, mode) for reached in (*FAMILIES, ANY) for mode in Forwarding if (name, reached, mode) in used]
        for key in dict.fromkeys(slots_key(name, pool, reached) for reached, _ in ways):
            slots[key] = _pool(ctx, overlay, name, key, [way for way in ways if slots_key(name, pool, way[0]) == key])
    add_returns(ctx)
    add_egress(ctx)
    add_extension(ctx, slots)
    return plan


def _extension_ports(switch: Switch) -> list[str]:
    part = switch.extension
    return [] if part is None else [part.ingress.port, part.egress.port]


def _pool_keys(spec: Spec) -> Iterator[str]:
    tunneled = {vip.pool for vip in spec.vips.values() if vip.forwarding is Forwarding.IPIP}
    for name, pool in spec.pools.items():
        for reached in (*FAMILIES, ANY) if name in tunneled else FAMILIES:
            yield slots_key(name, pool, reached)


def _numbers_of_vips(spec: Spec) -> dict[str, int]:
    names: list[str] = []
    for name, vip in spec.vips.items():
        services = [f"{e.protocol.value}/{e.port}" for e in derived.endpoints(vip)]
        for address in vip.addresses:
            key = f"{name}/{address}"  # spelt once: that of an IPv6 address takes long
            names.append(key)
            names += [f"{key}/{service}" for service in services]
    return number_names(names, OBJECT_BITS)


def _ports(ctx: Context) -> None:
    switch = ctx.spec.switch
    for part, names in (("uplinks", switch.uplinks), ("ports", switch.ports)):
        for name in names:
            number = ctx.ports[name]
            leave = derived.answers_leave_by(switch, name)
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
            NeighborRow(subject, str(address), derived.family_of(address), plan.gateway_mac, True, True)
        )
    echo = {a for vip in ctx.spec.vips.values() if vip.echo for a in vip.addresses}
    seen = set()
    for name, vip in ctx.spec.vips.items():
        for i, address in enumerate(vip.addresses):
            if address in seen:
                continue  # VIPs may share an address; it is answered for once
            seen.add(address)
            text = str(address)
            subject = ctx.subject(
                Category.VIP, ctx.vips[f"{name}/{text}"], f"VIP {name} {text}", ("vips", name, "addresses", i)
            )
            family = derived.family_of(address)
            plan.neighbors.append(NeighborRow(subject, text, family, plan.mac, False, address in echo))


def _services(ctx: Context) -> None:
    for name, vip in ctx.spec.vips.items():
        pool, mode = ctx.spec.pools[vip.pool], vip.forwarding.value
        extended = derived.extended(pool, vip.forwarding)
        bits = 0 if extended else _slot_bits(ctx.spec, pool)
        endpoints = [(e, e.protocol.value) for e in derived.endpoints(vip)]
        for address in vip.addresses:
            family, text = derived.family_of(address), str(address)
            number = ctx.pools[slots_key(vip.pool, pool, derived.reach(vip, family))]
            for e, protocol in endpoints:
                subject = ctx.subject(
                    Category.SERVICE,
                    ctx.vips[f"{name}/{text}/{protocol}/{e.port}"],
                    f"VIP {name} {text} port {e.port}/{protocol}",
                    ("vips", name, "services", e.index),
                )
                target = e.target_port if e.target_port != e.port else 0
                ctx.plan.services.append(
                    ServiceRow(subject, text, family, protocol, e.port, target, number, mode, bits, extended)
                )


def _slot_bits(spec: Spec, pool: Pool) -> int:
    if pool.selection is Selection.DP_HASH:
        return 0
    return derived.slot_count(spec, pool).bit_length() - 1


def _pool(ctx: Context, overlay: Overlay, name: str, key: str, ways: list[tuple[Reach, Forwarding]]) -> tuple[str, ...]:
    """Add the rows of a pool's slots; the backend of each."""
    pool = ctx.spec.pools[name]
    members = _membership(ctx, name, key, ways[0][0])
    number, what = members.number, members.title
    numbers = {b.name: ctx.backends[f"{name}/{b.name}"] for b in pool.backends}
    paths: dict[str, Path] = {b.name: ("pools", name, "backends", i) for i, b in enumerate(pool.backends)}
    owners = owners_of(members, overlay.of(name))
    ctx.plan.members.append(members)
    here = [(family, mode) for family, mode in ways if family != ANY and not derived.extended(pool, mode)]
    if not here:
        return owners  # its slots are the extension's
    if pool.selection is not Selection.DP_HASH:
        line = ctx.loaded.document.line
        at = {owner: Subject(0, f"backend {owner}", path, line(path)) for owner, path in paths.items()}
        ctx.plan.slots.append(SlotTable(members, owners, at))
    elif owners:
        ctx.plan.groups.append(group_row(members, owners, ctx.loaded.document.line(("pools", name))))
        ctx.plan.subjects[ctx.plan.groups[-1].subject.cookie] = ctx.plan.groups[-1].subject
    # Backends without a slot get their rows as well: a later change of slots is then a change of slots alone.
    for backend in pool.backends:
        out = ctx.ports[backend.port] if backend.port else OUT_SAME
        this = numbers[backend.name]
        title = f"backend {backend.name} of {what}"
        direct = False
        for family, mode in here:
            address = derived.address_of(backend, family)
            if address is None or (direct and mode is Forwarding.DSR):
                continue  # direct server return rewrites the MAC alone: one row serves both families
            direct = direct or mode is Forwarding.DSR
            nat = str(address) if mode is Forwarding.NAT else ""
            subject = ctx.subject(Category.BACKEND, this << 16 | number, title, paths[backend.name])
            ctx.plan.forwards.append(ForwardRow(subject, mode.value, family, number, this, backend.mac, nat, out))
    return owners


def _membership(ctx: Context, name: str, key: str, reached: Reach) -> Membership:
    pool = ctx.spec.pools[name]
    return Membership(
        pool=name,
        title=f"pool {name}" if key == name or reached == ANY else f"pool {name} {_WORD[reached]}",
        number=ctx.pools[key],
        selection=pool.selection.value,
        slots=derived.slot_count(ctx.spec, pool),
        on_all_down=pool.on_all_down,
        members=tuple(
            Member(b.name, ctx.backends[f"{name}/{b.name}"], b.weight, b.state is State.DOWN)
            for b in derived.members(pool, reached)
        ),
    )
