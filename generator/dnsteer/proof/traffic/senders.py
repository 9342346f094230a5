"""What the senders of test frames have in common: who stands where, and whose turn it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dnsteer.proof.reference import wire
from dnsteer.proof.reference.encapsulation import PREFIX
from dnsteer.proof.reference.outcome import Frame
from dnsteer.proof.reference.packets import Reference
from dnsteer.proof.reference.services import Service, Target, endpoints, packed_mac, targets
from dnsteer.proof.traffic import craft
from dnsteer.proof.traffic.coverage import coverage, evenly
from dnsteer.proof.traffic.craft import Clients, Talk
from dnsteer.spec.model.spec import Forwarding, Spec, Vip

_NEIGHBORS = bytes.fromhex("02fcfe")


@dataclass(frozen=True)
class Vector:
    """A frame to send into a port. *kind*: query, answer, fragment, neighbor, echo, odd (forwarded), or drop.

    Those of a *spread* must not all reach the same backend.
    """

    name: str
    port: str
    data: bytes
    kind: str
    spread: str = ""


@dataclass(frozen=True)
class Post:
    """A backend whose answers for a VIP's address pass the switch, and where they come in (None: any uplink)."""

    name: str
    vip: Vip
    address: bytes
    backend: Target

    @property
    def label(self) -> str:
        """The VIP's name and address."""
        return f"{self.name} {craft.address_text(self.address)}"

    @property
    def source(self) -> bytes:
        """The address that its answers come from."""
        own = self.vip.forwarding in (Forwarding.NAT, Forwarding.SIIT)
        return self.backend.address if own else self.address

    @property
    def version(self) -> int:
        """The IP version of its answers."""
        return craft.version_of(self.source)


class Scene:
    """A spec with people in it."""

    def __init__(self, spec: Spec, reference: Reference, per_service: int | None) -> None:
        self.spec = spec
        self.reference = reference
        self.per_service = per_service
        self.coverage = coverage(spec, reference.services, per_service)
        self.clients = Clients(spec)
        self.uplinks = list(spec.switch.uplinks)
        self.ports = list(spec.switch.ports)
        self.mac = reference.mac
        self.gateway_mac = reference.gateway_mac
        self.gateways = [address.packed for address in spec.switch.gateways]
        used = {port for vip in spec.vips.values() for _, *both in endpoints(vip) for port in both}
        self._used = used
        self.unused_port = next(port for port in range(40000, 65536) if port not in used)
        self._turn = 0

    def uplink(self) -> str:
        """Return the uplink whose turn it is."""
        self._turn += 1
        return self.uplinks[self._turn % len(self.uplinks)]

    def neighbor_mac(self, port: str) -> bytes:
        """Return the MAC address of somebody who is no backend, behind *port*: the next hop where there is one."""
        uplink = self.spec.switch.uplinks.get(port)
        if uplink is not None and uplink.next_hop is not None:
            return packed_mac(uplink.next_hop)
        return _NEIGHBORS + ([*self.uplinks, *self.ports, *self.reference.beyond.ports].index(port) + 1).to_bytes(
            3, "big"
        )

    def like_port(self, port: int) -> int:
        """Return a port that no service has and that differs from *port* in its highest bits only."""
        return next(
            (other for bits in range(1, 16) if (other := port ^ bits << 12) not in self._used), self.unused_port
        )

    def asks(self, service: Service, uplink: str, sport: int | None = None) -> Talk:
        """Return a conversation of a new client with a service, by *uplink*."""
        serial, client = self.clients.take(craft.version_of(service.address))
        if sport is None:
            sport = 1024 + serial * 40503 % 64512
        from_mac = self.neighbor_mac(uplink)
        return Talk(self.mac, from_mac, client, service.address, sport, service.port, serial)

    def answers(self, post: Post, sport: int) -> Talk:
        """Return a conversation of a backend with a new client, by the gateway."""
        serial, client = self.clients.take(craft.version_of(post.address))
        if post.vip.forwarding is Forwarding.SIIT:
            client = PREFIX + client
        dport = 1024 + serial * 40503 % 64512
        return Talk(self.gateway_mac, post.backend.mac, post.source, client, sport, dport, serial)

    def ingress(self, post: Post) -> str:
        """Return the port by which answers of a backend come in."""
        return post.backend.port or self.uplink()

    def judged(self, name: str, port: str, data: bytes, kind: str) -> Vector:
        """Return a vector of *kind*, or of kind drop where the reference wants the frame dropped."""
        passes = self.reference.expect(port, data).options
        return Vector(name, port, data, kind if passes else "drop")

    def posts(self) -> Iterator[Post]:
        """Yield every backend whose answers pass the switch, once for each address of a VIP that it serves."""
        for name, vip in self.spec.vips.items():
            translated = vip.forwarding in (Forwarding.NAT, Forwarding.SIIT)
            for address in vip.addresses:
                for backend in evenly(
                    targets(self.spec.pools[vip.pool], vip.forwarding, address.version), self.per_service
                ):
                    if translated or backend.port in self.spec.switch.ports:
                        yield Post(name, vip, address.packed, backend)

    def examples(self) -> list[Service]:
        """Return the first service of each sort that the spec has."""
        first: dict[tuple[object, ...], Service] = {}
        for service in self.reference.services.values():
            vip = self.spec.vips[service.vip]
            kind = service.mode, service.selection, service.protocol
            sort = *kind, len(service.address), vip.fragments, vip.echo
            first.setdefault(sort, service)
        return list(first.values())

    def example_posts(self) -> list[Post]:
        """Return the first post of each sort that the spec has."""
        first: dict[tuple[object, ...], Post] = {}
        for post in self.posts():
            first.setdefault((post.vip.forwarding, post.vip.fragments, post.version), post)
        return list(first.values())


def port_of(post: Post, protocol: int) -> int | None:
    """Return the port that the post's answers in *protocol* come from; None when the VIP has no such service."""
    nat = post.vip.forwarding is Forwarding.NAT
    ports = [target_port if nat else port for number, port, target_port in endpoints(post.vip) if number == protocol]
    return ports[0] if ports else None


def reply(scene: Scene, talk: Talk, protocol: int, vector: Vector, turn: int) -> Iterator[Vector]:
    """Yield the answer to a query, when the answers of the backend that has it pass the switch."""
    service = scene.reference.services[talk.destination, protocol, talk.dport]
    translated = service.nat or service.mode is Forwarding.SIIT
    if not translated and not scene.ports:
        return
    options = sorted(
        scene.reference.expect(vector.port, vector.data).options, key=lambda frame: (frame.port, frame.data)
    )
    if not options:
        return
    frame = options[turn % len(options)]
    if translated or frame.port in scene.ports:
        if service.mode is Forwarding.IPIP:  # it answers what is inside
            frame = Frame(frame.port, frame.data[:6] + vector.data[6:])
        answer = craft.segment(
            craft.back(frame, scene.gateway_mac, talk.serial), protocol, craft.dns(talk.serial, protocol, answer=True)
        )
        yield scene.judged(f"answer to {vector.name}", frame.port, answer, "answer")


PROTOCOLS = {wire.UDP: "udp", wire.TCP: "tcp"}
