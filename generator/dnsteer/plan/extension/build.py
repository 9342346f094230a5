"""Build the extension's part of a plan."""

from __future__ import annotations

from dnsteer.plan.context import Context
from dnsteer.plan.extension.program import (
    FORWARD,
    SELECT,
    ExitRow,
    ExtendedService,
    Extension,
    ExtensionPortRow,
    Target,
    TranslatedRow,
)
from dnsteer.plan.numbers import OBJECT_BITS, Category, number_names
from dnsteer.plan.objects import EgressRow
from dnsteer.plan.pipeline import PATH_ANSWER, PATH_QUERY
from dnsteer.spec import derived
from dnsteer.spec.errors import Path
from dnsteer.spec.model.extension import ExtensionPort
from dnsteer.spec.model.families import Family
from dnsteer.spec.model.spec import Backend, Forwarding, Pool, Selection, Vip

_AT: Path = ("switch", "extension")
OWN_COUNTERS = 16
"""Counters that the program needs for itself (datapath_ext/program.schema.json)."""


def add_extension(ctx: Context, owners: dict[str, tuple[str, ...]]) -> None:
    """Add what the extension does. *owners* has the backend of each slot by the key of the pool's slots."""
    part = ctx.spec.switch.extension
    if part is None:
        return
    budgets = {**part.budgets.model_dump(), "counters": part.budgets.slots + OWN_COUNTERS}
    subject = ctx.subject(Category.EXTENSION, 1, "extension", _AT)
    extension = Extension(
        subject,
        _port(ctx, part.ingress),
        _port(ctx, part.egress),
        ctx.spec.switch.mac,
        str(part.ipv4 or ""),
        str(part.ipv6 or ""),
        budgets,
    )
    ctx.plan.extension = extension
    ends: dict[str, str] = {}
    through = [(n, v, ctx.spec.pools[v.pool]) for n, v in ctx.spec.vips.items()]
    through = [(name, vip, pool) for name, vip, pool in through if derived.extended(pool, vip.forwarding)]
    for name, vip, pool in through:
        for address in vip.addresses:
            family = derived.family_of(address)
            targets = _targets(extension, ends, vip, pool, family)
            slots = tuple(targets[owner] for owner in owners[slots_key(vip.pool, pool, derived.reach(vip, family))])
            for e in derived.endpoints(vip):
                protocol = e.protocol.value
                service = ExtendedService(
                    f"{name}/{address}/{protocol}/{e.port}", str(address), family, protocol, e.port,
                    SELECT[pool.selection.value],
                    tuple(derived.hash_fields(pool)) if pool.selection is Selection.CLIENT else (),
                    FORWARD[vip.forwarding.value], slots,
                )  # fmt: skip
                extension.services.append(service)
    _exits(ctx, extension, [vip.pool for _, vip, _ in through])
    _answers(ctx, extension, [(n, vip, pool) for n, vip, pool in through if vip.forwarding is Forwarding.SIIT])
    if through:
        ctx.plan.egress.append(
            EgressRow(subject, PATH_QUERY, extension.ingress.number, extension.ingress.name, "", True, "")
        )


def slots_key(name: str, pool: Pool, reached: str) -> str:
    """What numbers a pool's slots: the pool, or the pool in a family where its families have different backends."""
    same = all(b.ipv4 is not None and b.ipv6 is not None for b in pool.backends)
    return name if same else f"{name}/{reached}"


def _port(ctx: Context, port: ExtensionPort) -> ExtensionPortRow:
    return ExtensionPortRow(port.port, ctx.ports[port.port], port.device or port.port)


def _targets(extension: Extension, ends: dict[str, str], vip: Vip, pool: Pool, family: Family) -> dict[str, str]:
    """The names of the targets of a VIP's backends, which are added where they are new.

    A server that is in several pools is one target: the program knows it by its address. *ends* has the names by address.
    """
    out: dict[str, str] = {}
    for backend in derived.members(pool, derived.reach(vip, family)):
        end = _end(vip, backend, family)
        name = f"{vip.pool}/{backend.name}/{end}" if end else f"{vip.pool}/{backend.name}"
        if end:
            name = ends.setdefault(end, name)
        out[backend.name] = name
        extension.targets.setdefault(name, Target(name, backend.mac, end))
    return out


def _end(vip: Vip, backend: Backend, family: Family) -> str:
    if vip.forwarding is Forwarding.IPIP:
        return str(derived.tunnel_end(backend, family))
    return str(backend.ipv6) if vip.forwarding is Forwarding.SIIT else ""


def _exits(ctx: Context, extension: Extension, pools: list[str]) -> None:
    """Frames for backends: by their MAC address, unless all of them leave by one port."""
    uplinks = list(ctx.spec.switch.uplinks)
    places: dict[str, tuple[str, Path, str]] = {}
    for name in dict.fromkeys(pools):
        for i, backend in enumerate(ctx.spec.pools[name].backends):
            title = f"backend {backend.name} of pool {name}, by the extension"
            places.setdefault(backend.mac, (backend.port or uplinks[0], ("pools", name, "backends", i), title))
    ports = {place for place, _, _ in places.values()}
    if len(ports) == 1:
        extension.exits.append(ExitRow(extension.subject, extension.egress.name, "", ports.pop()))
        return
    numbers = number_names(places, OBJECT_BITS - 1)
    for mac, (place, path, title) in places.items():
        subject = ctx.subject(Category.EXTENSION, numbers[mac] << 1, title, path)
        extension.exits.append(ExitRow(subject, extension.egress.name, mac, place))


def _answers(ctx: Context, extension: Extension, through: list[tuple[str, Vip, Pool]]) -> None:
    """Answers to translate: to the extension by its egress, and back by its ingress to the first uplink with a next hop."""
    rows: dict[tuple[str, str, int], tuple[str, Path]] = {}
    for name, vip, pool in through:
        for i, backend in enumerate(pool.backends):
            if backend.ipv6 is None:
                continue
            for e in derived.endpoints(vip):
                key = (str(backend.ipv6), e.protocol.value, e.port)
                title = f"answers of backend {backend.name} for VIP {name}, port {e.port}/{e.protocol.value}"
                rows.setdefault(key, (title, ("pools", vip.pool, "backends", i)))
    if not rows:
        return
    numbers = number_names((f"siit/{a}/{protocol}/{port}" for a, protocol, port in rows), OBJECT_BITS)
    for (address, protocol, port), (title, path) in rows.items():
        subject = ctx.subject(Category.RETURN, numbers[f"siit/{address}/{protocol}/{port}"], title, path)
        extension.translated.append(TranslatedRow(subject, address, protocol, port))
    leave = next(name for name, up in ctx.spec.switch.uplinks.items() if up.next_hop is not None)
    extension.answers_to = ctx.spec.switch.uplinks[leave].next_hop or ""
    extension.exits.append(ExitRow(extension.subject, extension.ingress.name, "", leave))
    row = EgressRow(
        extension.subject, PATH_ANSWER, extension.egress.number, extension.egress.name, "", True, extension.answers_to
    )
    ctx.plan.egress.append(row)
