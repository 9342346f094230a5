"""The interface of a forwarding mode in the reference: the rest of `proof` uses nothing else of a mode."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import ClassVar

from dnsteer.proof.reference.outcome import Expectation, Frame, dropped
from dnsteer.proof.reference.service import AddressService, ReachedBackend
from dnsteer.proof.reference.topology import SwitchTopology
from dnsteer.proof.reference.wire import Packet, checksum_variants, rewritten
from dnsteer.spec.model.spec import Backend


class ModeReference(ABC):
    """One forwarding mode: how it forwards the queries and answers of the services that use it.

    An object belongs to one Reference, which registers those services with `add`.
    """

    by_extension: ClassVar[bool] = False
    """Whether the extension forwards the queries, whatever selects their slots."""
    rewrites_answers: ClassVar[bool] = False
    """Whether backends answer from their own addresses, so that all answers return by the gateways to get the VIP's address.

    If not, backends answer from the VIP's address, and only answers of backends on ports of the switch pass the switch.
    """
    addresses_backend: ClassVar[bool] = True
    """Whether queries are sent to the backend's IP address, and not only to its MAC address."""
    extension_pipes: ClassVar[tuple[str, ...]] = ()
    """Pipes of the extension's program that a query passes between the pipe of its slot and the last one."""

    def __init__(self, topology: SwitchTopology) -> None:
        self.topology = topology

    @abstractmethod
    def add(self, service: AddressService, targets: Sequence[ReachedBackend]) -> None:
        """Register a service and all backends that its queries can reach.

        Raises ValueError when an answer of one of them could also belong to another service.
        """

    def backend_address(self, backend: Backend, version: int) -> IPv4Address | IPv6Address | None:
        """The address by which queries of an IP version reach a backend; None when they cannot."""
        return backend.ipv4 if version == 4 else backend.ipv6

    def why_refused(self, packet: Packet) -> str:
        """Why the extension drops a packet with valid headers in this mode; empty when it does not."""
        return ""

    @abstractmethod
    def query(
        self, packet: Packet, service: AddressService, target: ReachedBackend, from_mac: bytes
    ) -> frozenset[bytes]:
        """The frames of which any one may leave for the backend *target* when a query comes in."""

    @abstractmethod
    def answer(self, packet: Packet, ingress: str) -> Expectation | None:
        """What must leave for a packet to the gateways' MAC address; None when it is no answer in this mode."""

    def service_of_answer(self, packet: Packet) -> AddressService | None:
        """The service that a packet is an answer of, by the backend's address; None where backends answer as the VIP."""
        return None

    def as_served(self, delivered: bytes, query: bytes) -> bytes:
        """The query as the backend's name server sees it, from the incoming frame *query* and the *delivered* one."""
        return delivered

    def client_as_served(self, client: bytes) -> bytes:
        """The client's address as name servers see it."""
        return client

    def _answer_leaves(self, packet: Packet, ingress: str, why: str, source: tuple[bytes, int] | None) -> Expectation:
        """Expect the answer to leave for the client, with *source* as its address and port if given."""
        leave = self.topology.exit_of(ingress)
        if leave is None:
            return dropped(f"{why}; but no uplink has a next hop")
        frames = (
            rewritten(packet, leave.next_hop, self.topology.mac, source=source, stale_checksum=stale)
            for stale in checksum_variants(packet)
        )
        return Expectation(frozenset(Frame(leave.uplink, data) for data in frames), why)
