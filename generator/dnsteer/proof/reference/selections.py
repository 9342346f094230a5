# SPDX-License-Identifier: Apache-2.0
"""How a query's slot is chosen: one class for each selection, and SELECTIONS, which maps the spec's keywords to them.

A slot is predicted with `source-port` and `source-address`. With the others a query may reach any backend of the service,
and only several queries together can be checked: those of one hash key must reach the same backend, and not all may reach
one.
"""

from __future__ import annotations

from collections.abc import Hashable

from dnsteer.proof.reference.service import AddressService, SlotSelection
from dnsteer.proof.reference.wire import Packet
from dnsteer.spec.model import spec
from dnsteer.spec.model.spec import Pool

_PORT_FIELDS = frozenset(("src_port", "dst_port"))


class SourcePort(SlotSelection):
    """The source port's bits from bit 1 on."""

    predicts_slot = True

    def describe(self, service: AddressService) -> str:
        """By the source port."""
        return "a slot by its source port"

    def slot(self, packet: Packet, service: AddressService) -> int:
        """The slot, without the port's lowest bit: many systems prefer source ports of one parity."""
        return (packet.sport >> 1) % len(service.slots)


class SourceAddress(SlotSelection):
    """The lowest bits of the client's prefix."""

    predicts_slot = True

    def describe(self, service: AddressService) -> str:
        """By the length of the prefix."""
        return f"a slot by its client's /{service.client_prefix}"

    def client_prefix(self, pool: Pool, version: int) -> int:
        """As the pool says; otherwise a whole IPv4 address, and an IPv6 /56."""
        own = pool.client_prefix
        if version == 4:
            return own.ipv4 if own is not None else 32
        return own.ipv6 if own is not None else 56

    def slot(self, packet: Packet, service: AddressService) -> int:
        """The slot, whatever port and protocol the client uses."""
        beyond = 8 * len(packet.source) - service.client_prefix
        return (int.from_bytes(packet.source, "big") >> beyond) % len(service.slots)


class DpHash(SlotSelection):
    """The switch's own hash."""

    def describe(self, service: AddressService) -> str:
        """Another switch may choose another one."""
        return "any slot"


class ClientHash(SlotSelection):
    """The extension's hash of the fields that the pool names."""

    by_extension = True

    def describe(self, service: AddressService) -> str:
        """Names the fields that are hashed."""
        return f"a slot by its {' and '.join(service.hash_fields)}"

    def hash_fields(self, pool: Pool) -> tuple[str, ...]:
        """The pool's hash fields; by default the client's address."""
        return tuple(pool.hash_fields or ("src_ip",))

    def hash_key(self, packet: Packet, service: AddressService) -> Hashable:
        """The VIP's address and the hashed fields; UDP and TCP share a slot unless a port is hashed."""
        values = {
            "src_ip": packet.source,
            "dst_ip": packet.destination,
            "src_port": packet.sport,
            "dst_port": packet.dport,
        }
        protocol = service.protocol if hashes_ports(service.hash_fields) else None
        return (service.vip, service.address, protocol, *(values[name] for name in service.hash_fields))

    def distinguishing_fields(self, service: AddressService) -> tuple[str, ...]:
        """The hashed fields that can differ: the destination is always the service's."""
        return tuple(name for name in ("src_ip", "src_port") if name in service.hash_fields)


class Spray(SlotSelection):
    """A random slot for each packet, by the extension."""

    by_extension = True

    def describe(self, service: AddressService) -> str:
        """For each packet anew."""
        return "a slot at random"

    def distinguishing_fields(self, service: AddressService) -> tuple[str, ...]:
        """Even identical packets get independent slots."""
        return ("nothing",)


def hashes_ports(fields: tuple[str, ...]) -> bool:
    """Whether a port is among the fields that are hashed."""
    return not _PORT_FIELDS.isdisjoint(fields)


SELECTIONS: dict[spec.Selection, SlotSelection] = {
    spec.Selection.SOURCE_PORT: SourcePort(),
    spec.Selection.SOURCE_ADDRESS: SourceAddress(),
    spec.Selection.DP_HASH: DpHash(),
    spec.Selection.CLIENT: ClientHash(),
    spec.Selection.SPRAY: Spray(),
}
"""By the spec's word."""
