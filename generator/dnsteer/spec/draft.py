# SPDX-License-Identifier: Apache-2.0
"""A first spec for a site: commented YAML from what is known of the site, to be checked and edited. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import yaml

from dnsteer.spec.model.types import Address

SiteKind = Literal["dsr", "nat", "resolvers"]
SITE_KINDS: tuple[str, ...] = get_args(SiteKind)
_TITLES = {
    "dsr": """\
# One-armed site with direct server return: queries come in by the uplink and go out by it to a name server, which owns
# the VIP too and answers the client itself.""",
    "nat": """\
# One-armed site with NAT: queries go to a server's own address, and its answers come back to the virtual gateway, get
# the VIP as their source, and leave to the router.""",
    "resolvers": """\
# Farm of resolvers: the agent asks each for the root's name servers with recursion, and takes those that fail out of
# service.""",
}
_ANY = 1 << 20
"""Columns: a scalar is not broken over lines."""
_POOLS = {"dsr": "authoritative", "nat": "authoritative", "resolvers": "resolvers"}


@dataclass(frozen=True)
class SiteBackend:
    """A server: its name, its addresses, one of a family, and its MAC address."""

    name: str
    addresses: tuple[Address, ...]
    mac: str


@dataclass(frozen=True)
class Site:
    """What a first spec is made of. *vips* are the addresses that clients ask; *next_hop* is the router's MAC address,
    *gateways* are what NAT backends route their answers to, *probes* the agent's addresses with prefix lengths,
    *zone* what authoritative servers are asked for."""

    kind: SiteKind
    name: str
    flavor: str
    bridge: str
    uplink: str
    mac: str
    vips: tuple[Address, ...]
    backends: tuple[SiteBackend, ...]
    next_hop: str = ""
    gateways: tuple[Address, ...] = ()
    probes: tuple[str, ...] = ()
    zone: str = ""

    @property
    def checked(self) -> bool:
        """Whether the servers are checked by an agent."""
        return self.kind == "resolvers" or bool(self.zone)

    @property
    def nat(self) -> bool:
        """Whether answers pass the switch."""
        return self.kind == "nat" or bool(self.gateways)


def draft_spec(site: Site) -> str:
    """The spec of a site as YAML, with a comment at each key that is worth a thought."""
    return "\n".join([*_head(site), *_switch(site), *_pool(site), *_vips(site)]) + "\n"


def _head(site: Site) -> Iterator[str]:
    yield _TITLES[site.kind]
    yield "# All keys: docs/spec.md; an editor completes them with what `dnsteer schema` prints."
    yield "apiVersion: dnsteer/v1"
    yield ""


def _switch(site: Site) -> Iterator[str]:
    yield "switch:"
    yield f"  name: {_scalar(site.name)}  # apply refuses the spec of a switch with another name"
    yield f"  flavor: {site.flavor}  # ovs-doca on a BlueField, ovs-dpdk, ovs-netdev or ovs-kernel elsewhere"
    yield f"  bridge: {_scalar(site.bridge)}  # apply makes it"
    yield f"  mac: {site.mac}  # where the VIPs live: routers learn it by ARP and neighbour discovery; one for each switch"
    if site.nat:
        yield "  # Unused addresses that the servers route their answers to: the switch answers ARP for them."
        yield f"  gateways: [{', '.join(map(_address, site.gateways))}]"
    yield "  uplinks:"
    if site.next_hop:
        yield "    # next_hop: the MAC address of the router that answers leave to"
        yield f"    {_scalar(site.uplink)}: {{next_hop: {site.next_hop}}}"
    else:
        yield f"    {_scalar(site.uplink)}:"
    if site.probes:
        yield "  probe:  # the agent asks from here, by the path of the clients; the servers must allow these addresses"
        yield f"    addresses: [{', '.join(map(_scalar, site.probes))}]"
    yield ""


def _pool(site: Site) -> Iterator[str]:
    yield "pools:"
    yield f"  {_POOLS[site.kind]}:"
    if site.kind == "resolvers":
        yield "    serves: resolver  # what a check asks, and what is good: NOERROR with RA and an answer"
    yield "    backends:  # weight: 2 gets twice the queries; state: down keeps one out"
    for backend in site.backends:
        addresses = [f"ipv{address.version}: {_address(address)}" for address in backend.addresses]
        yield f"      - {{{', '.join([f'name: {_scalar(backend.name)}', *addresses, f'mac: {backend.mac}'])}}}"
    if site.kind == "resolvers":
        yield "    health:  # every second; what each kind of server needs: docs/servers.md"
        yield "      - {}"
        yield "      # A second check, of a name that no cache has, that only warns when the way to the Internet is gone:"
        yield '      # - {query: {name: "*.check.example.org"}, interval: 10s, timeout: 3s, fall: 3, on_failure: warn}'
        yield "    slow_start: 10s  # one that was restarted has an empty cache"
    elif site.zone:
        yield "    serves: authoritative  # good is NOERROR with AA"
        yield "    health:  # every second, a zone that all of them have; more kinds of checks: docs/servers.md"
        yield f"      - {{query: {{name: {_scalar(site.zone)}}}}}"
    else:
        yield "    # With these lines `dnsteer agent` takes servers that fail out; example.org is a zone of theirs:"
        yield "    # serves: authoritative"
        yield "    # health:"
        yield "    #   - {query: {name: example.org}}"
    yield ""


def _vips(site: Site) -> Iterator[str]:
    if site.probes:
        yield "lint:"
        yield "  masks: 24  # answers to probes have masks of their own"
        yield ""
    yield "vips:"
    yield "  dns:"
    yield f"    addresses: [{', '.join(map(_address, site.vips))}]"
    yield "    services: [dns]  # 53 by UDP and TCP; also dot, doq, doh"
    yield f"    pool: {_POOLS[site.kind]}"
    if site.nat:
        yield "    forwarding: nat"
    else:
        yield "    forwarding: dsr  # each server has the VIP on a loopback interface and does not answer ARP for it"


def _address(address: Address) -> str:
    return _scalar(str(address))


def _scalar(text: str) -> str:
    """*text* as a scalar on one line, in quotes where YAML would read something else: `true`, `2001:db8::`."""
    style = None if text.isprintable() else '"'
    flow = yaml.safe_dump([text], default_flow_style=True, default_style=style, allow_unicode=True, width=_ANY)
    return str(flow).strip()[1:-1]
