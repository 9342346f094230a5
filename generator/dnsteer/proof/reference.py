"""What must leave the bridge for a frame that enters it, computed from the spec alone (docs/forwarding.md).

Nothing here knows the flows. `dnsteer check` sends frames through a real switch and compares what leaves with this.
A fragment is judged by itself; that the fragments of an IPv4 datagram leave only when all of them have come in is for
the sender to heed.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

from dnsteer.plan.overlay import overlay
from dnsteer.plan.slots import assign
from dnsteer.proof import neighbors
from dnsteer.proof.wire import ARP, IPV4, IPV6, TCP, UDP, MalformedError, Packet, Piece, parse, rewritten
from dnsteer.spec import meaning
from dnsteer.spec.model import Backend, Forwarding, Pool, Protocol, Selection, Spec, State, Switch, Vip

_NUMBERS = {Protocol.UDP: UDP, Protocol.TCP: TCP}
_NAMES = {UDP: "udp", TCP: "tcp"}
_WORDS: dict[str, tuple[tuple[int, int], ...]] = {
    "dns": ((UDP, 53), (TCP, 53)),
    "dot": ((TCP, 853),),
    "doq": ((UDP, 853),),
    "doh": ((TCP, 443),),
}


@dataclass(frozen=True)
class Frame:
    """A frame that leaves by a port."""

    port: str
    data: bytes


@dataclass(frozen=True)
class Expectation:
    """What must leave: exactly one of the options, or nothing when there are none; and why."""

    options: frozenset[Frame]
    why: str
    slot: int | None = None
    backend: str | None = None


@dataclass(frozen=True)
class Target:
    """A backend as the queries of one family reach it. *port* is None where it sits behind the query's uplink."""

    name: str
    address: bytes
    mac: bytes
    port: str | None


@dataclass(frozen=True)
class Service:
    """A protocol and port of a VIP's address. *slots* names the backend of each slot."""

    vip: str
    address: bytes
    protocol: int
    port: int
    target_port: int
    nat: bool
    hashed: bool
    slots: tuple[Target, ...]
    owners: tuple[Target, ...]
    """The backends that own at least one slot, in the order of their first."""

    @property
    def label(self) -> str:
        """The service in a reader's words."""
        return f"{self.vip} {ip_address(self.address)} {_NAMES[self.protocol]}/{self.port}"


@dataclass(frozen=True)
class _Pieces:
    """What becomes of the fragments of a backend: the VIP's address, and its UDP services by target port."""

    address: bytes
    ports: dict[int, int]


class Reference:
    """The promise of a spec, packet by packet."""

    def __init__(self, spec: Spec) -> None:
        switch = spec.switch
        self.mac = packed_mac(switch.mac)
        """Where the VIPs are."""
        self.gateway_mac = gateway_mac(switch)
        """Where the virtual gateways are."""
        self.services: dict[tuple[bytes, int, int], Service] = {}
        """Every service by packed address, protocol number and port."""
        self._uplinks = frozenset(switch.uplinks)
        self._exits = {place: _exit(switch, place) for place in [*switch.uplinks, *switch.ports]}
        self._gateways = frozenset(address.packed for address in switch.gateways)
        self._echo: dict[bytes, bool] = {}  # every VIP address
        self._sources: dict[tuple[bytes, int, int], Service] = {}  # backend's address, protocol, target port
        self._pieces: dict[bytes, _Pieces] = {}  # backend's address
        self._direct: dict[bytes, set[int]] = {}  # protocols of VIPs with direct server return
        tables: dict[tuple[str, int], tuple[Target, ...]] = {}
        for name, vip in spec.vips.items():
            for address in vip.addresses:
                key = (vip.pool, address.version)
                if key not in tables:
                    tables[key] = _table(spec, spec.pools[vip.pool], address.version)
                self._add(name, vip, spec.pools[vip.pool], address.packed, tables[key])

    def _add(self, name: str, vip: Vip, pool: Pool, address: bytes, table: tuple[Target, ...]) -> None:
        self._echo[address] = self._echo.get(address, False) or vip.echo
        nat = vip.forwarding is Forwarding.NAT
        hashed = pool.selection is Selection.DP_HASH
        owners = tuple(dict.fromkeys(table))
        targets = [target(backend, len(address)) for backend in pool.backends]
        restored: dict[int, int] = {}
        for protocol, port, target_port in endpoints(vip):
            service = Service(name, address, protocol, port, target_port, nat, hashed, table, owners)
            if table:
                self.services[address, protocol, port] = service
            if not nat:
                if any(found.port is not None and found.port not in self._uplinks for found in filter(None, targets)):
                    self._direct.setdefault(address, set()).add(protocol)
                continue
            if protocol == UDP and vip.fragments == "restore":
                restored[target_port] = port
            for backend in filter(None, targets):
                known = self._sources.setdefault((backend.address, protocol, target_port), service)
                if (known.address, known.port) != (address, port):
                    raise ValueError(f"answers of {backend.name} are those of {known.label} and of {service.label}")
        for backend in filter(None, targets) if restored else ():
            pieces = self._pieces.setdefault(backend.address, _Pieces(address, {}))
            if pieces.address != address:
                raise ValueError(f"fragments of {backend.name} come from {ip_address(pieces.address)} or VIP {name}")
            pieces.ports.update(restored)

    def expect(self, port: str, data: bytes) -> Expectation:
        """Say what must leave when the frame *data* comes in by *port*."""
        if port not in self._exits:
            return _drop("a port that the spec does not name")
        try:
            packet = parse(data)
        except MalformedError as err:
            return _drop(f"malformed: {err}")
        if packet.ethertype == ARP:
            return self._arp(port, packet)
        if packet.ethertype not in (IPV4, IPV6):
            return _drop("neither ARP nor IP")
        wanted = neighbors.solicited(packet)
        if wanted is not None:
            mac = self._told(port, wanted)
            if mac is None:
                return _drop("solicitation for an address that is not told here")
            reply = neighbors.advertisement(packet, mac, router=wanted in self._gateways)
            return _sure(port, reply, "neighbour advertisement")
        to_mac = data[0:6]
        if to_mac == self.mac:
            return self._query(port, packet) if port in self._uplinks else _drop("query at a port that is no uplink")
        if to_mac == self.gateway_mac:
            return self._answer(port, packet)
        return _drop("for another destination MAC")

    def _told(self, port: str, address: bytes) -> bytes | None:
        """The MAC that *address* is said to be at, to neighbours at *port*."""
        if address in self._gateways:
            return self.gateway_mac
        return self.mac if address in self._echo and port in self._uplinks else None

    def _arp(self, port: str, packet: Packet) -> Expectation:
        wanted = neighbors.arp_target(packet)
        if wanted is None:
            return _drop("ARP that is no request")
        mac = self._told(port, wanted)
        if mac is None:
            return _drop("ARP request for an address that is not told here")
        return _sure(port, neighbors.arp_reply(packet, mac), "ARP reply")

    def _query(self, port: str, packet: Packet) -> Expectation:
        if neighbors.is_echo_request(packet) and self._echo.get(packet.destination):
            return _sure(port, neighbors.echo_reply(packet, self.mac), "echo reply of a VIP")
        if packet.piece is not Piece.WHOLE:
            return _drop("query in fragments")
        service = self.services.get((packet.destination, packet.protocol, packet.dport))
        if service is None:
            return _drop("for the balancer, but for no service of it")
        if service.hashed:
            options = frozenset(self._forwarded(port, packet, service, each) for each in service.owners)
            return Expectation(options, f"query for {service.label}, any slot")
        slot = (packet.sport >> 1) % len(service.slots)
        backend = service.slots[slot]
        why = f"query for {service.label}, slot {slot} of {len(service.slots)}: backend {backend.name}"
        return Expectation(frozenset((self._forwarded(port, packet, service, backend),)), why, slot, backend.name)

    def _forwarded(self, port: str, packet: Packet, service: Service, backend: Target) -> Frame:
        leaves = port if backend.port is None else backend.port
        from_mac = self.mac if leaves in self._uplinks else packet.data[6:12]
        destination = (backend.address, service.target_port) if service.nat else None
        return Frame(leaves, rewritten(packet, backend.mac, from_mac, destination=destination))

    def _answer(self, port: str, packet: Packet) -> Expectation:
        if neighbors.is_echo_request(packet):
            if packet.destination in self._gateways:
                return _sure(port, neighbors.echo_reply(packet, self.gateway_mac), "echo reply of a gateway")
            return _drop("echo request for an address that is no gateway's")
        source: tuple[bytes, int] | None = None
        if packet.source in self._direct:
            protocols = self._direct[packet.source]
            if packet.protocol not in protocols and not _later_ipv6(packet):
                return _drop("from a VIP, in a protocol of none of its services")
            why = "answer of a VIP's backend by direct server return"
        elif packet.piece is Piece.WHOLE:
            service = self._sources.get((packet.source, packet.protocol, packet.sport))
            if service is None:
                return _drop("for the gateway, but no answer of a backend")
            source = (service.address, service.port)
            why = f"answer for {service.label}"
        else:
            pieces = self._pieces.get(packet.source)
            if pieces is None:
                return _drop("a fragment of no backend whose fragments are restored")
            if packet.protocol != UDP and not _later_ipv6(packet):
                return _drop("a fragment of another protocol than UDP")
            source = (pieces.address, _port_of(pieces, packet.sport))
            why = f"{packet.piece.value} of an answer for {ip_address(pieces.address)}"
        leave = self._exits[port]
        if leave is None:
            return _drop(f"{why}; but no uplink has a next hop")
        uplink, next_hop = leave
        return _sure(uplink, rewritten(packet, next_hop, self.mac, source=source), why)


def _drop(why: str) -> Expectation:
    return Expectation(frozenset(), why)


def _sure(port: str, data: bytes, why: str) -> Expectation:
    return Expectation(frozenset((Frame(port, data),)), why)


def _later_ipv6(packet: Packet) -> bool:
    return packet.piece is Piece.LATER and packet.ethertype == IPV6


def _port_of(pieces: _Pieces, port: int) -> int:
    """The VIP's port for a first fragment from *port*: of several services, none has a target port of its own."""
    return next(iter(pieces.ports.values())) if len(pieces.ports) == 1 else port


def packed_mac(text: str) -> bytes:
    """Pack a MAC address."""
    return bytes.fromhex(text.replace(":", ""))


def gateway_mac(switch: Switch) -> bytes:
    """Return the packed MAC address of the virtual gateways."""
    if switch.gateway_mac is not None:
        return packed_mac(switch.gateway_mac)
    mac = packed_mac(switch.mac)
    return mac[:5] + bytes((mac[5] ^ 1,))


def endpoints(vip: Vip) -> list[tuple[int, int, int]]:
    """Return protocol number, port and target port of each of the VIP's services."""
    found: list[tuple[int, int, int]] = []
    for entry in vip.services:
        if isinstance(entry, str):
            found += ((protocol, port, port) for protocol, port in _WORDS[entry])
        else:
            found.append((_NUMBERS[entry.protocol], entry.port, entry.target_port or entry.port))
    return found


def target(backend: Backend, width: int) -> Target | None:
    """Return the backend with its address of *width* bytes; None when it has none."""
    address = backend.ipv4 if width == 4 else backend.ipv6
    if address is None:
        return None
    return Target(backend.name, address.packed, packed_mac(backend.mac), backend.port)


def _table(spec: Spec, pool: Pool, version: int) -> tuple[Target, ...]:
    """The backend of each slot for one family."""
    weights = {backend.name: backend.weight for backend in pool.backends}
    slots = meaning.slot_count(spec, pool)
    targets = {backend.name: target(backend, 4 if version == 4 else 16) for backend in pool.backends}
    here = {name: found for name, found in targets.items() if found is not None}
    if not here:
        return ()
    usable = {name: weights[name] for name in here}
    base = assign(usable, slots)
    down = [backend.name for backend in pool.backends if backend.name in here and backend.state is State.DOWN]
    takers = [name for name, weight in usable.items() if weight and name not in down]
    owners = overlay(base, usable, down) if takers else base
    return tuple(here[name] for name in owners)


def _exit(switch: Switch, place: str) -> tuple[str, bytes] | None:
    """Uplink and next hop by which answers that come in by *place* leave."""
    uplinks = switch.uplinks
    own = uplinks[place] if place in uplinks else switch.ports[place]
    candidates = [place, *uplinks] if own.answers is None else [own.answers]
    for name in candidates:
        next_hop = uplinks[name].next_hop if name in uplinks else None
        if next_hop is not None:
            return name, packed_mac(next_hop)
    return None
