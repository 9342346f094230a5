"""`dsr`: the query goes to the backend's MAC address; above Ethernet nothing changes."""

from __future__ import annotations

from dnsteer.proof.reference.modes.direct_return import DirectReturn
from dnsteer.proof.reference.service import AddressService, ReachedBackend
from dnsteer.proof.reference.wire import Packet, rewritten


class DsrReference(DirectReturn):
    """Forwarded by the switch, or by the extension if that selects the slot."""

    addresses_backend = False

    def query(
        self, packet: Packet, service: AddressService, target: ReachedBackend, from_mac: bytes
    ) -> frozenset[bytes]:
        """Only the MAC addresses change."""
        return frozenset((rewritten(packet, target.mac, from_mac),))
