# SPDX-License-Identifier: Apache-2.0
"""The network that a spec needs around its switch. A pure function of the spec: nothing is created here.

Every uplink has a fabric (a learning bridge) with its client and the backends behind it. A backend with a port of its own
is wired to that port; several behind one port share a fabric there. One namespace represents one MAC address: backends
that share one (they sit behind a router) are name servers in the same namespace. The extension has a namespace with the two
devices that its program opens.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network

from dnsteer.lab import names
from dnsteer.lab.errors import TopologyError
from dnsteer.modes import MODES
from dnsteer.spec import derived
from dnsteer.spec.derived import Endpoint
from dnsteer.spec.model.families import FAMILIES, Family
from dnsteer.spec.model.next_hop import router_addresses, router_macs
from dnsteer.spec.model.spec import Backend, Selection, Spec, Vip
from dnsteer.spec.model.types import Address
from dnsteer.spec.neighbors import asked_address, is_followed, spec_with_macs
from dnsteer.spec.networks import has_vlans
from dnsteer.spec.tunnels import tunnel_kinds

MAX_SERVERS = 128
"""Maximum number of name servers: each is three processes of about 10 MB."""
MAX_PORTS = 64
"""Maximum number of uplinks and ports."""
CLIENT_MTU = 1500
"""Maximum bytes of a packet from a client: links beyond the routers have no larger MTU."""
MAX_TUNNEL_MTU = 3000
"""Largest MTU of links that tunnels come in by: a virtual Ethernet device runs XDP on packets of one page."""
_DEVICE_NAME = 15


@dataclass(frozen=True)
class Client:
    """A DNS client behind an uplink. *direct* are its addresses for direct queries to a backend, bypassing the VIPs."""

    uplink: str
    index: int
    namespace: str
    mac: str
    addresses: tuple[Address, ...]
    direct: tuple[Address, ...]
    return_mac: str
    """MAC that the lab's flows to this client match: backends whose answers pass the switch send direct answers to it."""
    many: tuple[IPv4Network | IPv6Network, ...] = ()
    """Further source addresses, if a pool's slots are chosen by the client's address."""
    router: tuple[Address, ...] = ()
    """Addresses of the router that it stands for, where the spec gives the next hop by them."""


@dataclass
class Server:
    """A name server: one backend of the spec, which may be in several pools; of several workers, each is one."""

    name: str
    addresses: list[Address]
    lab_mac: str = ""
    """MAC that the lab's flows match for direct queries to it."""
    listen: list[tuple[Address, int]] = field(default_factory=list)
    tls_port: int | None = None
    small: bool = False
    """Whether its UDP answers must not come in fragments, because they are translated."""
    port_offset: int = 0
    """What it adds to target ports: its number among the workers of its host."""


@dataclass
class Host:
    """A namespace with one MAC address, its name servers, and the switch ports whose segment it is on."""

    namespace: str
    mac: str
    servers: list[Server] = field(default_factory=list)
    queries_by: list[str] = field(default_factory=list)
    answers_by: list[str] = field(default_factory=list)
    """Switch ports whose fabrics it is on only to answer the clients directly."""
    vips: list[Address] = field(default_factory=list)
    """VIPs that it owns (direct server return)."""
    straight: list[Address] = field(default_factory=list)
    """Those of *vips* whose answers go to the client without passing the switch."""
    passes: bool = False
    """Whether answers of any VIP pass the switch, so that its default route is the virtual gateway."""
    gateways: list[Address] = field(default_factory=list)
    tunneled: bool = False
    """Whether queries reach it in tunnels, which it must decapsulate."""

    @property
    def segments(self) -> list[str]:
        """Switch ports whose segment it has an interface on, in the order of its interfaces."""
        return [*self.queries_by, *(s for s in self.answers_by if s not in self.queries_by)]

    def device(self, segment: str) -> str:
        """Its interface on the segment of switch port *segment*."""
        return f"eth{self.segments.index(segment)}"


@dataclass
class Topology:
    """The lab's network. *fabrics*: switch port -> namespace of its bridge; other ports lead to a single host."""

    spec: Spec
    clients: list[Client]
    hosts: list[Host]
    fabrics: dict[str, str]
    server_of: dict[tuple[str, str], str]
    """(pool, backend) -> name of the server."""
    notes: list[str]
    """Messages about what the lab does not do for this spec."""
    extension: dict[str, str] = field(default_factory=dict)
    """Port of the bridge -> device of the extension, queries' first; empty where the spec has no extension."""
    mtu: int = CLIENT_MTU
    """MTU of all links, in bytes."""

    def namespaces(self) -> list[str]:
        """Every namespace, in the order of creation."""
        transit = [names.TRANSIT_NAMESPACE] if len(self.clients) > 1 else []
        extension = [names.EXTENSION_NAMESPACE] if self.extension else []
        return [
            names.SWITCH_NAMESPACE,
            *extension,
            *transit,
            *self.fabrics.values(),
            *(c.namespace for c in self.clients),
            *(h.namespace for h in self.hosts),
        ]

    def servers(self) -> Iterator[tuple[Host, Server]]:
        """Every name server with its host."""
        for host in self.hosts:
            for server in host.servers:
                yield host, server

    def find(self, server: str) -> tuple[Host, Server]:
        """The server named *server*, with its host."""
        return next((h, s) for h, s in self.servers() if s.name == server)


def service_kind(endpoint: Endpoint) -> str | None:
    """The protocol that the lab's name servers use for a service: `dns`, `dot`, or None (NSD has no DoQ or DoH)."""
    kind = derived.dns_transport(endpoint)
    return kind if kind in ("dns", "dot") else None


def plan_network(spec: Spec, *, most_servers: int = MAX_SERVERS) -> Topology:
    """The topology of *spec*. Raises TopologyError for the few valid specs that the lab cannot build."""
    if is_followed(spec):
        spec = spec_with_macs(spec, None)  # the lab's machines have the stand-ins, and the agent finds them
    bond = next((name for name, uplink in spec.switch.uplinks.items() if uplink.members), None)
    if bond is not None:
        raise TopologyError(
            f"uplink {bond} is a bond, and the lab has no partner for one: give it one port in its place"
        )
    macs = _lab_macs(spec)
    topology = Topology(spec, _clients(spec, macs), [], {}, {}, [])
    _Hosts(topology).add_all()
    _set_lab_macs(topology, macs)
    for port in (*spec.switch.uplinks, *spec.switch.ports):
        if port in spec.switch.uplinks or sum(port in h.segments for h in topology.hosts) != 1:
            topology.fabrics[port] = f"{names.PREFIX}net-{port}"
    extension, bringup = spec.switch.extension, spec.switch.bringup
    if extension is not None:
        topology.extension = {p.port: p.device or p.port for p in (extension.ingress, extension.egress)}
    if bringup is not None and bringup.mtu is not None:
        tunneled = any(host.tunneled for host in topology.hosts)
        topology.mtu = min(bringup.mtu, MAX_TUNNEL_MTU) if tunneled else bringup.mtu
    _check(topology, most_servers)
    topology.notes += _notes(topology)
    return topology


def macs_of_neighbors(spec: Spec) -> dict[str, str]:
    """The MAC addresses at which the lab's machines answer for the neighbours that *spec* gives by address."""
    spec = spec_with_macs(spec, None)
    found: dict[str, str] = {}
    for uplink in spec.switch.uplinks.values():  # one machine is the router of both families
        found |= {str(a): router_macs(uplink.next_hop)[0] for a in router_addresses(uplink.next_hop)}
    backends = (b for pool in spec.pools.values() for b in pool.backends if b.follows_mac)
    return found | {asked_address(b)[0]: b.mac for b in backends}


def _clients(spec: Spec, macs: Iterator[str]) -> list[Client]:
    """A client behind each uplink with a next hop, or, where none has one, behind each uplink."""
    uplinks = spec.switch.uplinks
    with_hop = {name: uplink for name, uplink in uplinks.items() if uplink.next_hop is not None}
    told_apart = any(spec.pools[vip.pool].selection is Selection.CLIENT for vip in spec.vips.values())
    return [
        Client(
            name,
            i,
            f"{names.PREFIX}c-{name}",
            next(iter(router_macs(uplink.next_hop)), "") or next(macs),
            names.client_addresses(i),
            names.direct_addresses(i),
            next(macs),
            names.MANY_ADDRESSES if told_apart and not i else (),
            router_addresses(uplink.next_hop),
        )
        for i, (name, uplink) in enumerate((with_hop or uplinks).items())
    ]


def _set_lab_macs(topology: Topology, macs: Iterator[str]) -> None:
    """Give each name server the MAC address of its direct queries; those that share an address share one."""
    mac_of = dict[Address, str]()
    for _, server in topology.servers():
        server.lab_mac = next((mac_of[a] for a in server.addresses if a in mac_of), "") or next(macs)
        mac_of |= dict.fromkeys(server.addresses, server.lab_mac)


def _lab_macs(spec: Spec) -> Iterator[str]:
    """Locally administered MAC addresses that the spec does not use."""
    used = {spec.switch.mac, derived.gateway_mac(spec.switch)}
    used |= {mac for up in spec.switch.uplinks.values() for mac in router_macs(up.next_hop)}
    used |= {b.mac for pool in spec.pools.values() for b in pool.backends}
    for n in range(1 << 16):
        mac = f"0a:1a:b0:00:{n >> 8:02x}:{n & 255:02x}"
        if mac not in used:
            yield mac


class _Hosts:
    """Collects backends into hosts and servers."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.spec = topology.spec
        self.by_mac: dict[str, Host] = {}
        backends = [(p, b) for p, pool in self.spec.pools.items() for b in pool.backends]
        self.addresses_of: dict[str, set[frozenset[Address]]] = {}
        for _, backend in backends:
            self.addresses_of.setdefault(backend.name, set()).add(frozenset(_addresses(backend)))

    def add_all(self) -> None:
        """Add every backend of every pool, with what the pool's VIPs require of it."""
        for pool_name, pool in self.spec.pools.items():
            vips = [vip for vip in self.spec.vips.values() if vip.pool == pool_name]
            for backend in pool.backends:
                host, server = self._place(pool_name, backend)
                self.topology.server_of[pool_name, backend.name] = server.name
                for vip in vips:
                    self._serve(host, server, vip, backend)

    def _place(self, pool: str, backend: Backend) -> tuple[Host, Server]:
        own = _addresses(backend)
        host = self.by_mac.get(backend.mac)
        if host is None:
            # Two pools may use one name for two servers; the pool's name then distinguishes them.
            name = backend.host if len(self.addresses_of[backend.name]) == 1 else f"{pool}.{backend.host}"
            host = Host(self._free(f"{names.PREFIX}b-{name}", {h.namespace for h in self.topology.hosts}), backend.mac)
            self.by_mac[backend.mac] = host
            self.topology.hosts.append(host)
        for port in [backend.port] if backend.port is not None else [c.uplink for c in self.topology.clients]:
            if port not in host.queries_by:
                host.queries_by.append(port)
        more = backend.port_offset
        server = next((s for s in host.servers if set(s.addresses) & set(own) and s.port_offset == more), None)
        if server is None:
            name = backend.name if len(self.addresses_of[backend.name]) == 1 else f"{pool}.{backend.name}"
            server = Server(self._free(name, {s.name for _, s in self.topology.servers()}), [], port_offset=more)
            host.servers.append(server)
        server.addresses += [a for a in own if a not in server.addresses]
        return host, server

    @staticmethod
    def _free(name: str, taken: set[str]) -> str:
        return next(n for n in (name, *(f"{name}-{i}" for i in range(2, 10_000))) if n not in taken)

    def _serve(self, host: Host, server: Server, vip: Vip, backend: Backend) -> None:
        """Add what a VIP requires of one of its backends."""
        mode = MODES[vip.forwarding]
        pool = self.spec.pools[vip.pool]
        addresses = [a for a in vip.addresses if backend in derived.members(pool, mode.reach(derived.family_of(a)))]
        if not addresses:
            return
        host.tunneled |= mode.tunnels
        server.small |= mode.translates
        owned = addresses if mode.owns_vip else []
        if mode.answers_pass(self.spec.switch, backend):
            host.passes = True
            self._add_gateways(host, server, {derived.family_of(a) for a in (*_addresses(backend), *owned)})
        elif owned:
            host.answers_by += [c.uplink for c in self.topology.clients if c.uplink not in host.answers_by]
            host.straight += [a for a in owned if a not in host.straight]
        host.vips += [a for a in owned if a not in host.vips]
        self._add_services(host, server, vip, backend, owned)

    def _add_gateways(self, host: Host, server: Server, families: Collection[Family]) -> None:
        """Add the virtual gateway of each family in which the host's answers pass the switch."""
        for family in (f for f in FAMILIES if f in families):
            gateway = _nearest(self.spec.switch.gateways, server.addresses, 4 if family == "ipv4" else 6)
            if gateway is not None and all(g.version != gateway.version for g in host.gateways):
                host.gateways.append(gateway)

    def _add_services(self, host: Host, server: Server, vip: Vip, backend: Backend, owned: Sequence[Address]) -> None:
        """Let the server listen at what a VIP serves, on its own addresses of the backend's families and on *owned* VIPs."""
        families = {derived.family_of(a) for a in _addresses(backend)}
        own = [a for a in server.addresses if derived.family_of(a) in families]
        for endpoint in derived.endpoints(vip):
            kind = service_kind(endpoint)
            if kind is None:
                continue
            port = endpoint.target_port + server.port_offset
            if kind == "dot":
                server.tls_port = server.tls_port or port
            self._listen(host, server, [*own, *owned], port)

    @staticmethod
    def _listen(host: Host, server: Server, addresses: list[Address], port: int) -> None:
        taken = {pair for s in host.servers for pair in s.listen}
        server.listen += [(a, port) for a in addresses if (a, port) not in taken]


def _addresses(backend: Backend) -> list[Address]:
    return [a for a in (backend.ipv4, backend.ipv6) if a is not None]


def _nearest(gateways: list[Address], own: list[Address], version: int) -> Address | None:
    """The gateway of that IP version that shares the longest prefix with the host's own address; None if there is none."""
    same = [g for g in gateways if g.version == version]
    here = next((int(a) for a in own if a.version == version), 0)
    return min(same, key=lambda g: int(g) ^ here, default=None)


def _check(topology: Topology, most_servers: int) -> None:
    """Raise TopologyError for what the lab cannot build."""
    if has_vlans(topology.spec):
        raise TopologyError(
            "the lab's networks have no tags, and the spec has networks with a VLAN of their own: leave out vlan for the "
            "lab; `dnsteer check` proves the tags"
        )
    if tunnel_kinds(topology.spec):
        words = " and ".join(word.value for word in tunnel_kinds(topology.spec))
        raise TopologyError(
            f"the lab's name servers do not take Ethernet out of tunnels, and the spec has forwarding {words}: use dsr for "
            "the lab; `dnsteer check` proves the tunnels"
        )
    ports = [*topology.spec.switch.uplinks, *topology.spec.switch.ports, *topology.extension]
    servers = sum(1 for _ in topology.servers())
    if servers > most_servers or len(ports) > MAX_PORTS:
        raise TopologyError(
            f"the lab builds at most {most_servers} name servers and {MAX_PORTS} switch ports; "
            f"the spec has {servers} and {len(ports)}"
        )
    for port in [*ports, *topology.extension.values()]:
        _check_interface_name(port)
    for host in topology.hosts:
        _check_tunnels(host)
    for client in topology.clients:
        for host in topology.hosts:
            _check_macs(client, host)
    _check_client_addresses(topology)


def _check_interface_name(port: str) -> None:
    if port == "lo" or os.sep in port:
        raise TopologyError(f"the lab cannot name an interface {port!r}: every namespace has one of that name")
    if len(port) > _DEVICE_NAME:
        raise TopologyError(f"the lab cannot name an interface {port!r}: Linux takes {_DEVICE_NAME} characters")


def _check_tunnels(host: Host) -> None:
    if host.tunneled and len(host.servers) > 1:
        both = " and ".join(server.name for server in host.servers[:2])
        raise TopologyError(
            f"backends {both} are behind one router, and get queries in tunnels; the lab has one server for each MAC "
            "address then: give them different ones"
        )


def _check_macs(client: Client, host: Host) -> None:
    if host.mac == client.mac and client.uplink in host.segments:
        raise TopologyError(
            f"backend {host.servers[0].name} and the next hop of {client.uplink} share the MAC address {host.mac}; "
            "the lab has a namespace for each: give one of them another MAC"
        )


def _check_client_addresses(topology: Topology) -> None:
    """Refuse addresses of the spec that clients of the lab have."""
    spec = topology.spec
    clients = {a for c in topology.clients for a in (*c.addresses, *c.direct)}
    networks = [network for c in topology.clients for network in c.many]
    of_spec = [*spec.switch.gateways, *(a for v in spec.vips.values() for a in v.addresses)]
    of_spec += [a for _, s in topology.servers() for a in s.addresses]
    clash = sorted((a for a in of_spec if a in clients or any(a in network for network in networks)), key=str)
    if clash:
        raise TopologyError(f"{clash[0]} of the spec is the address of a client of the lab: use another one")


def _notes(topology: Topology) -> list[str]:
    spec = topology.spec
    notes: list[str] = []
    endpoints = [e for vip in spec.vips.values() for e in derived.endpoints(vip)]
    unserved = sorted({f"{e.protocol.value}/{e.port}" for e in endpoints if service_kind(e) is None})
    if unserved:
        notes.append(f"no name server of the lab answers at {', '.join(unserved)}: NSD speaks neither DoQ nor DoH")
    tls = sorted({e.target_port for e in endpoints if service_kind(e) == "dot"})
    if len(tls) > 1:
        notes.append(f"DoT at several target ports ({tls}): NSD speaks TLS at one, the first of each backend")
    ports = {**spec.switch.uplinks, **spec.switch.ports}
    typed = sorted(name for name, port in ports.items() if port.type not in (None, "system", "afxdp"))
    if typed:
        notes.append(
            f"ports {', '.join(typed)} have an interface type; the lab's are virtual Ethernet devices (system)"
        )
    if spec.switch.extension is not None:
        notes.append("the extension runs on the software model of DOCA Flow, not on hardware")
    mtu = spec.switch.bringup.mtu if spec.switch.bringup is not None else None
    if mtu is not None and mtu > topology.mtu:
        notes.append(f"links have an MTU of {topology.mtu}, not {mtu}: what takes tunnels off here does not take more")
    if spec.switch.flavor.value != "ovs-netdev":
        notes.append(f"the lab's switch is the userspace datapath (ovs-netdev), not {spec.switch.flavor.value}")
    return notes
