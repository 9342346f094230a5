# SPDX-License-Identifier: Apache-2.0
"""Table ingress: tells neighbour requests, echo requests, queries and answers apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dnsteer.spec.model.families import Family
from dnsteer.tables.cookies import Category, Subject, number_names
from dnsteer.tables.extension import ExitRow
from dnsteer.tables.table import ALL_TRAFFIC, Register, Table
from dnsteer.tables.vlans import NetworkRow

if TYPE_CHECKING:
    from dnsteer.tables.context import Context


QUERY, ANSWER, PROBE, PROBE_ANSWER, INBOUND = 1, 2, 3, 4, 5
"""Values of the register `path`."""
OUT_SAME = 0
"""Value of the register `out` for the ingress port."""


class PortRow(NamedTuple):
    """A port of the bridge. *answers_out* is the number of the port that its answers leave by; None: dropped.

    *next_hops* has the MAC address of its router for each family; empty where there is none, or it is not known. *tag* is
    the action that gives a frame the VLAN of the port itself. *bond* is the uplink whose *members* this is one of, the
    preferred one first; empty: it is a port of its own. The members of a bond have one number.
    """

    subject: Subject
    name: str
    number: int
    uplink: bool
    next_hops: tuple[str, str]
    answers_out: int | None
    networks: tuple[NetworkRow, ...]
    tag: str
    bond: str = ""
    members: tuple[str, ...] = ()

    @property
    def in_spec(self) -> str:
        """The name by which the spec refers to it."""
        return self.bond or self.name


class ProbeRow(NamedTuple):
    """The port by which probes enter, untagged, and its MAC address, which answers to them come to.

    *untag* is the action that takes the tag of an answer away."""

    subject: Subject
    name: str
    mac: str
    untag: str
    addresses: tuple[tuple[Family, str], ...]


class AskedRow(NamedTuple):
    """A neighbour at the port *name* that is asked for its MAC address by way of the port for probes, *probe*.

    *match* is that of its VLAN, *tag* and *untag* are the actions on the way to it and back. *members* are those of the bond
    that *name* is; empty: it is a port.
    """

    subject: Subject
    family: Family
    address: str
    name: str
    probe: str
    match: str
    tag: str
    untag: str
    members: tuple[str, ...] = ()

    @property
    def ports(self) -> tuple[str, ...]:
        """The ports of the bridge that it answers by."""
        return self.members or (self.name,)


class TunnelRow(NamedTuple):
    """What tunnels of a family are, once they are made: they come from the bridge's own port, with address *source*.

    *protocols* are their IP protocol numbers. They leave by port number *out*. Open vSwitch asks for the MAC
    address of *gateway*, which is *mac*; empty where that is not known.
    """

    subject: Subject
    family: Family
    source: str
    protocols: tuple[int, ...]
    out: int
    gateway: str
    mac: str


def rows(ctx: Context) -> Iterator[PortRow | ProbeRow | AskedRow | TunnelRow]:
    """Yield a row for each uplink, port of backends, port for probes, neighbour that is asked, and family of tunnels."""
    from dnsteer.spec import bonds, derived  # here, since the quick verbs do without it
    from dnsteer.spec.model.next_hop import router_mac

    switch, vlans = ctx.spec.switch, ctx.vlans
    for part, names in (("uplinks", switch.uplinks), ("ports", switch.ports)):
        for name in names:
            number = ctx.ports[name]
            leave = derived.answers_leave_by(switch, name)
            out = None if leave is None else (OUT_SAME if leave == name else ctx.ports[leave])
            is_uplink = part == "uplinks"
            title = f"{'uplink' if is_uplink else 'port'} {name}"
            subject = ctx.subject(Category.PORT, number, title, ("switch", part, name))
            router = switch.uplinks[name].next_hop if is_uplink else None
            next_hops = router_mac(router, "ipv4") or "", router_mac(router, "ipv6") or ""
            here = vlans.networks(name), vlans.tag_of_port(name)
            members = bonds.bond_members(switch, name)
            for port in members or (name,):
                bond = name if members else ""
                yield PortRow(subject, port, number, is_uplink, next_hops, out, *here, bond, members)
    if switch.probe is not None:
        subject = ctx.subject(Category.PROBE, 0, f"port {switch.probe.port} for probes", ("switch", "probe"))
        addresses = tuple((derived.family_of(a.ip), str(a.ip)) for a in switch.probe.addresses)
        yield ProbeRow(subject, switch.probe.port, derived.probe_mac(switch, switch.probe), vlans.untag, addresses)
        numbers = number_names((f"{n.address}/{n.port}" for n in ctx.neighbors), 32)
        for n in ctx.neighbors:
            number = 1 << 38 | numbers[f"{n.address}/{n.port}"]
            subject = ctx.subject(Category.PROBE, number, n.title, n.path)
            tags = vlans.match(n.vlan), vlans.tag(n.vlan), vlans.untag
            members = bonds.bond_members(switch, n.port)
            yield AskedRow(subject, n.family, n.address, n.port, switch.probe.port, *tags, members)
    yield from _tunnels(ctx)


def _tunnels(ctx: Context) -> Iterator[TunnelRow]:
    """Yield the families of tunnels that backends need."""
    from dnsteer.spec import derived, tunnels  # here, since the quick verbs do without it
    from dnsteer.spec.model.next_hop import router_mac

    switch, kinds = ctx.spec.switch, tunnels.tunnel_kinds(ctx.spec)
    part, uplink = switch.tunnel, tunnels.tunnel_uplink(switch)
    if part is None or uplink is None or not kinds:
        return
    families = {derived.family_of(end) for end in tunnels.tunnel_ends(ctx.spec)}
    for number, (family, own) in enumerate((("ipv4", part.ipv4), ("ipv6", part.ipv6))):
        if own is None or family not in families:
            continue
        yield TunnelRow(
            ctx.subject(Category.TUNNEL, number, f"tunnels from {own}", ("switch", "tunnel", family)),
            derived.family_of(own),
            str(own),
            tuple(dict.fromkeys(kind.protocol for kind in kinds.values())),
            ctx.ports[uplink],
            str(tunnels.tunnel_gateway(own)),
            router_mac(switch.uplinks[uplink].next_hop, derived.family_of(own)) or "",
        )


TABLE = Table(
    name="ingress",
    matches="port, ethertype, destination MAC",
    does="sorts neighbour requests, echo requests, queries (to the balancer's MAC) and answers (to the gateways' MAC)",
    traffic=ALL_TRAFFIC,
    drops="not for the bridge",
    flows={
        "arp": "ARP at this port goes to the responders. Register 6 says that it came in by an uplink, where VIPs are "
        "answered for. `vlan_tci=0x0000/0x0fff` here and below: frames without a VLAN ID alone; `vlan: 100` makes it "
        "`dl_vlan=100`, and `switch.vlans: any` leaves it out.",
        "icmp": "ICMP to one of our MACs is sorted by its type. Fragments are not, as only the first one has an ICMP "
        "type.",
        "icmp6": "ICMPv6, neighbour solicitations too, whose destination MAC is one of many.",
        "miss": "Everything else is dropped (no output), and unwildcards every field that the flows above match: see "
        "below, Masks.",
        "query": "A query: its destination is the balancer's MAC, which the routers learnt for the VIPs.",
        "answer": "An answer: its destination is the gateways' MAC. Register 5 is the port to leave by; 0: the one it came "
        "in by.",
        "tunnel": "A query in its tunnel, which comes from the bridge's own port, LOCAL, and goes to the router.",
    },
    uses={"ports": PortRow, "exits": ExitRow, "probes": ProbeRow, "asked": AskedRow, "tunnels": TunnelRow},
    rows=rows,
    registers=(
        Register(
            "path",
            4,
            "1 query, 2 answer, 3 probe, 4 answer to a probe, 5 for a backend's own address",
            "egress",
            values={"query": QUERY, "answer": ANSWER, "probe": PROBE, "probe_answer": PROBE_ANSWER, "inbound": INBOUND},
        ),
        Register("probe", 8, "number of the backend that a probe is for", "slot"),
        Register(
            "side",
            6,
            "1 when the packet arrived on an uplink, 3 in a VLAN of an uplink where no backends are, 4 when the switch asks",
            "echo",
            values={"uplink": 1, "clients": 3, "switch": 4},
        ),
        Register("out", 5, "number of the output port; 0: the ingress port", "egress", values={"same": OUT_SAME}),
        *(
            Register(f"scratch{n}", 12 + n, "never matched: fields are copied here to unwildcard them", "egress")
            for n in range(4)
        ),
    ),
)
