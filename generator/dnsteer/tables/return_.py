# SPDX-License-Identifier: Apache-2.0
"""Table return: rewrites answers to come from the VIP. The forwarding modes make those rows. (`return` is a keyword.)"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dnsteer.spec.model.families import Family
from dnsteer.tables.cookies import Category, Subject
from dnsteer.tables.table import Table

if TYPE_CHECKING:
    from dnsteer.tables.context import Context

PREFIX = "64:ff9b::/96"
"""IPv6 prefix under which backends see IPv4 clients (RFC 6052)."""


class NatReturnRow(NamedTuple):
    """Answers from a backend address, protocol and port, rewritten to come from a VIP. *port* is 0 if the port stays.

    *zone* is that of the tracker which sees them then; 0: none does.
    """

    subject: Subject
    family: Family
    protocol: str
    backend: str
    target_port: int
    vip: str
    port: int
    zone: int = 0

    @property
    def key(self) -> tuple[str, str, int]:
        return self.backend, self.protocol, self.target_port


class FragmentRow(NamedTuple):
    """Fragments of UDP answers from a backend address. *port* is the VIP's port, 0 if it stays."""

    subject: Subject
    family: Family
    backend: str
    vip: str
    port: int
    zone: int

    @property
    def key(self) -> str:
        return self.backend


class OwnReturnRow(NamedTuple):
    """Answers that a backend, owning the VIP's address, sends as the VIP, and that pass through the switch."""

    subject: Subject
    family: Family
    vip: str
    protocols: tuple[str, ...]

    @property
    def key(self) -> str:
        return self.vip

    def merged(self, other: OwnReturnRow) -> OwnReturnRow:
        """Return one row with the protocols of both, for VIPs that share the address."""
        from dnsteer.spec.model.spec import Protocol  # here, since the quick verbs do without it

        both = {*self.protocols, *other.protocols}
        return self._replace(protocols=tuple(p.value for p in Protocol if p.value in both))


class TranslatedRow(NamedTuple):
    """Answers from a backend over IPv6 to IPv4 clients, which the extension translates."""

    subject: Subject
    backend: str
    protocol: str
    port: int

    @property
    def key(self) -> tuple[str, str, int]:
        return self.backend, self.protocol, self.port


class ProbeReturnRow(NamedTuple):
    """Answers to probes that a backend, owning the VIP's address, sends as the VIP."""

    subject: Subject
    family: Family
    vip: str

    @property
    def key(self) -> str:
        return self.vip


class RouterRow(NamedTuple):
    """A router, which sends no answers of backends: somebody behind it could make one megaflow for each source address.

    *gateways* and *probe*: whether it is a router only, and no way to backends, for answers to gateways and to probes.
    """

    subject: Subject
    mac: str
    gateways: bool
    probe: bool


ReturnRow = NatReturnRow | FragmentRow | OwnReturnRow | TranslatedRow
"""What forwarding modes add to the table."""


def rows(ctx: Context) -> Iterator[RouterRow]:
    """Yield the routers whose packets are no answers, each MAC address once."""
    from dnsteer.spec import derived  # here, since the quick verbs do without it
    from dnsteer.spec.model.next_hop import router_macs

    switch, seen = ctx.spec.switch, set[str]()
    for name, uplink in switch.uplinks.items():
        for mac in router_macs(uplink.next_hop):
            if mac in seen or derived.leads_to_backends(ctx.spec, mac):
                continue
            seen.add(mac)
            gateways, probe = bool(switch.gateways), derived.probes_are_on_link(ctx.spec)
            if gateways or probe:
                subject = ctx.subject(Category.PORT, ctx.ports[name], f"uplink {name}", ("switch", "uplinks", name))
                yield RouterRow(subject, mac, gateways, probe)


TABLE = Table(
    name="return",
    matches="source address, protocol and port of an answer",
    does="rewrites the source to the VIP, also in fragments",
    traffic=("answers",),
    drops="not an answer of a backend",
    flows={
        "udp": "Back from the backend: the source becomes the VIP again.",
        "tcp": "The same for TCP.",
        "udp6": "The same for IPv6.",
        "tcp6": "The same for TCP over IPv6.",
        "udp frag": "Fragments of a large IPv4 answer: through the connection tracker, which reassembles, translates and "
        "fragments again.",
        "udp6 frag": "First fragment of a large IPv6 answer.",
        "ipv6 frag": "Later fragments of a large IPv6 answer carry protocol 44 and are known by their source alone.",
        "low": "What is no answer is dropped. It unwildcards the same fields as an answer.",
        "router": "A router sends no answers of backends: what it sends to gateways is dropped by its MAC address, so that "
        "nobody behind it makes a megaflow for each source address.",
        "miss": "The same for fragments and other protocols, which have no port.",
    },
    uses={
        "nat_returns": NatReturnRow,
        "translated": TranslatedRow,
        "fragments": FragmentRow,
        "own_returns": OwnReturnRow,
        "probe_returns": ProbeReturnRow,
        "routers": RouterRow,
    },
    rows=rows,
)
