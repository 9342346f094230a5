"""A service of a VIP and the backends that its queries reach."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from typing import TYPE_CHECKING

from dnsteer.proof.reference.wire import TCP, UDP

if TYPE_CHECKING:
    from dnsteer.proof.reference.modes.base import ModeReference
    from dnsteer.proof.reference.selections import SlotSelection

PROTOCOLS = {UDP: "udp", TCP: "tcp"}
"""Names of the transport protocols, by IP protocol number."""

ServiceKey = tuple[bytes, int, int]
"""Packed address, IP protocol number and port."""


@dataclass(frozen=True)
class ReachedBackend:
    """A backend as queries to a VIP address reach it. *port* is None if it is behind the uplink that the query came by.

    *worker* is its number among the workers of its host, 0 if it is the only one.
    """

    name: str
    address: bytes
    mac: bytes
    port: str | None
    worker: int = 0


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
    restores_fragments: bool
    """Whether fragments of answers get the VIP's address as their source."""
    slots: tuple[ReachedBackend, ...]
    """The backend of each slot; empty when no backend is in service."""
    base_slots: tuple[str, ...]
    """The name of each slot's backend when all backends are in service."""
    owners: tuple[ReachedBackend, ...]
    """The backends that own at least one slot, in the order of their first slot."""

    @property
    def key(self) -> ServiceKey:
        """The address, protocol and port that a query for this service must have."""
        return self.address, self.protocol, self.port

    @property
    def version(self) -> int:
        """The IP version of its queries."""
        return 4 if len(self.address) == 4 else 6

    @cached_property
    def label(self) -> str:
        """The service's name in messages."""
        return f"{self.vip} {ip_address(self.address)} {PROTOCOLS[self.protocol]}/{self.port}"

    @property
    def by_extension(self) -> bool:
        """Whether its queries go through the extension."""
        return self.mode.by_extension or self.selection.by_extension
