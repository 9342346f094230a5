# SPDX-License-Identifier: Apache-2.0
"""`dsr`: the query goes to the backend's MAC address, and nothing changes above Ethernet; the backend answers the client."""

from __future__ import annotations

from collections.abc import Sequence

from dnsteer.proof.reference.outcome import Expectation
from dnsteer.proof.reference.service import AddressService, ModeReference, TargetBackend
from dnsteer.proof.reference.topology import SwitchTopology
from dnsteer.proof.reference.wire import Packet, is_later_ipv6_fragment, rewritten


class DirectReturn(ModeReference):
    """Handles the answers in modes whose backends own the VIP's address."""

    def __init__(self, topology: SwitchTopology) -> None:
        super().__init__(topology)
        self._protocols: dict[bytes, set[int]] = {}
        """VIP address -> protocols, for backends on ports of the switch, whose answers pass the switch."""

    def add(self, service: AddressService, targets: Sequence[TargetBackend]) -> None:
        """Record the source address and protocol of answers from backends on ports of the switch."""
        if any(target.port is not None and target.port not in self.topology.uplinks for target in targets):
            self._protocols.setdefault(service.address, set()).add(service.protocol)

    def answer(self, packet: Packet, ingress: str) -> Expectation | None:
        """Expect an answer of a backend on a port of the switch with only its MAC addresses changed."""
        protocols = self._protocols.get(packet.source)
        if protocols is None or (packet.protocol not in protocols and not is_later_ipv6_fragment(packet)):
            return None
        return self._answer_leaves(packet, ingress, "answer of a VIP's backend by direct server return", None)


class DsrReference(DirectReturn):
    """Forwarded by the switch, or by the extension if that selects the slot."""

    addresses_backend = False

    def query(
        self, packet: Packet, service: AddressService, target: TargetBackend, from_mac: bytes
    ) -> frozenset[bytes]:
        """Only the MAC addresses change."""
        return frozenset((rewritten(packet, target.mac, from_mac),))
