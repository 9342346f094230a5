"""What must leave the bridge for a frame that enters it, computed from the spec alone (docs/forwarding.md).

Nothing here knows the flows. `dnsteer check` sends frames through a real switch and compares what leaves with this.
A fragment is judged by itself; that the fragments of an IPv4 datagram leave only when all of them have come in is for
the sender to heed.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

from dnsteer.proof.reference import neighbors
from dnsteer.proof.reference.extension import Beyond
from dnsteer.proof.reference.outcome import Expectation, Frame, dropped, sure
from dnsteer.proof.reference.services import (
    Service,
    Target,
    endpoints,
    exit_of,
    gateway_mac,
    packed_mac,
    service_of,
    table_of,
    targets,
)
from dnsteer.proof.reference.wire import ARP, IPV4, IPV6, UDP, MalformedError, Packet, Piece, parse, rewritten
from dnsteer.slots.maintenance import NO_OVERLAY, Overlay
from dnsteer.spec.model.spec import Forwarding, Pool, Spec, Vip

SMALLEST = 400
"""Bytes of an IPv4 fragment that is translated, header included; the last one of a datagram may be shorter."""
__all__ = ["SMALLEST", "Expectation", "Frame", "Reference", "Service", "Target"]


@dataclass(frozen=True)
class _Pieces:
    """What becomes of the fragments of a backend: the VIP's address, and its UDP services by target port."""

    address: bytes
    ports: dict[int, int]


class Reference:
    """The promise of a spec, and of who is out besides by the overlay, packet by packet."""

    def __init__(self, spec: Spec, overlay: Overlay = NO_OVERLAY) -> None:
        switch = spec.switch
        self.mac = packed_mac(switch.mac)
        """Where the VIPs are."""
        self.gateway_mac = gateway_mac(switch)
        """Where the virtual gateways are."""
        self.services: dict[tuple[bytes, int, int], Service] = {}
        """Every service by packed address, protocol number and port."""
        self.dark: dict[tuple[bytes, int, int], Service] = {}
        """The same for services that nobody is left for."""
        self.beyond = Beyond(spec)
        """What the extension does."""
        self._any_vlan = switch.vlans == "any"
        self._uplinks = frozenset(switch.uplinks)
        self._exits = {place: exit_of(switch, place) for place in [*switch.uplinks, *switch.ports]}
        self._gateways = frozenset(address.packed for address in switch.gateways)
        self._echo: dict[bytes, bool] = {}  # every VIP address
        self._sources: dict[tuple[bytes, int, int], Service] = {}  # backend's address, protocol, target port
        self._pieces: dict[bytes, _Pieces] = {}  # backend's address
        self._direct: dict[bytes, set[int]] = {}  # protocols of VIPs whose backends answer as the VIP
        tables: dict[tuple[str, Forwarding, int], tuple[Target, ...]] = {}
        for name, vip in spec.vips.items():
            for address in vip.addresses:
                key = (vip.pool, vip.forwarding, address.version)
                if key not in tables:
                    tables[key] = table_of(
                        spec, spec.pools[vip.pool], vip.forwarding, address.version, overlay.of(vip.pool)
                    )
                self._add(name, vip, spec.pools[vip.pool], address.packed, tables[key])

    def _add(self, name: str, vip: Vip, pool: Pool, address: bytes, table: tuple[Target, ...]) -> None:
        self._echo[address] = self._echo.get(address, False) or vip.echo
        reached = targets(pool, vip.forwarding, 4 if len(address) == 4 else 6)
        for what in endpoints(vip):
            service = service_of(name, vip, pool, address, what, table)
            (self.services if table else self.dark)[address, service.protocol, service.port] = service
            if service.nat:
                self._translate(service, reached)
            elif service.mode is Forwarding.SIIT:
                self.beyond.translates(service, reached)
            elif any(found.port is not None and found.port not in self._uplinks for found in reached):
                self._direct.setdefault(address, set()).add(service.protocol)
        restored = {target_port: port for protocol, port, target_port in endpoints(vip) if protocol == UDP}
        if vip.forwarding is not Forwarding.NAT or vip.fragments != "restore" or not restored:
            return
        for backend in reached:
            pieces = self._pieces.setdefault(backend.address, _Pieces(address, {}))
            if pieces.address != address:
                raise ValueError(f"fragments of {backend.name} come from {ip_address(pieces.address)} or VIP {name}")
            pieces.ports.update(restored)

    def _translate(self, service: Service, reached: list[Target]) -> None:
        """Take note of whom answers by NAT come from."""
        for backend in reached:
            known = self._sources.setdefault((backend.address, service.protocol, service.target_port), service)
            if (known.address, known.port) != (service.address, service.port):
                raise ValueError(f"answers of {backend.name} are those of {known.label} and of {service.label}")

    def expect(self, port: str, data: bytes) -> Expectation:
        """Say what must leave when the frame *data* comes in by *port*."""
        if port in self.beyond.ports:
            return self.beyond.given(port, data)
        if port not in self._exits:
            return dropped("a port that the spec does not name")
        try:
            packet = parse(data)
        except MalformedError as err:
            return dropped(f"malformed: {err}")
        if packet.tags > 1:
            return dropped("two VLAN tags")
        if packet.vlan and not self._any_vlan:
            return dropped(f"of VLAN {packet.vlan}, which the switch does not serve")
        if packet.ethertype == ARP:
            return self._arp(port, packet)
        if packet.ethertype not in (IPV4, IPV6):
            return dropped("neither ARP nor IP")
        wanted = neighbors.solicited(packet)
        if wanted is not None:
            mac = self._told(port, wanted)
            if mac is None:
                return dropped("solicitation for an address that is not told here")
            replies = neighbors.advertisements(packet, mac, router=wanted in self._gateways)
            return Expectation(frozenset(Frame(port, reply) for reply in replies), "neighbour advertisement")
        to_mac = data[0:6]
        if to_mac == self.mac:
            return self._query(port, packet) if port in self._uplinks else dropped("query at a port that is no uplink")
        if to_mac == self.gateway_mac:
            return self._answer(port, packet)
        return dropped("for another destination MAC")

    def _told(self, port: str, address: bytes) -> bytes | None:
        """The MAC that *address* is said to be at, to neighbours at *port*."""
        if address in self._gateways:
            return self.gateway_mac
        return self.mac if address in self._echo and port in self._uplinks else None

    def _arp(self, port: str, packet: Packet) -> Expectation:
        wanted = neighbors.arp_target(packet)
        if wanted is None:
            return dropped("ARP that is no request")
        mac = self._told(port, wanted)
        if mac is None:
            return dropped("ARP request for an address that is not told here")
        return sure(port, neighbors.arp_reply(packet, mac), "ARP reply")

    def _query(self, port: str, packet: Packet) -> Expectation:
        if neighbors.is_echo_request(packet) and self._echo.get(packet.destination):
            return sure(port, neighbors.echo_reply(packet, self.mac), "echo reply of a VIP")
        if packet.piece is not Piece.WHOLE:
            return dropped("query in fragments")
        key = packet.destination, packet.protocol, packet.dport
        service = self.services.get(key)
        if service is None:
            dark = self.dark.get(key)
            if dark is not None:
                return dropped(f"query for {dark.label}, which nobody is left for")
            return dropped("for the balancer, but for no service of it")
        if service.extended:
            return self.beyond.query(packet, service)
        if service.hashed:
            options = (self._forwarded(port, packet, service, each) for each in service.owners)
            return Expectation(frozenset().union(*options), f"query for {service.label}, any slot")
        slot = (packet.sport >> 1) % len(service.slots)
        backend = service.slots[slot]
        why = f"query for {service.label}, slot {slot} of {len(service.slots)}: backend {backend.name}"
        return Expectation(self._forwarded(port, packet, service, backend), why, slot, backend.name)

    def _forwarded(self, port: str, packet: Packet, service: Service, backend: Target) -> frozenset[Frame]:
        leaves = port if backend.port is None else backend.port
        from_mac = self.mac if leaves in self._uplinks else packet.data[6:12]
        destination = (backend.address, service.target_port) if service.nat else None
        macs = backend.mac, from_mac
        return frozenset(
            Frame(leaves, rewritten(packet, *macs, destination=destination, stale=stale)) for stale in _stale(packet)
        )

    def _answer(self, port: str, packet: Packet) -> Expectation:
        if neighbors.is_echo_request(packet):
            if packet.destination in self._gateways:
                return sure(port, neighbors.echo_reply(packet, self.gateway_mac), "echo reply of a gateway")
            return dropped("echo request for an address that is no gateway's")
        translated = self.beyond.answer(packet)
        if translated is not None:
            return translated
        source: tuple[bytes, int] | None = None
        if packet.source in self._direct:
            protocols = self._direct[packet.source]
            if packet.protocol not in protocols and not _later_ipv6(packet):
                return dropped("from a VIP, in a protocol of none of its services")
            why = "answer of a VIP's backend by direct server return"
        elif packet.piece is Piece.WHOLE:
            service = self._sources.get((packet.source, packet.protocol, packet.sport))
            if service is None:
                return dropped("for the gateway, but no answer of a backend")
            source = (service.address, service.port)
            why = f"answer for {service.label}"
        else:
            pieces = self._pieces.get(packet.source)
            if pieces is None:
                return dropped("a fragment of no backend whose fragments are restored")
            if packet.protocol != UDP and not _later_ipv6(packet):
                return dropped("a fragment of another protocol than UDP")
            if packet.ethertype == IPV4 and packet.more and packet.end - packet.l3 < SMALLEST:
                return dropped(f"an IPv4 fragment of fewer than {SMALLEST} bytes, and not the last one")
            source = (pieces.address, _port_of(pieces, packet.sport))
            why = f"{packet.piece.value} of an answer for {ip_address(pieces.address)}"
        leave = self._exits[port]
        if leave is None:
            return dropped(f"{why}; but no uplink has a next hop")
        uplink, next_hop = leave
        macs = next_hop, self.mac
        return Expectation(
            frozenset(Frame(uplink, rewritten(packet, *macs, source=source, stale=stale)) for stale in _stale(packet)),
            why,
        )


def _stale(packet: Packet) -> tuple[bool, ...]:
    """Whether the transport checksum may be left as it was for the old addresses: docs/forwarding.md, atomic fragments."""
    return (False, True) if packet.atomic else (False,)


def _later_ipv6(packet: Packet) -> bool:
    return packet.piece is Piece.LATER and packet.ethertype == IPV6


def _port_of(pieces: _Pieces, port: int) -> int:
    """The VIP's port for a first fragment from *port*: of several services, none has a target port of its own."""
    return next(iter(pieces.ports.values())) if len(pieces.ports) == 1 else port
