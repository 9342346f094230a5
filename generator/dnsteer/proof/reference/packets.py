# SPDX-License-Identifier: Apache-2.0
"""What must leave the bridge for a frame that enters it, computed from the spec alone (docs/forwarding.md).

Nothing here depends on the flows. `dnsteer check` sends frames through a real switch and compares the result with this.
Each fragment is evaluated by itself: the sender must send all fragments of an IPv4 datagram, since the switch holds them
back until the datagram is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dnsteer.proof.reference import neighbors
from dnsteer.proof.reference.access import AccessReference, DeniedByHand
from dnsteer.proof.reference.clients import ClientReference
from dnsteer.proof.reference.connections import ConnectionReference, begins_connection
from dnsteer.proof.reference.errors import ErrorReference, is_of_path_mtu
from dnsteer.proof.reference.extension_packets import ExtensionReference
from dnsteer.proof.reference.modes import MODES
from dnsteer.proof.reference.modes.tunnel import without_source_port
from dnsteer.proof.reference.outcome import Expectation, Frame, expect_drop, expect_frame
from dnsteer.proof.reference.own_traffic import OwnTrafficReference
from dnsteer.proof.reference.probes import ProbeReference
from dnsteer.proof.reference.service import AddressService, ServiceKey, TargetBackend
from dnsteer.proof.reference.slots import PoolOutage
from dnsteer.proof.reference.spec_services import services_of
from dnsteer.proof.reference.topology import SwitchTopology, asked_neighbors
from dnsteer.proof.reference.wire import ARP, IPV4, IPV6, TCP, UDP, Fragment, MalformedError, Packet, parse
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.neighbors import is_followed, spec_with_macs

__all__ = ["AddressService", "Expectation", "Frame", "Reference", "TargetBackend"]


class Reference:
    """The expected result for each packet. *outages*: backends that commands took out of service, in the commands' order.

    *denials*: clients that commands deny. *macs* are the MAC addresses at which neighbours of the spec answer, as in
    `with_macs`. *connections* are those that have begun so far.
    """

    def __init__(
        self,
        spec: Spec,
        outages: Iterable[PoolOutage] = (),
        denials: Iterable[DeniedByHand] = (),
        macs: Mapping[str, str] | None = None,
        connections: ConnectionReference | None = None,
    ) -> None:
        spec = self.spec = spec_with_macs(spec, macs) if is_followed(spec) else spec
        self.topology = SwitchTopology(spec)
        self.modes = {word: mode(self.topology) for word, mode in MODES.items()}
        self.extension = ExtensionReference(spec, self.topology, self.modes)
        self.services: dict[ServiceKey, AddressService] = {}
        """The services that have at least one backend in service."""
        self.unserved: dict[ServiceKey, AddressService] = {}
        """The services that have no backend in service."""
        self.access = AccessReference(spec, denials)
        self.clients = ClientReference(spec)
        self.connections = connections or ConnectionReference()
        self.errors = ErrorReference(spec, self.topology, self.modes, self.connections)
        self.own_traffic = OwnTrafficReference(spec, self.topology)
        self.probes = ProbeReference(self.topology, self.modes.values())
        self._no_answers_from, self._no_probe_answers_from = self.topology.routers(spec.pools.values())
        first: dict[bytes, tuple[str, int]] = {}
        for port, vlan, address in asked_neighbors(spec, self.topology.vlans):
            first.setdefault(address.packed, (port, vlan))
        self.asked = {(port, address): vlan for address, (port, vlan) in first.items()}
        """The VLANs of neighbours that are asked for their MAC addresses, by the ports by which they are and the address."""
        self._answers_echo: dict[bytes, bool] = {}  # by VIP address
        for vip in spec.vips.values():
            for address in vip.addresses:
                self._answers_echo[address.packed] = self._answers_echo.get(address.packed, False) or vip.echo
        self.probes.number({name: [b.name for b in pool.backends] for name, pool in spec.pools.items()})
        for service, targets in services_of(spec, self.modes, outages):
            (self.services if service.slots else self.unserved)[service.key] = service
            service.mode.add(service, targets)
            self.probes.add(service, spec.vips[service.vip].pool, targets)
            self.extension.add(service, targets)

    def expect(self, port: str, data: bytes) -> Expectation:
        """Return what must leave when the frame *data* comes in by *port*."""
        topology = self.topology
        if port in topology.extension_ports:
            return self.extension.emitted(port, data)
        if port not in topology.uplinks and port not in topology.ports and port != topology.probe_port:
            return expect_drop("a port that the spec does not name")
        try:
            packet = parse(data)
        except MalformedError as err:
            return expect_drop(f"malformed: {err}")
        if packet.tags > 1:
            return expect_drop("two VLAN tags")
        vlan, vlans = packet.vlan, topology.vlans
        if vlan if port == topology.probe_port else not vlans.is_served(port, vlan):
            return expect_drop(f"of VLAN {vlan}, which the switch does not serve at {port}")
        if port == topology.probe_port:
            return self._asking(packet) or self._probe(packet)
        asked = self.asked.get((port, neighbors.announced(packet) or b""))
        if topology.probe_port is not None and asked == vlan:
            told = vlans.tagged(data, 0)
            return expect_frame(topology.probe_port, told, "the MAC address of a neighbour that is followed")
        if packet.ethertype == ARP:
            return self._arp(port, packet)
        if packet.ethertype not in (IPV4, IPV6):
            return expect_drop("neither ARP nor IP")
        wanted = neighbors.solicited(packet)
        return self._by_mac(port, packet) if wanted is None else self._solicitation(port, packet, wanted)

    def _by_mac(self, port: str, packet: Packet) -> Expectation:
        """What becomes of an IP packet, by its destination MAC address and its VLAN."""
        topology, data = self.topology, packet.data
        if data[0:6] == topology.mac:
            return (
                self._listed(port, packet)
                if topology.vlans.has_vips(port, packet.vlan)
                else expect_drop("query at a port that is no uplink, or in a VLAN of backends")
            )
        if not topology.vlans.has_gateways(port, packet.vlan):
            return expect_drop("for another destination MAC than the VIPs', and not in a VLAN of backends")
        if data[0:6] == topology.gateway_mac:
            return self._answer(port, packet)
        if topology.probe_port is not None and data[0:6] == topology.probe_mac:
            if data[6:12] in self._no_probe_answers_from:
                return expect_drop("to the port for probes, but from a router")
            return self.probes.answer(packet)
        return expect_drop("for another destination MAC")

    def receiver(self, sent: Frame, left: Frame) -> str | None:
        """Return the backend that gets a query that was *sent*, by the frame that *left*; None where that is not known."""
        packet = parse(sent.data)
        service = self.services.get((packet.destination, packet.protocol, packet.dport))
        if service is None or service.by_extension:
            return None
        left = self.comparable(left)
        found = (owner for owner in service.owners if left in self._forwarded(sent.port, packet, service, owner))
        return next((owner.name for owner in found), None)

    def comparable(self, left: Frame) -> Frame:
        """Return a frame that left as expectations have it: of a tunnel without the source port, which nobody predicts."""
        return without_source_port(left, self.topology)

    def _mac_of(self, address: bytes, port: str, vlan: int) -> bytes | None:
        """Return the MAC address that the switch gives neighbours at *port*, in a VLAN, for *address*."""
        topology = self.topology
        if address in topology.gateways:
            return topology.gateway_mac if topology.vlans.has_gateways(port, vlan) else None
        if address in topology.probe_addresses:
            return topology.probe_mac
        return topology.mac if address in self._answers_echo and topology.vlans.has_vips(port, vlan) else None

    def _arp(self, port: str, packet: Packet) -> Expectation:
        wanted = neighbors.arp_target(packet)
        if wanted is None:
            return expect_drop("ARP that is no request")
        mac = self._mac_of(wanted, port, packet.vlan)
        if mac is None:
            return expect_drop("ARP request for an address that the switch does not answer for at this port")
        return expect_frame(port, neighbors.arp_reply(packet, mac), "ARP reply")

    def _solicitation(self, port: str, packet: Packet, wanted: bytes) -> Expectation:
        mac = self._mac_of(wanted, port, packet.vlan)
        if mac is None:
            return expect_drop("solicitation for an address that the switch does not answer for at this port")
        replies = neighbors.advertisements(packet, mac, router=wanted in self.topology.gateways)
        return Expectation(frozenset(Frame(port, reply) for reply in replies), "neighbour advertisement")

    def _listed(self, port: str, packet: Packet) -> Expectation:
        """What becomes of a client's query, which access lists may deny, or of a router's error; probes of the agent they do
        not deny."""
        if is_of_path_mtu(packet):
            return self.errors.expect(port, packet)
        key = packet.destination, packet.protocol, packet.dport
        service = self.services.get(key)
        if service is not None and packet.fragment is Fragment.NONE:
            why = self.access.denial(service.vip, packet.source, packet.dport)
            if why:
                return expect_drop(f"query for {service.label}, denied by {why}")
        return self._query(port, packet)

    def _query(self, port: str, packet: Packet) -> Expectation:
        if neighbors.is_echo_request(packet) and self._answers_echo.get(packet.destination):
            return expect_frame(port, neighbors.echo_reply(packet, self.topology.mac), "echo reply of a VIP")
        if packet.fragment is not Fragment.NONE:
            return expect_drop("query in fragments")
        key = packet.destination, packet.protocol, packet.dport
        service = self.services.get(key)
        unserved = self.unserved.get(key)
        known = service or unserved
        keeper = self.connections.keeper(packet, known) if known is not None else None
        if known is not None and keeper is not None:
            why = f"of a connection to {known.label} that is kept by backend {keeper.name}"
            return Expectation(self._forwarded(port, packet, known, keeper), why, backend=keeper.name)
        if service is None:
            if unserved is not None:
                return expect_drop(f"query for {unserved.label}, which has no backend left")
            return expect_drop("to the VIPs' MAC, but for no service")
        if service.by_extension:
            return self.extension.query(packet, service)
        selection = service.selection
        if not selection.predicts_slot:
            options = (self._forwarded(port, packet, service, owner) for owner in service.owners)
            return Expectation(frozenset().union(*options), f"query for {service.label}, {selection.describe(service)}")
        slot = selection.slot(packet, service)
        target = service.slots[slot]
        why = f"query for {service.label}, slot {slot} of {len(service.slots)}: backend {target.name}"
        if service.keeps and not begins_connection(packet):
            why += "; a connection that began earlier stays with the backend that it began with"
        return Expectation(self._forwarded(port, packet, service, target), why, slot, target.name)

    def _asking(self, packet: Packet) -> Expectation | None:
        """A request of the kernel for the MAC address of a neighbour leaves by its port; None for other frames."""
        wanted = neighbors.arp_target(packet) if packet.ethertype == ARP else neighbors.solicited(packet)
        found = [(port, vlan) for (port, address), vlan in self.asked.items() if address == wanted]
        if not found:
            return None
        port, vlan = found[0]
        asked = self.topology.vlans.tagged(packet.data, vlan)
        return expect_frame(port, asked, "request for the MAC address of a neighbour")

    def _probe(self, packet: Packet) -> Expectation:
        """A probe goes to the backend that its source port names.

        Where it names none, or the service cannot be probed, it goes where a query of a client goes; the extension drops it
        for services that can be probed.
        """
        found = self.probes.target_of(packet)
        uplink = self.topology.probe_uplink
        if found is None:
            if packet.data[0:6] != self.topology.mac or packet.ethertype not in (IPV4, IPV6):
                return expect_drop("from the port for probes, but no probe")
            if packet.protocol not in (UDP, TCP) or packet.fragment is not Fragment.NONE:
                return expect_drop("from the port for probes, but no probe")
            service = self.services.get((packet.destination, packet.protocol, packet.dport))
            if service is not None and service.by_extension and self.probes.can_be_probed(service):
                return expect_drop("a probe of a service of the extension, whose source port names no backend")
            return self._query(uplink, packet)
        service, target = found
        if service.by_extension:
            return self.extension.probe(packet, service, target)
        why = f"probe of {service.label}: backend {target.name}"
        return Expectation(self._forwarded(uplink, packet, service, target), why, backend=target.name)

    def _forwarded(self, port: str, packet: Packet, service: AddressService, target: TargetBackend) -> frozenset[Frame]:
        """Return the frames of a query that the switch itself forwards; only at uplinks does it write its own source MAC."""
        if not target.mac:
            return frozenset()  # it has not answered yet
        leaves, vlan = service.mode.leaves(port, target)
        from_mac = self.topology.mac if leaves in self.topology.uplinks else packet.data[6:12]
        frames = service.mode.query(packet, service, target, from_mac)
        return frozenset(Frame(leaves, data) for data in self.topology.vlans.leaving(frames, vlan))

    def _answer(self, port: str, packet: Packet) -> Expectation:
        if neighbors.is_echo_request(packet):
            if packet.destination in self.topology.gateways:
                return expect_frame(
                    port, neighbors.echo_reply(packet, self.topology.gateway_mac), "echo reply of a gateway"
                )
            if not self.own_traffic.addresses:
                return expect_drop("echo request for an address that is no gateway's")
        if self.topology.vlans.is_outside(port, packet.vlan):
            return self.own_traffic.inbound(port, packet)
        if packet.data[6:12] in self._no_answers_from:
            return expect_drop("to the gateways' MAC, but from a router")
        own = self.own_traffic.sent(port, packet)
        if own is not None:
            return own
        for mode in self.modes.values():
            expectation = mode.answer(packet, port)
            if expectation is not None:
                return expectation
        return expect_drop("to the gateways' MAC, but no answer of a backend")
