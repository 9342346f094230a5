# SPDX-License-Identifier: Apache-2.0
"""Build the extension's part of a plan."""

from __future__ import annotations

from dnsteer.modes import MODES
from dnsteer.modes.extension import ExtendedService, ExtensionBackend
from dnsteer.plan.extension.program import SELECT, ExtensionPlan, ExtensionPortRow
from dnsteer.spec import derived
from dnsteer.spec.model.extension import ExtensionPort
from dnsteer.spec.model.families import Family
from dnsteer.spec.model.next_hop import router_mac
from dnsteer.spec.model.spec import Pool, Selection, Vip
from dnsteer.tables.context import Context, slots_key
from dnsteer.tables.extension import subject, translated_answers_leave_by
from dnsteer.tables.return_ import TranslatedRow
from dnsteer.tables.slot import probe_numbers

OWN_COUNTERS = 16
"""Counters that the program needs for itself (datapath_ext/program.schema.json)."""


def extension_of(ctx: Context) -> ExtensionPlan | None:
    """What the extension does for a spec; None where the spec has none."""
    switch = ctx.spec.switch
    part = switch.extension
    if part is None:
        return None
    translated = ctx.rows.of(TranslatedRow)
    extension = ExtensionPlan(
        subject(ctx),
        _port(ctx, part.ingress),
        _port(ctx, part.egress),
        switch.mac,
        str(part.ipv4 or ""),
        str(part.ipv6 or ""),
        {**part.budgets.model_dump(), "counters": part.budgets.slots + OWN_COUNTERS},
        (router_mac(switch.uplinks[translated_answers_leave_by(switch)].next_hop, "ipv4") or "") if translated else "",
        translated,
    )
    if switch.probe is not None:
        extension.probe_mac = derived.probe_mac(switch, switch.probe)
        extension.probe_ipv4 = derived.translated_probe(switch.probe)
    names: dict[str, str] = {}
    for name, vip in ctx.spec.vips.items():
        pool = ctx.spec.pools[vip.pool]
        if ctx.uses_extension(vip):
            for address in vip.addresses:
                family = derived.family_of(address)
                targets = _targets(extension, names, vip, pool, family)
                slots = ctx.pools[slots_key(vip.pool, pool, MODES[vip.forwarding].reach(family))]
                served = tuple(targets[owner] for owner in slots.owners)
                probes = _probes(extension, vip, pool, targets)
                extension.services += [
                    ExtendedService(
                        f"{name}/{address}/{e.protocol.value}/{e.port}",
                        str(address),
                        family,
                        e.protocol.value,
                        e.port,
                        SELECT[pool.selection.value],
                        tuple(derived.hash_fields(pool)) if pool.selection is Selection.CLIENT else (),
                        MODES[vip.forwarding].program,
                        served,
                        probes,
                    )
                    for e in derived.endpoints(vip)
                ]
    return extension


def _probes(extension: ExtensionPlan, vip: Vip, pool: Pool, targets: dict[str, str]) -> dict[str, int]:
    """The number of each target for probes; none where nothing is probed, or answers could not be translated."""
    if not extension.probe_mac or (MODES[vip.forwarding].translates and not extension.probe_ipv4):
        return {}
    numbers = probe_numbers(pool)
    return {target: numbers[backend] for backend, target in targets.items()}


def _port(ctx: Context, port: ExtensionPort) -> ExtensionPortRow:
    return ExtensionPortRow(port.port, ctx.ports[port.port], port.device or port.port)


def _targets(extension: ExtensionPlan, names: dict[str, str], vip: Vip, pool: Pool, family: Family) -> dict[str, str]:
    """The names of the targets of a VIP's backends, which are added where they are new.

    A server that is in several pools is one target: the program knows it by its address. *names* has those by address.
    """
    out: dict[str, str] = {}
    for backend in derived.members(pool, MODES[vip.forwarding].reach(family)):
        address = MODES[vip.forwarding].target(backend, family)
        name = f"{vip.pool}/{backend.name}/{address}" if address else f"{vip.pool}/{backend.name}"
        if address:
            name = names.setdefault(address, name)
        out[backend.name] = name
        extension.targets.setdefault(name, ExtensionBackend(name, backend.mac, address))
    return out
