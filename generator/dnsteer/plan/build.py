# SPDX-License-Identifier: Apache-2.0
"""Build the plan of a spec."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.modes import MODES
from dnsteer.plan.extension.build import extension_of
from dnsteer.plan.plan import Plan
from dnsteer.slots.maintenance import NO_OVERLAY, Overlay, marker
from dnsteer.spec import derived
from dnsteer.spec.errors import DefinitionError
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.neighbors import with_macs
from dnsteer.spec.tunnels import tunnel_kinds
from dnsteer.tables.context import Context
from dnsteer.tables.cookies import Category, Subject, cookie
from dnsteer.tables.forward import ForwardRow
from dnsteer.tables.order import TABLES
from dnsteer.tables.own_traffic import has_own_traffic
from dnsteer.tables.return_ import ProbeReturnRow, ReturnRow


def build_plan(loaded: Loaded, overlay: Overlay = NO_OVERLAY) -> Plan:
    """The plan of a valid spec and an overlay. A pure function: the same spec and overlay give the same plan everywhere.

    Neighbours whose MAC addresses the overlay does not have yet get nothing; without those of any switch, stand-ins.
    """
    digest = loaded.digest
    loaded = with_macs(loaded, overlay.macs)
    switch = loaded.spec.switch
    pipeline = Subject(cookie(Category.PIPELINE, 0), "pipeline", ("switch",), loaded.document.line(("switch",)))
    ctx = Context(loaded, overlay, MODES, pipeline)
    ctx.subjects[pipeline.cookie] = pipeline
    ctx.rows.add(_forward_rows(ctx))
    ctx.rows.add(_return_rows(ctx))
    for table in TABLES:
        ctx.rows.add(table.rows(ctx))
    used = {kind for table in TABLES for kind in table.uses.values()}
    for kind in ctx.rows.kinds():
        if kind not in used:
            where = f"{kind.__module__.replace('.', '/')}.py: " if kind.__module__ != "builtins" else ""
            raise DefinitionError(
                f"{where}rows of type {kind.__name__} are made, and no table has the type in its uses"
            )
    return Plan(
        bridge=switch.bridge,
        mac=switch.mac,
        gateway_mac=derived.gateway_mac(switch),
        pipeline=pipeline,
        digest=digest,
        marker=marker(digest, overlay),
        rows=ctx.rows,
        subjects=ctx.subjects,
        members=[slots.members for slots in ctx.pools.values()],
        extension=extension_of(ctx),
        has_gateways=bool(switch.gateways),
        has_client_networks=ctx.vlans.splits,
        has_own_traffic=has_own_traffic(ctx.rows),
        follows_ipv6=any(n.family == "ipv6" for n in ctx.neighbors),
        tunnel_ports=tuple((kind.port, kind.type) for kind in tunnel_kinds(ctx.spec).values()),
    )


def _forward_rows(ctx: Context) -> Iterator[ForwardRow]:
    """Yield forward rows of every backend, also without a slot, so that later moves change slots only."""
    for slots in ctx.pools.values():
        ways = [(to, mode) for to, mode in slots.ways if not MODES[mode].uses_extension(slots.pool)]
        for index, backend in enumerate(slots.pool.backends):
            for reached, mode in ways if backend.mac else ():  # else there is no way to it yet
                yield from MODES[mode].forward_rows(ctx, slots, index, reached)


def _return_rows(ctx: Context) -> Iterator[ReturnRow | ProbeReturnRow]:
    """Yield return rows of every VIP address; without gateways only those of answers to probes, as no other arrives."""
    if ctx.spec.switch.probe is not None:
        yield from _probe_return_rows(ctx)
    if ctx.spec.switch.gateways:
        for name, vip in ctx.spec.vips.items():
            for address in vip.addresses:
                yield from MODES[vip.forwarding].return_rows(ctx, name, vip, address)


def _probe_return_rows(ctx: Context) -> Iterator[ProbeReturnRow]:
    """Yield a row for each address of VIPs whose backends answer as the VIP; those of NAT have their usual rows."""
    seen = set()
    for name, vip in ctx.spec.vips.items():
        if not MODES[vip.forwarding].owns_vip:
            continue
        for i, address in enumerate(vip.addresses):
            if address in seen:
                continue  # VIPs may share it
            seen.add(address)
            title = f"answers to probes of VIP {name} {address}"
            number = 1 << 39 | ctx.vips[f"{name}/{address}"] >> 1
            subject = ctx.subject(Category.PROBE, number, title, ("vips", name, "addresses", i))
            yield ProbeReturnRow(subject, derived.family_of(address), str(address))
