# SPDX-License-Identifier: Apache-2.0
"""Table syn: drops what begins TCP connections faster than the limit of its VIP or service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dnsteer.spec.model.families import Family
from dnsteer.tables.cookies import Category, Subject
from dnsteer.tables.ingress import ProbeRow
from dnsteer.tables.meter_rows import meter_of
from dnsteer.tables.table import Table

if TYPE_CHECKING:
    from dnsteer.tables.context import Context


class SynRow(NamedTuple):
    """A service of a VIP address over TCP, and the number of the meter of packets with SYN and without ACK to it."""

    subject: Subject
    address: str
    family: Family
    port: int
    meter: int


def rows(ctx: Context) -> Iterator[SynRow]:
    """Yield a row for each address and service over TCP of the VIPs that limit it."""
    from dnsteer.spec import derived  # here, since the quick verbs do without it
    from dnsteer.spec.health_checks import service_name

    for name, vip in ctx.spec.vips.items():
        if vip.limits is None or vip.limits.tcp_syn is None:
            continue
        for address, text in zip(vip.addresses, ctx.addresses[name], strict=True):
            for end in derived.endpoints(vip):
                if end.protocol.value != "tcp":
                    continue
                service = service_name("tcp", end.port)
                subject = ctx.subject(
                    Category.SERVICE,
                    ctx.vips[f"{name}/{text}/tcp/{end.port}"],
                    f"VIP {name} {text} port {service}",
                    ("vips", name, "services", end.index),
                )
                yield SynRow(
                    subject, text, derived.family_of(address), end.port, meter_of(ctx, "tcp_syn", name, service)
                )


TABLE = Table(
    name="syn",
    matches="flags of TCP, of services with a limit of connections",
    does="drops packets that begin connections faster than the limit",
    traffic=("queries",),
    miss="next",
    flows={
        "tcp": "SYN without ACK, at the rate of the meter. All TCP packets to the service have these two flags in their "
        "megaflow then.",
        "tcp6": "The same for IPv6.",
        "register": "Probes of the agent do not count.",
        "miss": "All others go on.",
    },
    uses={"begins": SynRow, "probes": ProbeRow},
    rows=rows,
)
