"""What the reference must know of a forwarding mode: this is all that the rest of `proof` asks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import ClassVar

from dnsteer.proof.reference.outcome import Expectation, Frame, dropped
from dnsteer.proof.reference.service import Service, Target
from dnsteer.proof.reference.topology import Topology
from dnsteer.proof.reference.wire import Packet, checksum_variants, rewritten
from dnsteer.spec.model.spec import Backend


class Mode(ABC):
    """One forwarding mode: what becomes of the queries and of the answers of the services that use it.

    An object belongs to one Reference, which tells it those services by `add`.
    """

    by_extension: ClassVar[bool] = False
    """Queries are forwarded by the extension, whatever selects their slots."""
    rewrites_answers: ClassVar[bool] = False
    """Backends answer from addresses of their own, and all answers come back by the gateways to get the VIP's.

    Otherwise they answer as the VIP, and only answers of backends on ports of the switch pass it.
    """
    addresses_backend: ClassVar[bool] = True
    """Queries leave for the backend's IP address, and not only for its MAC address."""
    extension_pipes: ClassVar[tuple[str, ...]] = ()
    """Pipes of the extension's program that a query passes between the pipe of its slot and the last one."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology

    @abstractmethod
    def add(self, service: Service, targets: Sequence[Target]) -> None:
        """Learn of a service and of all backends that its queries can reach.

        Raises ValueError when an answer of one of them could be for another service too.
        """

    def backend_address(self, backend: Backend, version: int) -> IPv4Address | IPv6Address | None:
        """The address by which queries of an IP version reach a backend; None when they cannot."""
        return backend.ipv4 if version == 4 else backend.ipv6

    def why_refused(self, packet: Packet) -> str:
        """Why the extension does not take a packet in this mode, whose headers are sound; empty when it does."""
        return ""

    @abstractmethod
    def query(self, packet: Packet, service: Service, target: Target, from_mac: bytes) -> frozenset[bytes]:
        """The frames, any one of which may leave for a backend when a query came in."""

    @abstractmethod
    def answer(self, packet: Packet, ingress: str) -> Expectation | None:
        """What must leave for a packet to the gateways' MAC address; None when it is no answer in this mode."""

    def as_served(self, delivered: bytes, query: bytes) -> bytes:
        """The query as the server of a backend sees it, by the frame that came in and the one that was delivered."""
        return delivered

    def client_as_served(self, client: bytes) -> bytes:
        """The address that servers know a client by."""
        return client

    def _answer_leaves(self, packet: Packet, ingress: str, why: str, source: tuple[bytes, int] | None) -> Expectation:
        """The answer leaves for a client, from *source* where that is given."""
        leave = self.topology.exit_of(ingress)
        if leave is None:
            return dropped(f"{why}; but no uplink has a next hop")
        frames = (
            rewritten(packet, leave.next_hop, self.topology.mac, source=source, stale_checksum=stale)
            for stale in checksum_variants(packet)
        )
        return Expectation(frozenset(Frame(leave.uplink, data) for data in frames), why)
