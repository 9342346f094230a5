# SPDX-License-Identifier: Apache-2.0
"""Build a topology: namespaces, virtual Ethernet pairs, bridges, addresses, routes and static neighbours.

By `ip -batch`, and not by pyroute2: with ten namespaces, nine links and 360 addresses and routes that took three to five
times as long (1.0 s and more against 0.2 to 0.4 s, version 0.9), as each request is a round trip in Python and each
namespace a socket of its own; `sysctl` and `ethtool` would stay, and the lines would not get fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dnsteer.lab import names
from dnsteer.lab.command import netns_exec, run
from dnsteer.lab.topology import CLIENT_MTU, Client, Host, Topology
from dnsteer.spec.derived import probe_mac, probe_uplink
from dnsteer.spec.model.types import Address

_SYSCTLS = (
    "net.ipv4.conf.all.rp_filter=0",
    "net.ipv4.conf.default.rp_filter=0",
    # No duplicate address detection, router solicitations or redirects: only intended packets are on the links.
    "net.ipv6.conf.all.disable_ipv6=0",
    "net.ipv6.conf.default.disable_ipv6=0",
    "net.ipv6.conf.all.accept_dad=0",
    "net.ipv6.conf.default.accept_dad=0",
    "net.ipv6.conf.all.accept_ra=0",
    "net.ipv6.conf.default.accept_ra=0",
    "net.ipv6.conf.default.router_solicitations=0",
    "net.ipv4.conf.all.accept_redirects=0",
    "net.ipv4.conf.all.send_redirects=0",
    "net.ipv4.conf.default.send_redirects=0",
)
_LAYER_2 = ("net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
# If br_netfilter is loaded (for containers), bridges inspect IP headers and drop packets that they consider invalid.
_NO_FILTER = tuple(f"net.bridge.bridge-nf-call-{kind}=0" for kind in ("iptables", "ip6tables", "arptables"))
_CLIENT = (
    f"net.ipv4.ip_local_port_range={names.DNSPERF_PORTS.stop} 65535",
    "net.ipv4.tcp_tw_reuse=1",
    "net.ipv6.ip_nonlocal_bind=1",  # its many addresses are a local route, which IPv6 does not treat as own addresses
)
_ROUTER = ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
# A server that owns a VIP must not answer ARP for it: the VIP is at the balancer's MAC for everyone else.
_SERVER = ("net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.arp_announce=2")

_STRAIGHT_TABLE = 1853
"""Routing table of answers that go straight to the client, in hosts whose other answers pass the switch."""


def build(topology: Topology, progress: Callable[[str], None]) -> None:
    """Create the network. Nothing is created in the caller's namespace: each pair is created in its final namespaces."""
    network = _Network(topology)
    spaces = topology.namespaces()
    progress(f"creating {len(spaces)} network namespaces and {len(network.links)} links")
    run(["ip", "-batch", "-"], stdin=_lines(f"netns add {s}" for s in spaces), timeout=60)
    # Before any device exists: each takes its settings from the namespace's defaults when it is created.
    for space in spaces:
        run(netns_exec(space, ["sysctl", "-qw", *network.sysctls[space]]))
        if space in network.bridges:
            run(netns_exec(space, ["sysctl", "-qew", *_NO_FILTER]))
    run(["ip", "-batch", "-"], stdin=_lines(network.links), timeout=60)
    for space in spaces:
        for device in network.devices[space]:
            # The userspace datapath forwards frames unchanged, so they must be segmented and have their checksums already.
            run(netns_exec(space, ["ethtool", "-K", device, "tx", "off", "tso", "off", "gso", "off", "gro", "off"]))
        run(["ip", "-n", space, "-batch", "-"], stdin=_lines(network.setup[space]))
        if network.setup6[space]:
            run(["ip", "-6", "-n", space, "-batch", "-"], stdin=_lines(network.setup6[space]))
        if network.forwarding[space]:
            run(["bridge", "-n", space, "-batch", "-"], stdin=_lines(network.forwarding[space]))


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


class _Network:
    """The commands for each namespace, collected before any is run."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        spaces = topology.namespaces()
        self.links: list[str] = []
        self.devices: dict[str, list[str]] = {s: [] for s in spaces}
        self.sysctls: dict[str, list[str]] = {s: [*_SYSCTLS] for s in spaces}
        self.setup: dict[str, list[str]] = {s: ["link set lo up"] for s in spaces}
        self.setup6: dict[str, list[str]] = {s: [] for s in spaces}  # what `ip` takes for IPv6 only when told so
        self.forwarding: dict[str, list[str]] = {s: [] for s in spaces}
        self.bridges: set[str] = set()
        self._ports()
        self._extension()
        for client in topology.clients:
            self._client(client)
        if len(topology.clients) > 1:
            self._transit()
        for host in topology.hosts:
            self._host(host)

    def _link(self, space: str, device: str, peer_space: str, peer: str, mac: str | None = None) -> None:
        address = f" address {mac}" if mac else ""
        self.links.append(f"link add {peer} netns {peer_space} type veth peer name {device}{address} netns {space}")
        for owner, name in ((space, device), (peer_space, peer)):
            self.devices[owner].append(name)
            self.setup[owner].append(f"link set {name} mtu {self.topology.mtu} up")

    def _bridge(self, space: str) -> None:
        self.bridges.add(space)
        self.setup[space] += [
            "link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
            "link set br0 up",
        ]
        self.sysctls[space] = [*_LAYER_2]

    def _attach(self, fabric: str, space: str, device: str, mac: str | None) -> None:
        """Attach an interface of *space* to the bridge of *fabric*."""
        peer = f"h{len(self.devices[fabric])}"
        self._link(space, device, fabric, peer, mac)
        self.setup[fabric].append(f"link set {peer} master br0")

    def _ports(self) -> None:
        """The ports of the switch, each with the fabric or host that it leads to."""
        switch = names.SWITCH_NAMESPACE
        self.sysctls[switch] = [*_LAYER_2]
        for port, fabric in self.topology.fabrics.items():
            self._bridge(fabric)
            self._link(fabric, "switch", switch, port)
            self.setup[fabric].append("link set switch master br0")

    def _extension(self) -> None:
        """The devices that the extension's program opens, and the ports of the switch at their other ends."""
        for port, device in self.topology.extension.items():
            self.sysctls[names.EXTENSION_NAMESPACE] = [*_LAYER_2]
            self._link(names.EXTENSION_NAMESPACE, device, names.SWITCH_NAMESPACE, port)

    def _static_fdb(self, port: str, mac: str) -> None:
        """Add a static entry so that the fabric of *port* sends frames for *mac* to the switch, whatever it learns."""
        fabric = self.topology.fabrics.get(port)
        if fabric is not None:
            self.forwarding[fabric].append(f"fdb replace {mac} dev switch master static")

    def _client(self, client: Client) -> None:
        space, setup = client.namespace, self.setup[client.namespace]
        self._attach(self.topology.fabrics[client.uplink], space, "eth0", client.mac)
        self.sysctls[space] += _CLIENT
        setup += [_address(a, "eth0") for a in (*client.addresses, *client.direct, *client.router)]
        setup += [f"route add local {network} dev lo" for network in client.many]
        v4, v6 = client.addresses
        d4, d6 = client.direct
        vips = dict.fromkeys(a for vip in self.topology.spec.vips.values() for a in vip.addresses)
        # On-link, so that the client asks for each VIP by ARP or neighbour discovery as a router does.
        mtu = f"mtu {min(CLIENT_MTU, self.topology.mtu)}"
        setup += [f"{_route(a)} dev eth0 src {v4 if a.version == 4 else v6} {mtu}" for a in vips]
        known: set[Address] = set()
        for _, server in self.topology.servers():
            for own in (a for a in server.addresses if a not in known):  # workers of one host share them
                setup.append(f"{_route(own)} dev eth0 src {d4 if own.version == 4 else d6} {mtu}")
                setup.append(f"neigh replace {own} lladdr {server.lab_mac} nud permanent dev eth0")
            if known.isdisjoint(server.addresses):
                self._static_fdb(client.uplink, server.lab_mac)
            known |= {*server.addresses}

    def _transit(self) -> None:
        """Connect the clients, as routers' upstream would: an answer may leave by another uplink than its query came by."""
        clients = self.topology.clients
        self._bridge(names.TRANSIT_NAMESPACE)
        macs = {c.index: f"0a:1a:b1:00:00:{c.index:02x}" for c in clients}
        for client in clients:
            self._attach(names.TRANSIT_NAMESPACE, client.namespace, "transit", macs[client.index])
            self.sysctls[client.namespace] += _ROUTER
            for other in clients:
                if other is not client:
                    for address in (*other.addresses, *other.direct):
                        self.setup[client.namespace] += [
                            f"{_route(address)} dev transit",
                            f"neigh replace {address} lladdr {macs[other.index]} nud permanent dev transit",
                        ]
                    for network, by in zip(other.many, other.addresses, strict=False):
                        self.setup[client.namespace].append(f"route add {network} via {by} dev transit")

    def _host(self, host: Host) -> None:
        space, setup = host.namespace, self.setup[host.namespace]
        self.sysctls[space] += _SERVER
        for segment in host.segments:
            device = host.device(segment)
            fabric = self.topology.fabrics.get(segment)
            if fabric is None:
                self._link(space, device, names.SWITCH_NAMESPACE, segment, host.mac)
            else:
                self._attach(fabric, space, device, host.mac)
            setup += [_address(a, device) for a in dict.fromkeys(a for s in host.servers for a in s.addresses)]
        setup += [_address(a, "lo") for a in host.vips]
        if host.passes:
            self._by_gateway(host)
        for client in self.topology.clients:
            if client.uplink not in host.segments:
                continue
            if host.straight:
                self._direct_return(host, client)
        self._probes(host)
        if host.passes:
            for vip in host.straight:
                rules = setup if vip.version == 4 else self.setup6[space]
                rules.append(f"rule add from {vip} table {_STRAIGHT_TABLE}")

    def _probes(self, host: Host) -> None:
        """Routes to the addresses of the agent's probes, which are in the network of the servers, or answered as the VIP."""
        switch = self.topology.spec.switch
        if switch.probe is None:
            return
        uplink = probe_uplink(switch, switch.probe)
        device = host.device(uplink if uplink in host.segments else host.segments[0])
        families = {a.version for server in host.servers for a in server.addresses}
        answered = families | {vip.version for vip in host.straight}
        for own in (a.ip for a in switch.probe.addresses if a.version in answered):
            self.setup[host.namespace].append(f"{_route(own)} dev {device}")
            if own.version not in families:  # as in _direct_return
                mac = probe_mac(switch, switch.probe)
                self.setup[host.namespace].append(f"neigh replace {own} lladdr {mac} nud permanent dev {device}")
            if host.passes and host.straight:
                self.setup[host.namespace].append(f"{_route(own)} dev {device} table {_STRAIGHT_TABLE}")

    def _direct_return(self, host: Host, client: Client) -> None:
        """Routes of answers that go to the client without passing the switch."""
        setup, device = self.setup[host.namespace], host.device(client.uplink)
        table = f" table {_STRAIGHT_TABLE}" if host.passes else ""
        setup += [f"{_route(a)} dev {device}{table}" for a in (*client.addresses, *client.direct)]
        for network, by in zip(client.many, client.addresses, strict=False):
            setup.append(f"route add {network} via {by} dev {device} onlink{table}")
        own = {a.version for server in host.servers for a in server.addresses}
        for address in (*client.addresses, *client.direct):
            # A host without an address of the family would ask for the client's MAC address with the VIP as its own.
            if address.version not in own and any(vip.version == address.version for vip in host.straight):
                setup.append(f"neigh replace {address} lladdr {client.mac} nud permanent dev {device}")

    def _by_gateway(self, host: Host) -> None:
        """Routes of a host whose answers pass the switch; answers to direct queries are sent to the lab's return MAC."""
        setup = self.setup[host.namespace]
        first = host.device(host.queries_by[0])
        for gateway in host.gateways:
            # The gateway is on every segment that queries come from; the first one is preferred by its metric.
            for number, port in enumerate(host.queries_by):
                setup.append(f"{_route(gateway)} dev {host.device(port)} metric {100 + number}")
            anywhere = "0.0.0.0/0" if gateway.version == 4 else "::/0"
            setup.append(f"route add {anywhere} via {gateway} dev {first}")
        for client in self.topology.clients:
            port = client.uplink if client.uplink in host.queries_by else host.queries_by[0]
            device = host.device(port)
            if device != first:
                for gateway in host.gateways:
                    to_client = [_route(a) for a in client.addresses] + [
                        f"route add {network}" for network in client.many
                    ]
                    same = [line for line in to_client if (":" in line) == (gateway.version == 6)]
                    setup += [f"{line} via {gateway} dev {device}" for line in same]
            for address in client.direct:
                setup.append(f"{_route(address)} dev {device}")
                setup.append(f"neigh replace {address} lladdr {client.return_mac} nud permanent dev {device}")
            self._static_fdb(port, client.return_mac)


def _address(address: Address, device: str) -> str:
    return f"addr add {address}/{address.max_prefixlen} dev {device}{' nodad' if address.version == 6 else ''}"


def _route(address: Address) -> str:
    return f"route add {address}/{address.max_prefixlen}"
