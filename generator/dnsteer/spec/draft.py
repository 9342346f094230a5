# SPDX-License-Identifier: Apache-2.0
"""A first spec for a site: commented YAML from what is known of the site, to be checked and edited. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import ip_interface
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
_ABOUT_NAME = "apply refuses the spec of a switch with another name"
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


@dataclass(frozen=True)
class DraftParts:
    """A first spec in parts: the text of the switch's own file, of what the switches of the site have in common, and of the
    switch's variables."""

    own: str
    common: str
    variables: str


COMMON_FILE = "site.yaml"
"""The name of what the switches of a site have in common, beside the files of the switches."""
VARIABLES_FOLDER = "vars"
"""The folder of the files of variables, beside those of the switches."""


def draft_spec(site: Site) -> str:
    """The spec of a site as YAML in one piece, with a comment at each key that is worth a thought."""
    head = [_TITLES[site.kind], *_all_keys(), "apiVersion: dnsteer/v1", ""]
    return _text([*head, *_switch(site), *_pool(site), *_vips(site)])


def draft_parts(site: Site) -> DraftParts:
    """The same spec, of which another switch of the site needs the small files alone.

    What differs from switch to switch is its name, its MAC address and the addresses of its probes. Gateways and the next
    hop are those of the site, since two switches of one network stand in for each other.
    """
    common = [_TITLES[site.kind], *_about_parts(), *_all_keys(), ""]
    common += [*_switch(site, in_parts=True), *_pool(site), *_vips(site)]
    return DraftParts(_text(_own(site)), _text(common), _text(_variables(site)))


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


def _all_keys() -> Iterator[str]:
    yield "# All keys: docs/spec.md; an editor completes them with what `dnsteer schema` prints."


def _about_parts() -> Iterator[str]:
    yield "# What all switches of the site have in common. Each has a file of its own, which includes this one, and a file"
    yield "# vars/NAME.yaml with the values of ${...} here. Where another value differs from switch to switch, write such a"
    yield '# variable here, in quotes where it is in braces ("${next_hop}"), and its value into the vars/NAME.yaml of each.'


def _own(site: Site) -> Iterator[str]:
    yield f"# Switch {site.name}: its own values are in {VARIABLES_FOLDER}/{site.name}.yaml."
    yield "apiVersion: dnsteer/v1"
    yield f"include: [{COMMON_FILE}]"
    yield ""
    yield "switch:"
    yield f"  name: {_scalar(site.name)}  # {_ABOUT_NAME}"


def _variables(site: Site) -> Iterator[str]:
    yield f"# Values of switch {site.name}, for ${{...}} in {COMMON_FILE}. For an editor: `dnsteer schema --vars`."
    yield "# Where the VIPs live. Another one for each switch, at least 4 apart: gateways and probes have those next to it."
    yield f"mac: {site.mac}"
    if site.probes:
        yield "# The agent asks from here. Other ones for each switch, since answers must come back to the one that asked."
    for name, probe in _probe_variables(site):
        yield f"{name}: {_scalar(probe)}"


def _probe_variables(site: Site) -> Iterator[tuple[str, str]]:
    """The addresses of the probes with the names of their variables: of a family `probe_ipv4`, `probe_ipv4_2` and so on."""
    numbers: Counter[int] = Counter()
    for probe in site.probes:
        version = ip_interface(probe).version
        numbers[version] += 1
        number = numbers[version]
        yield f"probe_ipv{version}{f'_{number}' if number > 1 else ''}", probe


def _switch(site: Site, *, in_parts: bool = False) -> Iterator[str]:
    yield "switch:"
    if not in_parts:
        yield f"  name: {_scalar(site.name)}  # {_ABOUT_NAME}"
    yield f"  flavor: {site.flavor}  # ovs-doca on a BlueField, ovs-dpdk, ovs-netdev or ovs-kernel elsewhere"
    yield f"  bridge: {_scalar(site.bridge)}  # apply makes it"
    mac = "${mac}" if in_parts else site.mac
    yield f"  mac: {mac}  # where the VIPs live: routers learn it by ARP and neighbour discovery; one for each switch"
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
        probes = [f'"${{{name}}}"' for name, _ in _probe_variables(site)] if in_parts else map(_scalar, site.probes)
        yield f"    addresses: [{', '.join(probes)}]"
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
    yield "    services: [dns]  # 53 by UDP and TCP; also dot, doq, doh, doh3"
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
