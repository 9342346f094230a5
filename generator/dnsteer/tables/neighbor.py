# SPDX-License-Identifier: Apache-2.0
"""Table neighbor: answers ARP requests and neighbour solicitations for VIPs and gateways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dnsteer.spec.model.families import Family
from dnsteer.tables.cookies import OBJECT_BITS, Category, Subject, number_names
from dnsteer.tables.ingress import AskedRow, TunnelRow
from dnsteer.tables.table import Table

if TYPE_CHECKING:
    from dnsteer.tables.context import Context


class NeighborRow(NamedTuple):
    """An address that the switch answers for: *anywhere* or at uplinks alone, for a gateway as a *router*.

    *switch*: to itself alone, when it asks for the next hop of tunnels."""

    subject: Subject
    address: str
    family: Family
    mac: str
    anywhere: bool
    router: bool
    echo: bool
    switch: bool = False


def rows(ctx: Context) -> Iterator[NeighborRow]:
    """Yield a row for each gateway, then for each VIP address; an address that VIPs share occurs once."""
    from dnsteer.spec import derived  # here, since the quick verbs do without it

    switch, vips = ctx.spec.switch, ctx.spec.vips
    gateways = number_names((str(a) for a in switch.gateways), OBJECT_BITS)
    for i, address in enumerate(switch.gateways):
        path = ("switch", "gateways", i)
        subject = ctx.subject(Category.GATEWAY, gateways[str(address)], f"gateway {address}", path)
        yield NeighborRow(
            subject,
            str(address),
            derived.family_of(address),
            derived.gateway_mac(switch),
            anywhere=True,
            router=True,
            echo=True,
        )
    if switch.probe is not None:
        mac = derived.probe_mac(switch, switch.probe)
        for i, own in enumerate(switch.probe.addresses):
            subject = ctx.subject(
                Category.PROBE, i + 1, f"address {own.ip} of probes", ("switch", "probe", "addresses", i)
            )
            family = derived.family_of(own.ip)
            yield NeighborRow(subject, str(own.ip), family, mac, anywhere=True, router=False, echo=False)
    for t in ctx.rows.of(TunnelRow):
        if t.mac:
            yield NeighborRow(t.subject, t.gateway, t.family, t.mac, False, router=True, echo=False, switch=True)
    echo = {text for name, vip in vips.items() if vip.echo for text in ctx.addresses[name]}
    seen: set[str] = set()
    for name, vip in vips.items():
        for i, (address, text) in enumerate(zip(vip.addresses, ctx.addresses[name], strict=True)):
            if text in seen:
                continue  # VIPs may share an address; one row answers for it
            seen.add(text)
            number = ctx.vips[f"{name}/{text}"]
            subject = ctx.subject(Category.VIP, number, f"VIP {name} {text}", ("vips", name, "addresses", i))
            yield NeighborRow(
                subject,
                text,
                derived.family_of(address),
                switch.mac,
                anywhere=False,
                router=False,
                echo=text in echo,
            )


TABLE = Table(
    name="neighbor",
    matches="ARP request or neighbour solicitation for a VIP or gateway",
    does="answers ARP requests and solicitations out of the ingress port",
    traffic=("neighbors",),
    holds="addresses",
    drops="address not answered for",
    flows={
        "arp": "ARP responder: turns the request into a reply and sends it out of the port that it came in by. Runs in "
        "software on every flavor.",
        "miss arp": "Other ARP is dropped. It unwildcards the same fields as ARP that is answered.",
        "miss icmp6": "The same for solicitations. Some fields exist only in an advertisement, so they become one for the "
        "target `::`, which the next table drops.",
        "icmp6 dad": "Duplicate address detection asks from `::`; the answer goes to all nodes.",
        "icmp6 ns": "Neighbour solicitation, part one: becomes an advertisement.",
    },
    uses={"neighbors": NeighborRow, "asked": AskedRow},
    rows=rows,
)
