# SPDX-License-Identifier: Apache-2.0
"""`ipip`: the query goes to the backend in an IP-in-IP tunnel (docs/forwarding.md, section 5)."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address

from dnsteer.proof.reference.modes.dsr import DirectReturn
from dnsteer.proof.reference.service import AddressService, TargetBackend
from dnsteer.proof.reference.wire import DONT_FRAGMENT, IPV4, IPV6, Packet, ipv4_header, ipv6_header
from dnsteer.spec.model.spec import Backend

_PAYLOAD_PROTOCOL = {IPV4: 4, IPV6: 41}
"""IP protocol number of an IP packet inside another, by the inner Ethernet type."""


class IpipReference(DirectReturn):
    """IPv4 and IPv6 tunnels, each carrying packets of both families; name servers answer the inner packets."""

    by_extension = True

    def backend_address(self, backend: Backend, version: int) -> IPv4Address | IPv6Address | None:
        """A tunnel ends at the address of the query's family, or else at the other one."""
        own, other = (backend.ipv4, backend.ipv6) if version == 4 else (backend.ipv6, backend.ipv4)
        return own or other

    def query(
        self, packet: Packet, service: AddressService, target: TargetBackend, from_mac: bytes
    ) -> frozenset[bytes]:
        """Encapsulate everything after the Ethernet header, including padding; VLAN tags are lost."""
        payload = packet.data[packet.l3 :]
        protocol = _PAYLOAD_PROTOCOL[packet.ethertype]
        source = next(own for own in self.topology.tunnel_sources if len(own) == len(target.address))
        if len(target.address) == 4:
            ethertype = IPV4
            header = ipv4_header(0, len(payload), protocol, source, target.address, DONT_FRAGMENT)
        else:
            ethertype = IPV6
            header = ipv6_header(0, len(payload), protocol, source, target.address)
        return frozenset((target.mac + from_mac + struct.pack("!H", ethertype) + header + payload,))

    def as_served(self, delivered: bytes, query: bytes) -> bytes:
        """Return the inner packet, with the destination MAC address of the outer frame."""
        return delivered[:6] + query[6:]
