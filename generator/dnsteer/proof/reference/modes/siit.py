# SPDX-License-Identifier: Apache-2.0
"""`siit`: IPv4 queries are translated to IPv6 for backends without IPv4, and their answers back (RFC 7915).

docs/forwarding.md, section 5, says how each header field is translated.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address

from dnsteer.proof.reference.outcome import Expectation, expect_drop, expect_frame
from dnsteer.proof.reference.service import AddressService, ModeReference, TargetBackend
from dnsteer.proof.reference.topology import SwitchTopology
from dnsteer.proof.reference.wire import (
    CHECKSUM_AT,
    IPV4,
    IPV6,
    UDP,
    Fragment,
    Packet,
    header_damage,
    ipv4_header,
    ipv6_header,
    patch_checksum,
)
from dnsteer.spec.model.spec import Backend

NAT64_PREFIX = bytes.fromhex("0064ff9b") + bytes(8)
"""The IPv6 prefix that IPv4 addresses are mapped into: 64:ff9b::/96 (RFC 6052)."""
_PLAIN_HEADER = {IPV4: 20, IPV6: 40}
"""Bytes of an IP header without options or extension headers."""


class SiitReference(ModeReference):
    """Stateless translation by the extension, in both directions."""

    by_extension = True
    rewrites_answers = True
    extension_pipes = ("to-ipv6", "translated")

    def __init__(self, topology: SwitchTopology) -> None:
        super().__init__(topology)
        self._services: dict[tuple[bytes, int, int], AddressService | None] = {}
        """Keyed by a backend's address, protocol and port. None: the backend holds no slot."""
        self._probed: dict[tuple[bytes, int, int], AddressService] = {}
        """The services by the same key, of backends with and without a slot."""

    def add(self, service: AddressService, targets: Sequence[TargetBackend]) -> None:
        """Record which service the answers of each backend belong to."""
        for target in targets:
            key = target.address, service.protocol, service.port
            known = self._services.setdefault(key, None)
            self._probed[key] = service
            if target not in service.owners:
                continue
            if known is not None and known.address != service.address:
                raise ValueError(f"answers of {target.name} may be for {known.label} or for {service.label}")
            self._services[key] = service

    def backend_address(self, backend: Backend, version: int) -> IPv6Address | None:
        """Return the backend's IPv6 address, whatever the query's IP version; None if it has none."""
        return backend.ipv6

    def why_refused(self, packet: Packet) -> str:
        """Packets with IP options, and UDP packets without the checksum that IPv6 requires, are not translated."""
        if packet.l4 - packet.l3 != _PLAIN_HEADER[packet.ethertype]:
            return "IPv4 options" if packet.ethertype == IPV4 else "IPv6 extension headers"
        if packet.protocol == UDP and packet.data[packet.l4 + 6 : packet.l4 + 8] == b"\0\0":
            return "no UDP checksum"
        return ""

    def query(
        self, packet: Packet, service: AddressService, target: TargetBackend, from_mac: bytes
    ) -> frozenset[bytes]:
        """An IPv6 header from the client in NAT64_PREFIX to the backend."""
        tos, length = packet.data[packet.l3 + 1], packet.end - packet.l4
        source = NAT64_PREFIX + packet.source
        header = ipv6_header(tos, length, packet.protocol, source, target.address)
        return frozenset((_with_header(packet, target.mac + from_mac, IPV6, header, source + target.address),))

    def answer(self, packet: Packet, ingress: str) -> Expectation | None:
        """Expect the answer at the first uplink with a next hop, wherever it came in; to a probe, at its port."""
        if packet.destination[: len(NAT64_PREFIX)] != NAT64_PREFIX or len(packet.destination) != 16:
            return None
        if packet.fragment is not Fragment.NONE:
            known = any(address == packet.source for address, _, _ in self._services)
            return expect_drop("a fragment of an answer to translate") if known else None
        key = packet.source, packet.protocol, packet.sport
        if key not in self._services:
            return None
        client = packet.destination[len(NAT64_PREFIX) :]
        to_probe = client == self.topology.translated_probe
        service = self._probed[key] if to_probe else self._services[key]
        if service is None:
            return expect_drop("an answer to translate, of a backend that has no slot")
        why = f"answer {'to a probe of' if to_probe else 'for'} {service.label}"
        leave = self.topology.first_exit()
        problem = header_damage(packet) or self.why_refused(packet) or ("" if leave else "no uplink has a next hop")
        if problem or leave is None:
            return expect_drop(f"{why}, which the extension drops: {problem}")
        traffic_class = int.from_bytes(packet.data[packet.l3 : packet.l3 + 2], "big") >> 4 & 0xFF
        header = ipv4_header(traffic_class, packet.end - packet.l4, packet.protocol, service.address, client)
        to_mac = self.topology.probe_mac if to_probe else leave.next_hop
        data = _with_header(packet, to_mac + self.topology.mac, IPV4, header, service.address + client)
        out = self.topology.probe_port if to_probe else leave.uplink
        assert out is not None
        return expect_frame(out, data, f"{why} to {ip_address(client)}, translated by the extension")

    def client_as_served(self, client: bytes) -> bytes:
        """Return the client's IPv4 address mapped into NAT64_PREFIX."""
        return NAT64_PREFIX + client


def _with_header(packet: Packet, macs: bytes, ethertype: int, header: bytes, addresses: bytes) -> bytes:
    """Return the frame with the IP *header* and *addresses* replaced. VLAN tags and bytes after the IP packet are kept."""
    data = packet.data
    rest = bytearray(data[packet.l4 :])
    old = packet.source + packet.destination
    width = max(len(old), len(addresses))  # further zeros change no sum
    at = CHECKSUM_AT[packet.protocol]
    patch_checksum(rest, at, old.rjust(width, b"\0"), addresses.rjust(width, b"\0"))
    if packet.protocol == UDP and rest[at : at + 2] == b"\0\0":
        rest[at : at + 2] = b"\xff\xff"
    return macs + data[12 : packet.l3 - 2] + struct.pack("!H", ethertype) + header + bytes(rest)
