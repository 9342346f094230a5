# SPDX-License-Identifier: Apache-2.0
"""Table egress: sets the MAC addresses and outputs the packet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dnsteer.tables.cookies import Subject
from dnsteer.tables.extension import subject as extension_subject
from dnsteer.tables.extension import translated_answers_leave_by
from dnsteer.tables.forward import ForwardRow
from dnsteer.tables.ingress import ANSWER, OUT_SAME, QUERY, PortRow, ProbeRow, TunnelRow
from dnsteer.tables.own_traffic import OwnAddressRow
from dnsteer.tables.return_ import TranslatedRow
from dnsteer.tables.table import Table
from dnsteer.tables.vip import ServiceRow

if TYPE_CHECKING:
    from dnsteer.tables.context import Context


class EgressRow(NamedTuple):
    """Output of queries or answers (*path*) to port number *out*, named *name*; an empty name is the ingress port.

    If *in_port* is given, only for packets that came in by it; if *protocol* is, only for those of that family. *tag* is the
    action that gives answers the uplink's VLAN; queries have their backend's by then. *members* are those of the bond that
    *name* is."""

    subject: Subject
    path: int
    out: int
    name: str
    in_port: str
    set_source: bool
    next_hop: str
    protocol: str = ""
    tag: str = ""
    members: tuple[str, ...] = ()


class ProbeEgressRow(NamedTuple):
    """Output of probes with port number *out* in the register to the port *name*.

    To the extension they go with the MAC address of probes as their destination, *to_mac*: it knows them by that, since the
    bridge takes queries only to its own MAC address."""

    subject: Subject
    out: int
    name: str
    set_source: bool
    to_mac: str
    members: tuple[str, ...] = ()


def rows(ctx: Context) -> Iterator[EgressRow | ProbeEgressRow]:
    """Yield the egress rows that a packet can reach."""
    yield from _queries(ctx)
    if ctx.spec.switch.gateways or bool(ctx.rows.of(TunnelRow)):
        yield from _answers(ctx)
    yield from _extension(ctx)
    yield from _probes(ctx)


def _queries(ctx: Context) -> Iterator[EgressRow]:
    ports = {port.number: port for port in ctx.rows.of(PortRow)}.values()  # once for the members of a bond
    outs = {row.out for row in ctx.rows.of(ForwardRow)} | {row.out for row in ctx.rows.of(OwnAddressRow) if row.mac}
    if OUT_SAME in outs:
        yield EgressRow(ctx.pipeline, QUERY, OUT_SAME, "", "", set_source=True, next_hop="")
    for port in ports:
        if port.number not in outs:
            continue
        if port.uplink and not port.members:
            yield EgressRow(port.subject, QUERY, port.number, "", port.name, set_source=True, next_hop="")
            if sum(p.uplink for p in ports) == 1:
                continue  # queries come in by uplinks alone
        yield EgressRow(
            port.subject, QUERY, port.number, port.in_spec, "", port.uplink, next_hop="", members=port.members
        )
    for name, number in _tunnel_ports(ctx).items():
        yield EgressRow(ctx.pipeline, QUERY, number, name, "", set_source=False, next_hop="")


def _tunnel_ports(ctx: Context) -> dict[str, int]:
    """The ports by which queries go into tunnels, and their numbers."""
    outs = {row.out for row in ctx.rows.of(ForwardRow) if row.tunnel_end}
    return {name: number for name, number in ctx.ports.items() if number in outs}


def _answers(ctx: Context) -> Iterator[EgressRow]:
    ports = ctx.rows.of(PortRow)
    by_number = {p.number: p for p in ports}
    outs: dict[int, PortRow] = {row.out: by_number[row.out] for row in ctx.rows.of(TunnelRow)}
    for port in ports if ctx.spec.switch.gateways else ():
        if port.answers_out == OUT_SAME:
            yield from _to_routers(port, OUT_SAME, "", port.name)
        elif port.answers_out is not None:
            outs[port.answers_out] = by_number[port.answers_out]
    for number, port in outs.items():
        yield from _to_routers(port, number, port.in_spec, "")


def _to_routers(port: PortRow, out: int, name: str, in_port: str) -> Iterator[EgressRow]:
    """Yield the row of answers to the router at a port, or one for each family whose router is known."""
    one, other = port.next_hops
    tag, members = port.tag, port.members if name else ()
    if one == other and one:
        yield EgressRow(
            port.subject, ANSWER, out, name, in_port, set_source=True, next_hop=one, tag=tag, members=members
        )
        return
    for protocol, mac in (("ip", one), ("ipv6", other)):
        if mac:
            yield EgressRow(port.subject, ANSWER, out, name, in_port, True, mac, protocol, tag, members)


def _extension(ctx: Context) -> Iterator[EgressRow]:
    """Yield the rows towards the extension: answers to translate by its egress port, queries by its ingress port."""
    from dnsteer.spec.model.next_hop import router_mac  # here, since the quick verbs do without it

    switch = ctx.spec.switch
    part = switch.extension
    if part is None:
        return
    owner = extension_subject(ctx)
    if ctx.rows.of(TranslatedRow):
        name = part.egress.port
        next_hop = router_mac(switch.uplinks[translated_answers_leave_by(switch)].next_hop, "ipv4") or ""
        yield EgressRow(owner, ANSWER, ctx.ports[name], name, "", set_source=True, next_hop=next_hop)
    if any(row.extended for row in ctx.rows.of(ServiceRow)):
        name = part.ingress.port
        yield EgressRow(owner, QUERY, ctx.ports[name], name, "", set_source=True, next_hop="")


def _probes(ctx: Context) -> Iterator[ProbeEgressRow]:
    """Yield the ways of probes to backends. A backend without a port is behind the uplink for probes."""
    from dnsteer.spec import derived  # here, since the quick verbs do without it

    switch = ctx.spec.switch
    if switch.probe is None:
        return
    ports = {port.number: port for port in ctx.rows.of(PortRow)}
    tunnels = _tunnel_ports(ctx)
    for name, out in tunnels.items():
        yield ProbeEgressRow(ctx.pipeline, out, name, set_source=False, to_mac="")
    for out in dict.fromkeys(row.out for row in ctx.rows.of(ForwardRow) if not row.tunnel_end):
        name = derived.probe_uplink(switch, switch.probe) if out == OUT_SAME else ports[out].in_spec
        at = next(port for port in ports.values() if port.in_spec == name)
        yield ProbeEgressRow(at.subject, out, name, set_source=at.uplink, to_mac="", members=at.members)
    part = switch.extension
    if part is not None and any(row.extended for row in ctx.rows.of(ServiceRow)):
        name, mac = part.ingress.port, derived.probe_mac(switch, switch.probe)
        yield ProbeEgressRow(extension_subject(ctx), ctx.ports[name], name, set_source=True, to_mac=mac)


TABLE = Table(
    name="egress",
    matches="path and output port",
    does="sets the MAC addresses and outputs the packet",
    traffic=("queries", "second_pass", "tracked", "to_extension", "answers", "fragments"),
    drops="no port to leave by",
    flows={
        "query": "Out. What leaves by an uplink carries the balancer's MAC: the router's own MAC must not come from this "
        "side.",
        "answer": "Out to the router, `next_hop`: at the MAC address of the spec, or at which its address answered last.",
    },
    uses={"egress": EgressRow, "probe_egress": ProbeEgressRow, "probes": ProbeRow},
    rows=rows,
)
