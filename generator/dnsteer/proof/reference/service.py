# SPDX-License-Identifier: Apache-2.0
"""A service of a VIP, the backends that its queries reach, and the interfaces of its selection and its forwarding mode."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import ClassVar

from dnsteer.proof.reference.outcome import Expectation, Frame, expect_drop
from dnsteer.proof.reference.topology import SwitchTopology
from dnsteer.proof.reference.wire import TCP, UDP, Packet, checksum_variants, rewritten
from dnsteer.spec.model.spec import Backend, Pool

PROTOCOLS = {UDP: "udp", TCP: "tcp"}
"""Names of the transport protocols, by IP protocol number."""

ServiceKey = tuple[bytes, int, int]
"""Packed address, IP protocol number and port."""


@dataclass(frozen=True)
class TargetBackend:
    """A backend as queries to a VIP address reach it. *port* is None if it is behind the uplink that the query came by.

    *worker* is its number among the workers of its host, 0 if it is the only one; *vlan* that of its network, 0 for none.
    """

    name: str
    address: bytes
    mac: bytes
    port: str | None
    worker: int = 0
    vlan: int = 0


@dataclass(frozen=True)
class AddressService:
    """A protocol and port of a VIP's address."""

    vip: str
    address: bytes
    protocol: int
    port: int
    target_port: int
    mode: ModeReference
    selection: SlotSelection
    hash_fields: tuple[str, ...]
    """The fields that selection `client` hashes; empty for other selections."""
    client_prefix: int
    """Length of the prefix of clients by which selection `source-address` chooses; 0 for other selections."""
    restores_fragments: bool
    """Whether fragments of answers get the VIP's address as their source."""
    slots: tuple[TargetBackend, ...]
    """The backend of each slot; empty when no backend is in service."""
    base_slots: tuple[str, ...]
    """The name of each slot's backend when all backends are in service."""
    owners: tuple[TargetBackend, ...]
    """The backends that own at least one slot, in the order of their first slot."""
    keeps: bool = False
    """Whether its connections stay with the backend that they began with."""
    keepers: tuple[TargetBackend, ...] = ()
    """The backends that keep their connections; empty where nothing is kept."""

    @property
    def key(self) -> ServiceKey:
        """The address, protocol and port that a query for this service must have."""
        return self.address, self.protocol, self.port

    @property
    def version(self) -> int:
        return 4 if len(self.address) == 4 else 6

    @cached_property
    def label(self) -> str:
        return f"{self.vip} {ip_address(self.address)} {PROTOCOLS[self.protocol]}/{self.port}"

    @property
    def by_extension(self) -> bool:
        return self.mode.by_extension or self.selection.by_extension


class SlotSelection(ABC):
    """One way to choose a query's slot."""

    by_extension: ClassVar[bool] = False
    """Whether the extension chooses, so that the service's packets go through it."""
    predicts_slot: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """Refuse a selection that says that it predicts the slot and does not, or the other way round. Raises TypeError."""
        if cls.predicts_slot != (cls.slot is not SlotSelection.slot):
            raise TypeError(
                f"{cls.__name__}: predicts_slot is {cls.predicts_slot}; expected slot() exactly where it is True"
            )

    @abstractmethod
    def describe(self, service: AddressService) -> str:
        """How the slot is chosen, for the end of "query for SERVICE, ..."."""

    def hash_fields(self, pool: Pool) -> tuple[str, ...]:
        """The packet fields that are hashed for the pool's slots; empty if none are."""
        return ()

    def client_prefix(self, pool: Pool, version: int) -> int:
        """The length of the prefix of clients whose lowest bits are the slot; 0 where addresses choose none."""
        return 0

    def slot(self, packet: Packet, service: AddressService) -> int:
        """The query's slot, one of those of *service*. Asked only where it is predicted: such a selection has its own."""
        raise NotImplementedError

    def hash_key(self, packet: Packet, service: AddressService) -> Hashable | None:
        """What the slot depends on: queries with equal keys reach the same backend. None: the key is unknown."""
        return None

    def distinguishing_fields(self, service: AddressService) -> tuple[str, ...]:
        """Fields of which any one that differs gives queries independent slots; "nothing": slots are always independent."""
        return ()


class ModeReference(ABC):
    """One forwarding mode: how it forwards the queries and answers of the services that use it.

    The rest of `proof` uses nothing else of a mode. An object belongs to one Reference, which registers those services with
    `add`.
    """

    by_extension: ClassVar[bool] = False
    """Whether the extension forwards the queries, whatever selects their slots."""
    rewrites_answers: ClassVar[bool] = False
    """Whether backends answer from their own addresses, so that all answers return by the gateways to get the VIP's address.

    If not, backends answer from the VIP's address, and only answers of backends on ports of the switch pass the switch.
    """
    keeps_connections: ClassVar[bool] = False
    """Whether TCP connections stay with the backend that they began with, whatever the VIP says."""
    addresses_backend: ClassVar[bool] = True
    """Whether queries are sent to the backend's IP address, and not only to its MAC address."""
    extension_pipes: ClassVar[tuple[str, ...]] = ()
    """Pipes of the extension's program that a query passes between the pipe of its slot and the last one."""

    def __init__(self, topology: SwitchTopology) -> None:
        self.topology = topology

    @abstractmethod
    def add(self, service: AddressService, targets: Sequence[TargetBackend]) -> None:
        """Register a service and all backends that its queries can reach.

        Raises ValueError when an answer of one of them could also belong to another service.
        """

    def leaves(self, ingress: str, target: TargetBackend) -> tuple[str, int]:
        """The port by which a query for *target* leaves that came in by *ingress*, and the VLAN that it has then."""
        return ingress if target.port is None else target.port, target.vlan

    def backend_address(self, backend: Backend, version: int) -> IPv4Address | IPv6Address | None:
        """The address by which queries of an IP version reach a backend; None when they cannot."""
        return backend.ipv4 if version == 4 else backend.ipv6

    def why_refused(self, packet: Packet) -> str:
        """Why the extension drops a packet with valid headers in this mode; empty when it does not."""
        return ""

    @abstractmethod
    def query(
        self, packet: Packet, service: AddressService, target: TargetBackend, from_mac: bytes
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
            return expect_drop(f"{why}; but no uplink has a next hop")
        next_hop = leave.to(packet.ethertype)
        if not next_hop:
            return expect_drop(f"{why}; but the MAC address of its next hop is not known")
        frames = (
            rewritten(packet, next_hop, self.topology.mac, source=source, stale_checksum=stale)
            for stale in checksum_variants(packet)
        )
        vlans = self.topology.vlans
        left = vlans.leaving(frames, vlans.own(leave.uplink))
        return Expectation(frozenset(Frame(leave.uplink, data) for data in left), why)
