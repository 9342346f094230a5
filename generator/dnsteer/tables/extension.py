# SPDX-License-Identifier: Apache-2.0
"""Table extension: sends packets that the extension returns to the ports of its backends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dnsteer.spec.errors import Path
from dnsteer.tables.cookies import OBJECT_BITS, Category, Subject, number_names
from dnsteer.tables.return_ import TranslatedRow
from dnsteer.tables.table import Table

if TYPE_CHECKING:
    from dnsteer.spec.model.extension import Extension
    from dnsteer.spec.model.spec import Switch
    from dnsteer.tables.context import Context


class ExitRow(NamedTuple):
    """The output port of frames that the extension returns by port *came_by*: those for *mac*; empty: all others."""

    subject: Subject
    came_by: str
    mac: str
    port: str
    priority: int = 100


def subject(ctx: Context) -> Subject:
    """Return the subject of flows that stand for the extension."""
    return ctx.subject(Category.EXTENSION, 1, "extension", ("switch", "extension"))


def translated_answers_leave_by(switch: Switch) -> str:
    """Return the uplink by which translated answers leave: the first that has a next hop."""
    return next(name for name, up in switch.uplinks.items() if up.next_hop is not None)


def rows(ctx: Context) -> Iterator[ExitRow]:
    """Yield rows for frames to backends, one per MAC address or one for all if they share a port, then for translated
    answers."""
    part = ctx.spec.switch.extension
    if part is None:
        return
    yield from _to_backends(ctx, part)
    if ctx.rows.of(TranslatedRow):
        yield ExitRow(subject(ctx), part.ingress.port, "", translated_answers_leave_by(ctx.spec.switch))
        yield from _to_probes(ctx, part)


def _to_probes(ctx: Context, part: Extension) -> Iterator[ExitRow]:
    from dnsteer.spec import derived  # here, since the quick verbs do without it

    switch = ctx.spec.switch
    if switch.probe is not None:
        mac = derived.probe_mac(switch, switch.probe)
        yield ExitRow(subject(ctx), part.ingress.port, mac, switch.probe.port, priority=105)


def _to_backends(ctx: Context, part: Extension) -> Iterator[ExitRow]:
    uplink = next(iter(ctx.spec.switch.uplinks))
    pools = [vip.pool for vip in ctx.spec.vips.values() if ctx.uses_extension(vip)]
    places: dict[str, tuple[str, Path, str]] = {}
    for name in dict.fromkeys(pools):
        for i, backend in enumerate(ctx.spec.pools[name].backends):
            title = f"backend {backend.name} of pool {name}, by the extension"
            places.setdefault(backend.mac, (backend.port or uplink, ("pools", name, "backends", i), title))
    ports = {place for place, _, _ in places.values()}
    if len(ports) == 1:
        yield ExitRow(subject(ctx), part.egress.port, "", ports.pop())
        return
    numbers = number_names(places, OBJECT_BITS - 1)
    for mac, (place, path, title) in places.items():
        owner = ctx.subject(Category.EXTENSION, numbers[mac] << 1, title, path)
        yield ExitRow(owner, part.egress.port, mac, place)


TABLE = Table(
    name="extension",
    matches="destination MAC of a packet from the extension",
    does="sends a query to its backend's port, an answer to the uplink",
    traffic=("from_extension",),
    holds="exits",
    drops="not a port of the extension",
    flows={
        "exit": "What the extension gives back leaves by the port of its backend, whose MAC address it carries, or by the "
        "uplink if it is an answer.",
    },
    uses={"exits": ExitRow},
    rows=rows,
)
