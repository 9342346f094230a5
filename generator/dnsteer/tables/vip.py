# SPDX-License-Identifier: Apache-2.0
"""Table vip: finds the service of a query, and with source-port selection its slot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dnsteer.spec.model.families import Family
from dnsteer.tables.cookies import Category, Subject
from dnsteer.tables.ingress import ProbeRow
from dnsteer.tables.meter_rows import meter_of
from dnsteer.tables.table import Register, Table

if TYPE_CHECKING:
    from dnsteer.spec.model.spec import Pool, Spec
    from dnsteer.tables.context import Context


TRANSPORT = {"udp": 1, "tcp": 2, "kept": 3, "begins": 4}
PROTOCOL_OF = {number: "udp" if name == "udp" else "tcp" for name, number in TRANSPORT.items()}
"""The protocol of packets, by the number of their transport: those of connections that are kept are TCP too."""
PROTOCOLS = ("udp", "tcp")


class ServiceRow(NamedTuple):
    """A service of a VIP address; a tuple for speed, like Subject. *target_port* is 0 if the port stays.

    The slot is *slot_bits* bits of *slot_field* from bit *slot_low* on. These are 0 if a group selects the slot, the
    extension does (*extended*), or the second of *two_passes*.
    *meter* is the number of the meter that limits its queries; 0: nothing does. *zone* is that of the tracker which keeps
    its connections, before the slot is selected; 0: nothing is kept.
    """

    subject: Subject
    address: str
    family: Family
    protocol: str
    port: int
    target_port: int
    pool: int
    mode: int
    slot_bits: int
    extended: bool = False
    two_passes: bool = False
    slot_field: str = ""
    slot_low: int = 0
    meter: int = 0
    zone: int = 0


def rows(ctx: Context) -> Iterator[ServiceRow]:
    """Yield a row for every service of every address of every VIP."""
    from dnsteer.spec import derived  # here, since the quick verbs do without it
    from dnsteer.spec.health_checks import service_name

    for name, vip in ctx.spec.vips.items():
        pool, mode = ctx.spec.pools[vip.pool], ctx.modes[vip.forwarding]
        extended = mode.uses_extension(pool)
        twice = not extended and ctx.passes[vip.pool] == 2
        bits = 0 if extended or twice else slot_bits(ctx.spec, pool)
        endpoints = [
            (e, e.protocol.value, ("vips", name, "services", e.index), service_name(e.protocol.value, e.port))
            for e in derived.endpoints(vip)
        ]
        for address, text in zip(vip.addresses, ctx.addresses[name], strict=True):
            family = derived.family_of(address)
            reach = mode.reach(family)
            for e, protocol, path, service in endpoints:
                number = ctx.pool_number(vip.pool, reach, service)
                subject = ctx.subject(
                    Category.SERVICE,
                    ctx.vips[f"{name}/{text}/{protocol}/{e.port}"],
                    f"VIP {name} {text} port {service}",
                    path,
                )
                zone = derived.zone_of(ctx.spec, vip) if protocol == "tcp" else 0
                other_port = ctx.keeping[number, vip.forwarding] if zone else e.target_port != e.port
                target = e.target_port if other_port else 0
                meter = meter_of(ctx, "queries", name, service)
                own_bits = 0 if zone else bits
                source = slot_source(ctx.spec, pool, protocol, family) if own_bits else ("", 0)
                yield ServiceRow(
                    subject,
                    text,
                    family,
                    protocol,
                    e.port,
                    target,
                    number,
                    mode.number,
                    own_bits,
                    extended,
                    twice and not zone,
                    *source,
                    meter,
                    zone,
                )


def slot_bits(spec: Spec, pool: Pool) -> int:
    """Return the number of bits of source port or address that select a slot of *pool*; 0 if the switch's hash does."""
    from dnsteer.spec import derived
    from dnsteer.spec.model.spec import Selection

    if pool.selection is Selection.DP_HASH:
        return 0
    return derived.slot_count(spec, pool).bit_length() - 1


def slot_source(spec: Spec, pool: Pool, protocol: str, family: Family) -> tuple[str, int]:
    """Return the field whose bits select a slot of *pool*, and the lowest of these bits: of the port all but bit 0."""
    from dnsteer.spec import derived
    from dnsteer.spec.model.spec import Selection

    if pool.selection is not Selection.SOURCE_ADDRESS:
        return f"{protocol}_src", 1
    field, width = ("ip_src", 32) if family == "ipv4" else ("ipv6_src", 128)
    return field, width - derived.client_prefix(pool, family)


TABLE = Table(
    name="vip",
    matches="destination address, protocol and port",
    does="sets pool, forwarding mode and, in one pass, the slot; sends services of the extension to it",
    traffic=("queries",),
    holds="services",
    drops="no such service",
    flows={
        "udp": "A service. Pool and mode go to registers; the slot is bits of the source port, of which `move` "
        "unwildcards just those.",
        "tcp": "The same for TCP.",
        "udp probe": "A probe of a service with a limit, which does not count for it.",
        "udp6": "The same for IPv6, with the pool's IPv6 slots.",
        "tcp6": "The same for TCP over IPv6.",
        "miss": "What is for no service (another port of the same low bits, an address that is no VIP) is dropped. It "
        "unwildcards the same fields as a query.",
    },
    uses={"services": ServiceRow, "probes": ProbeRow},
    rows=rows,
    registers=(
        Register("pool", 0, "number of the pool and family", "forward"),
        Register("slot", 1, "slot of the packet", "slot"),
        Register("mode", 3, "forwarding mode", "forward"),
        Register(
            "transport",
            7,
            "1 UDP, 2 TCP, 3 TCP of connections that are kept, 4 their begin: the counters of forward then count queries",
            "forward",
            values=TRANSPORT,
        ),
        Register("target", 6, "destination port that a packet of a kept connection gets; 0: its own", "forward"),
    ),
)
