# SPDX-License-Identifier: Apache-2.0
"""The senders of test frames: clients behind the uplinks, and the backends whose answers pass the switch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dnsteer.proof.reference.modes import ModeReference
from dnsteer.proof.reference.packets import Reference
from dnsteer.proof.reference.service import AddressService, ServiceKey, TargetBackend
from dnsteer.proof.reference.spec_services import service_ports, target_backends, worker_number
from dnsteer.proof.reference.topology import packed_mac
from dnsteer.proof.traffic import craft
from dnsteer.proof.traffic.coverage import coverage, evenly_spaced
from dnsteer.proof.traffic.craft import Clients, Headers
from dnsteer.spec.errors import counted
from dnsteer.spec.model.next_hop import router_macs
from dnsteer.spec.model.spec import Spec, Vip

_NEIGHBOR_MACS = bytes.fromhex("02fcfe")
"""First bytes of the MAC addresses of senders that are not backends."""

_TRIED_PREFIXES = 64
"""Prefixes of a list in which a client is looked for that may ask."""
_MANY = 64
"""Clients of which each may ask, where a list allows many."""
_SPREAD = 0x9E3779B97F4A7C15
"""An odd number: multiplying by it permutes the numbers of each width, and changes many bits at each step."""


@dataclass(frozen=True)
class Vector:
    """A frame to send into a port. *kind*: query, answer, fragment, neighbor, echo, own, unusual (forwarded), or drop.

    Frames of one *spread_group* must not all reach the same backend.
    """

    name: str
    port: str
    data: bytes
    kind: str
    spread_group: str = ""


@dataclass(frozen=True)
class Responder:
    """A backend whose answers for a VIP's address pass the switch."""

    vip_name: str
    vip: Vip
    mode: ModeReference
    address: bytes
    backend: TargetBackend

    @property
    def label(self) -> str:
        return f"{self.vip_name} {craft.address_text(self.address)}"

    @property
    def source(self) -> bytes:
        return self.backend.address if self.mode.rewrites_answers else self.address

    @property
    def version(self) -> int:
        return craft.version_of(self.source)

    def answer_port(self, protocol: int) -> int | None:
        """The port that its answers in *protocol* come from; None when the VIP has no such service."""
        ports = (found.target_port for found in service_ports(self.vip) if found.protocol == protocol)
        return next((port + self.backend.worker for port in ports), None)


class Senders:
    """All senders of a spec's test frames. No two frames come from the same client."""

    def __init__(self, spec: Spec, reference: Reference, per_service: int | None) -> None:
        topology, spec = reference.topology, reference.spec  # with the MAC addresses of neighbours
        self.spec = spec
        self.reference = reference
        self.per_service = per_service
        self.coverage = coverage(spec, reference.services, per_service)
        self.clients = Clients(spec)
        self.vlans = topology.vlans
        self.uplinks = topology.uplinks
        self.ports = topology.ports
        self.mac = topology.mac
        self.gateway_mac = topology.gateway_mac
        self.gateways = [address.packed for address in spec.switch.gateways]
        found = [endpoint for vip in spec.vips.values() for endpoint in service_ports(vip)]
        workers = 1 + max(worker_number(backend) for pool in spec.pools.values() for backend in pool.backends)
        self._used_ports = {endpoint.port for endpoint in found}
        self._used_ports |= {endpoint.target_port + worker for endpoint in found for worker in range(workers)}
        self.unused_port = next(port for port in range(40000, 65536) if port not in self._used_ports)
        self._uplinks_taken = 0
        self._asked: dict[ServiceKey, bool] = {}
        """The services that were queried, and whether their lists let a client pass."""

    def next_uplink(self) -> str:
        """Return the next uplink, in turn."""
        self._uplinks_taken += 1
        return self.uplinks[self._uplinks_taken % len(self.uplinks)]

    def neighbor_mac(self, port: str) -> bytes:
        """The MAC address of a sender behind *port* that is no backend: the next hop where there is one."""
        uplink = self.spec.switch.uplinks.get(port)
        if uplink is not None and (macs := router_macs(uplink.next_hop)):
            return packed_mac(macs[0])
        topology = self.reference.topology
        ports = [*self.uplinks, *self.ports, *topology.extension_ports, topology.probe_port]
        return _NEIGHBOR_MACS + (ports.index(port) + 1).to_bytes(3, "big")

    def vlan_asked(self, port: str, address: bytes = b"", mac: bytes = b"") -> int:
        """The VLAN in which neighbours at *port* ask for an address, or send to a MAC address."""
        topology = self.reference.topology
        if port not in (*self.uplinks, *self.ports):
            return 0
        to_backends = {*topology.gateways, *topology.probe_addresses, self.gateway_mac, topology.probe_mac} - {b""}
        if address in to_backends or mac in to_backends:
            return next(vlan for vlan in self.vlans.served(port) if self.vlans.has_gateways(port, vlan))
        return self.vlans.own(port)

    def similar_port(self, port: int) -> int:
        """A port that no service has and that differs from *port* in its highest bits only."""
        candidates = (port ^ bits << 12 for bits in range(1, 16))
        return next((other for other in candidates if other not in self._used_ports), self.unused_port)

    def port_of_same_low_bits(self, port: int) -> int:
        """A port that no service has and that has the low 8 bits of *port*."""
        candidates = (port ^ bits << 8 for bits in range(1, 256))
        return next((other for other in candidates if other not in self._used_ports), self.unused_port)

    def addresses_beside(self, address: bytes) -> Iterator[tuple[int, bytes]]:
        """Addresses that are no VIP's and differ from one in a single bit of its last 64 (IPv4: 16), with the bit's number.

        Every third bit: tables look at several at a time, and each of them must see its own.
        """
        vips = {own.packed for vip in self.spec.vips.values() for own in vip.addresses}
        for bit in range(0, 64 if len(address) == 16 else 16, 3):
            other = (int.from_bytes(address, "big") ^ 1 << bit).to_bytes(len(address), "big")
            if other not in vips:
                yield bit, other

    def query_headers(self, service: AddressService, uplink: str, *, scattered: bool = False) -> Headers:
        """A query of a new client for a service, by *uplink*. *scattered* is as in `Clients.next`."""
        serial, client = self.clients.next(service.version, scattered=scattered)
        client = self._admitted(service, client, serial)
        admitted = not self.reference.access.denial(service.vip, client, service.port)
        self._asked[service.key] = admitted or self._asked.get(service.key, False)
        sport = 1024 + serial * 40503 % 64512
        macs, vlan = (self.mac, self.neighbor_mac(uplink)), self.vlans.own(uplink)
        return Headers(*macs, client, service.address, sport, service.port, serial, vlan)

    @property
    def covered(self) -> str:
        """What was covered: also of how many services no slot was reached, since no client was found that may ask."""
        closed = sum(not admitted for admitted in self._asked.values())
        found = self.coverage.description
        return f"{found}, but for {counted(closed, 'service')} that no client may ask" if closed else found

    def _admitted(self, service: AddressService, client: bytes, serial: int) -> bytes:
        """A client that the service's access lists allow: this one, or one of a prefix that they allow, if there is one."""
        denial = self.reference.access.denial
        if not denial(service.vip, client, service.port):
            return client
        for one in self.reference.access.lists_of(service.vip):
            own = [entry.prefix for entry in one.access.allow or () if entry.prefix.version == service.version]
            for prefix in sorted(own, key=lambda each: each.prefixlen)[:_TRIED_PREFIXES]:
                within: int = serial * _SPREAD & ((1 << prefix.max_prefixlen - prefix.prefixlen) - 1)
                found = (int(prefix.network_address) | within).to_bytes(len(client), "big")
                if not denial(service.vip, found, service.port) and not self.clients.is_taken(found):
                    return found
        return client

    def has_many_clients(self, service: AddressService) -> bool:
        """Whether queries for a service can come from many clients: an access list may allow few."""
        if not self.reference.access.lists_of(service.vip):
            return True
        others = Clients(self.spec)
        tried = (others.next(service.version) for _ in range(_MANY))
        found = {self._admitted(service, client, serial) for serial, client in tried}
        return len(found) == _MANY

    def answer_headers(self, responder: Responder, sport: int) -> Headers:
        """An answer of a backend to a new client, by the gateway."""
        serial, client = self.clients.next(craft.version_of(responder.address))
        client = responder.mode.client_as_served(client)
        dport = 1024 + serial * 40503 % 64512
        mac = mac_of(responder.backend)
        return Headers(self.gateway_mac, mac, responder.source, client, sport, dport, serial, responder.backend.vlan)

    def ingress(self, responder: Responder) -> str:
        """The port by which answers of a backend come in."""
        return responder.backend.port or self.next_uplink()

    def vector(self, name: str, port: str, data: bytes, kind: str) -> Vector:
        """A vector of *kind*, or of kind drop where the reference wants the frame dropped."""
        passes = self.reference.expect(port, data).options
        return Vector(name, port, data, kind if passes else "drop")

    def responders(self) -> Iterator[Responder]:
        """Every backend whose answers pass the switch, once for each address of a VIP that it serves."""
        for name, vip in self.spec.vips.items():
            mode = self.reference.modes[vip.forwarding]
            for address in vip.addresses:
                reached = target_backends(self.spec.pools[vip.pool], mode, address.version)
                for backend in evenly_spaced(reached, self.per_service):
                    if mode.rewrites_answers or backend.port in self.ports:
                        yield Responder(name, vip, mode, address.packed, backend)

    def example_services(self) -> list[AddressService]:
        """The first service of each category that the spec has."""
        first: dict[tuple[object, ...], AddressService] = {}
        for service in self.reference.services.values():
            vip = self.spec.vips[service.vip]
            category = service.mode, service.selection, service.protocol, service.version, vip.fragments, vip.echo
            first.setdefault(category, service)
        return list(first.values())

    def example_responders(self) -> list[Responder]:
        """The first responder of each category that the spec has."""
        first: dict[tuple[object, ...], Responder] = {}
        for responder in self.responders():
            first.setdefault((responder.mode, responder.vip.fragments, responder.version), responder)
        return list(first.values())


def mac_of(backend: TargetBackend) -> bytes:
    """A backend's MAC address; of one whose is not known yet, one that it may have."""
    return backend.mac or _NEIGHBOR_MACS + b"\xff\xff\xff"


def answer_to(senders: Senders, headers: Headers, protocol: int, query: Vector, turn: int) -> Iterator[Vector]:
    """Yield the answer to a query, when the answers of the backend that gets it pass the switch.

    *turn* picks the backend where several may get it.
    """
    mode = senders.reference.services[headers.destination, protocol, headers.dport].mode
    if not mode.rewrites_answers and not senders.ports:
        return
    options = senders.reference.expect(query.port, query.data).options
    if not options:
        return
    frame = sorted(options, key=lambda frame: (frame.port, frame.data))[turn % len(options)]
    if mode.rewrites_answers or frame.port in senders.ports:
        back = craft.reply_headers(mode.as_served(frame.data, query.data), senders.gateway_mac, headers.serial)
        answer = craft.segment(back, protocol, craft.dns_message(headers.serial, protocol, answer=True))
        yield senders.vector(f"answer to {query.name}", frame.port, answer, "answer")
