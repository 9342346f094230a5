# SPDX-License-Identifier: Apache-2.0
"""`nat`: queries get the backend's address and port, answers those of the VIP, both statelessly.

Fragments of UDP answers get the VIP's address if the VIP is so configured (docs/forwarding.md, section 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from dnsteer.proof.reference.outcome import Expectation, expect_drop
from dnsteer.proof.reference.service import AddressService, ModeReference, TargetBackend
from dnsteer.proof.reference.topology import SwitchTopology
from dnsteer.proof.reference.wire import (
    IPV4,
    UDP,
    Fragment,
    Packet,
    checksum_variants,
    is_later_ipv6_fragment,
    rewritten,
)

SMALLEST_FRAGMENT = 400
"""Minimum bytes of an IPv4 fragment that is translated, header included; the last of a datagram may be shorter."""


@dataclass(frozen=True)
class _FragmentSource:
    """The source that fragments of a backend's answers get: the VIP's address, and its UDP ports by the backend's."""

    address: bytes
    ports: dict[int, int]

    def port(self, own_port: int) -> int:
        """The port of a first fragment; where the VIP has several UDP services, the backend's ports are their ports."""
        ports = set(self.ports.values())
        return next(iter(ports)) if len(ports) == 1 else own_port


class NatReference(ModeReference):
    """Address translation by the switch."""

    rewrites_answers = True

    def __init__(self, topology: SwitchTopology) -> None:
        super().__init__(topology)
        self._services: dict[tuple[bytes, int, int], AddressService] = {}
        """Keyed by a backend's address, protocol and own port."""
        self._fragments: dict[bytes, _FragmentSource] = {}
        """Keyed by a backend's address."""

    def add(self, service: AddressService, targets: Sequence[TargetBackend]) -> None:
        """Record which service the answers and fragments of each backend belong to."""
        for target in targets:
            own_port = service.target_port + target.worker
            known = self._services.setdefault((target.address, service.protocol, own_port), service)
            if (known.address, known.port) != (service.address, service.port):
                raise ValueError(f"answers of {target.name} may be for {known.label} or for {service.label}")
            if service.protocol != UDP or not service.restores_fragments:
                continue
            fragments = self._fragments.setdefault(target.address, _FragmentSource(service.address, {}))
            if fragments.address != service.address:
                other = ip_address(fragments.address)
                raise ValueError(f"fragments of {target.name} may be for {other} or for {service.label}")
            fragments.ports[own_port] = service.port

    def query(
        self, packet: Packet, service: AddressService, target: TargetBackend, from_mac: bytes
    ) -> frozenset[bytes]:
        """Return the frame with the backend's address and port as its destination: of worker I, the target port plus I."""
        destination = target.address, service.target_port + target.worker
        return frozenset(
            rewritten(packet, target.mac, from_mac, destination=destination, stale_checksum=stale)
            for stale in checksum_variants(packet, of_destination=True)
        )

    def service_of_answer(self, packet: Packet) -> AddressService | None:
        """The service of the backend's address, protocol and port."""
        return self._services.get((packet.source, packet.protocol, packet.sport))

    def answer(self, packet: Packet, ingress: str) -> Expectation | None:
        """Expect the answer with the VIP's address and port as its source; a fragment gets those of the UDP services."""
        if packet.fragment is Fragment.NONE:
            service = self.service_of_answer(packet)
            if service is None:
                return None
            source = service.address, service.port
            return self._answer_leaves(packet, ingress, f"answer for {service.label}", source)
        fragments = self._fragments.get(packet.source)
        if fragments is None:
            return None
        if packet.protocol != UDP and not is_later_ipv6_fragment(packet):
            return expect_drop("a fragment of another protocol than UDP")
        if packet.ethertype == IPV4 and packet.more and packet.end - packet.l3 < SMALLEST_FRAGMENT:
            return expect_drop(f"an IPv4 fragment of fewer than {SMALLEST_FRAGMENT} bytes, and not the last one")
        why = f"{packet.fragment.value} of an answer for {ip_address(fragments.address)}"
        return self._answer_leaves(packet, ingress, why, (fragments.address, fragments.port(packet.sport)))
