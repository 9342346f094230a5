"""What the extension makes of a packet, from the spec alone (docs/forwarding.md, section 5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address

from dnsteer.proof.reference.encapsulation import PREFIX, to_ipv4, to_ipv6, tunneled, unfit, untranslatable
from dnsteer.proof.reference.outcome import Expectation, Frame, dropped, sure
from dnsteer.proof.reference.services import Service, Target, extended, first_exit, packed_mac
from dnsteer.proof.reference.wire import Packet, Piece, rewritten
from dnsteer.spec.model.spec import Forwarding, Selection, Spec

_PORTS = ("src_port", "dst_port")


@dataclass
class Beyond:
    """The extension's part of the reference."""

    spec: Spec
    _translated: dict[tuple[bytes, int, int], Service | None] = field(default_factory=dict)
    """By what answers come from: the backend's address, protocol and port. None: from a backend that nobody is sent to."""

    def __post_init__(self) -> None:
        switch = self.spec.switch
        part = switch.extension
        self._mac = packed_mac(switch.mac)
        self._uplink = next(iter(switch.uplinks))
        self._sources = [a.packed for a in (part.ipv4, part.ipv6) if a is not None] if part is not None else []
        self._exit = first_exit(switch)
        self.ingress = part.ingress.port if part is not None else None
        self.egress = part.egress.port if part is not None else None
        self._places: dict[bytes, str] = {}
        for vip in self.spec.vips.values():
            pool = self.spec.pools[vip.pool]
            for backend in pool.backends if extended(vip.forwarding, pool.selection) else ():
                self._places[packed_mac(backend.mac)] = backend.port or self._uplink

    @property
    def ports(self) -> tuple[str, ...]:
        """The extension's ports of the bridge."""
        return (self.ingress, self.egress) if self.ingress is not None and self.egress is not None else ()

    def translates(self, service: Service, reached: list[Target]) -> None:
        """Take note of a service whose answers are translated, and of the backends that it could be sent to."""
        for backend in reached:
            key = backend.address, service.protocol, service.port
            known = self._translated.setdefault(key, None)
            if backend not in service.owners:
                continue
            if known is not None and known.address != service.address:
                raise ValueError(f"answers of {backend.name} are those of {known.label} and of {service.label}")
            self._translated[key] = service

    def query(self, packet: Packet, service: Service) -> Expectation:
        """Say what must leave for a query that the switch hands to the extension."""
        problem = unfit(packet) or (untranslatable(packet) if service.mode is Forwarding.SIIT else "")
        if problem:
            return dropped(f"query for {service.label}, which the extension does not take: {problem}")
        if service.selection is Selection.SOURCE_PORT:
            slot = (packet.sport >> 1) % len(service.slots)
            backend = service.slots[slot]
            why = f"query for {service.label}, slot {slot} of {len(service.slots)}: backend {backend.name}, by the extension"
            return Expectation(frozenset((self._delivered(packet, service, backend),)), why, slot, backend.name)
        takers = tuple((self._delivered(packet, service, each), each.name) for each in service.owners)
        bond = _bond(packet, service) if service.selection is Selection.CLIENT else None
        how = f"by its {' and '.join(service.hash_fields)}" if service.selection is Selection.CLIENT else "at random"
        why = f"query for {service.label}, a slot {how}, by the extension"
        return Expectation(frozenset(frame for frame, _ in takers), why, bond=bond, takers=takers)

    def _delivered(self, packet: Packet, service: Service, backend: Target) -> Frame:
        if service.mode is Forwarding.IPIP:
            source = next(own for own in self._sources if len(own) == len(backend.address))
            data = tunneled(packet, backend.mac, self._mac, source, backend.address)
        elif service.mode is Forwarding.SIIT:
            data = to_ipv6(packet, backend.mac, self._mac, backend.address)
        else:
            data = rewritten(packet, backend.mac, self._mac)
        return Frame(backend.port or self._uplink, data)

    def answer(self, packet: Packet) -> Expectation | None:
        """Say what must leave for a packet to the gateways' MAC; None where the extension has nothing to do with it."""
        if packet.destination[: len(PREFIX)] != PREFIX or len(packet.destination) != 16:
            return None
        if packet.piece is not Piece.WHOLE:
            known = any(address == packet.source for address, _, _ in self._translated)
            return dropped("a fragment of an answer to translate") if known else None
        key = packet.source, packet.protocol, packet.sport
        if key not in self._translated:
            return None
        service = self._translated[key]
        if service is None:
            return dropped("an answer to translate, of a backend that no slot names")
        why = f"answer for {service.label}"
        problem = unfit(packet) or untranslatable(packet)
        if problem or self._exit is None:
            return dropped(f"{why}, which the extension does not take: {problem or 'no uplink has a next hop'}")
        uplink, next_hop = self._exit
        client = ip_address(packet.destination[len(PREFIX) :])
        data = to_ipv4(packet, next_hop, self._mac, service.address)
        return sure(uplink, data, f"{why} to {client}, translated by the extension")

    def given(self, port: str, data: bytes) -> Expectation:
        """Say what must leave for a frame from one of the extension's ports, whether the extension has sent it or not."""
        if port == self.ingress:
            if not self._translated or self._exit is None:
                return dropped("from the extension, which has no answers to give back")
            return sure(self._exit[0], data, "an answer from the extension")
        places = set(self._places.values())
        place = places.pop() if len(places) == 1 else self._places.get(data[:6])
        if place is None:
            return dropped("from the extension, for no backend")
        return sure(place, data, "a query from the extension")


def _bond(packet: Packet, service: Service) -> tuple[object, ...]:
    """What the slot depends on: queries that have it in common get the same one, over UDP and TCP where no port counts."""
    values = {
        "src_ip": packet.source, "dst_ip": packet.destination, "src_port": packet.sport, "dst_port": packet.dport,
    }  # fmt: skip
    ported = any(name in service.hash_fields for name in _PORTS)
    own = service.protocol if ported else None
    return (service.vip, service.address, own, *(values[name] for name in service.hash_fields))
