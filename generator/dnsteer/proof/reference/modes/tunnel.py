# SPDX-License-Identifier: Apache-2.0
"""`vxlan`, `geneve` and `gre`: the query goes to the backend as a frame in a tunnel (docs/tunnels.md)."""

from __future__ import annotations

import struct
from abc import abstractmethod
from ipaddress import IPv4Address, IPv6Address
from typing import ClassVar

from dnsteer.proof.reference.modes.dsr import DirectReturn
from dnsteer.proof.reference.outcome import Frame
from dnsteer.proof.reference.service import AddressService, TargetBackend
from dnsteer.proof.reference.topology import SwitchTopology
from dnsteer.proof.reference.wire import (
    DONT_FRAGMENT,
    IPV4,
    IPV6,
    UDP,
    MalformedError,
    Packet,
    checksum,
    ipv4_header,
    ipv6_header,
    parse,
    pseudo_header,
)
from dnsteer.spec.model.spec import Backend

_GRE = 47
_KEY_PRESENT, _BRIDGED = 0x2000, 0x6558
_ECN, _CONGESTED, _CAPABLE = 3, 3, 2
_LEAST_PORT = 32_768
"""The source ports that Open vSwitch chooses are of the upper half."""


class _TunnelReference(DirectReturn):
    """What the tunnels have in common: the frame inside, and the IP header outside."""

    def backend_address(self, backend: Backend, version: int) -> IPv4Address | IPv6Address | None:
        """A tunnel ends at the backend's IPv4 address, if it has one, whatever it carries."""
        return backend.ipv4 or backend.ipv6

    def leaves(self, ingress: str, target: TargetBackend) -> tuple[str, int]:
        """The first uplink with a next hop, and its VLAN."""
        leave = self.topology.first_exit()
        assert leave is not None, "checked with the spec"
        return leave.uplink, self.topology.vlans.own(leave.uplink)

    def query(
        self, packet: Packet, service: AddressService, target: TargetBackend, from_mac: bytes
    ) -> frozenset[bytes]:
        """The frame with the backend's MAC address, without its VLAN tag, behind the headers of the tunnel.

        Of the outer header only the ECN field depends on the packet (RFC 6040, 4.2: compatibility mode of the switch).
        """
        leave, key = self.topology.first_exit(), self.topology.tunnel_key
        (inside,) = self.topology.vlans.leaving((target.mac + packet.data[6:],), 0)
        source = next((own for own in self.topology.outer_sources if len(own) == len(target.address)), None)
        ethertype = IPV4 if len(target.address) == 4 else IPV6
        if leave is None or source is None or not leave.to(ethertype):
            return frozenset()
        protocol, payload = self.payload(key, inside, source, target.address)
        data, l3 = packet.data, packet.l3
        tos = data[l3 + 1] if packet.ethertype == IPV4 else int.from_bytes(data[l3 : l3 + 2], "big") >> 4 & 0xFF
        ecn = _CAPABLE if tos & _ECN == _CONGESTED else tos & _ECN
        if ethertype == IPV4:
            header = ipv4_header(ecn, len(payload), protocol, source, target.address, DONT_FRAGMENT)
        else:
            header = ipv6_header(ecn, len(payload), protocol, source, target.address)
        ethernet = leave.to(ethertype) + self.topology.mac + struct.pack("!H", ethertype)
        return frozenset((ethernet + header + payload,))

    @abstractmethod
    def payload(self, key: int, inside: bytes, source: bytes, end: bytes) -> tuple[int, bytes]:
        """The protocol number of the outer IP header, and what follows that."""

    def as_served(self, delivered: bytes, query: bytes) -> bytes:
        """Return the frame inside."""
        return delivered[-len(query) :]


class _OverUdp(_TunnelReference):
    """The source port, which spreads tunnels over paths, is the switch's choice: see `without_source_port`."""

    port: ClassVar[int]

    def payload(self, key: int, inside: bytes, source: bytes, end: bytes) -> tuple[int, bytes]:
        """UDP without a source port, and without a checksum, which the other side would compare."""
        return UDP, struct.pack("!HHHH", 0, self.port, 16 + len(inside), 0) + self.header(key) + inside

    @abstractmethod
    def header(self, key: int) -> bytes:
        """The tunnel's own header."""


class VxlanReference(_OverUdp):
    """RFC 7348, section 5."""

    port = 4789

    def header(self, key: int) -> bytes:
        """Flags with a valid VNI, and the VNI."""
        return struct.pack("!II", 0x08000000, key << 8)


class GeneveReference(_OverUdp):
    """RFC 8926, section 3.4, without options."""

    port = 6081

    def header(self, key: int) -> bytes:
        """No options, Ethernet inside, and the VNI."""
        return struct.pack("!HHI", 0, _BRIDGED, key << 8)


class GreReference(_TunnelReference):
    """RFC 2784 with the key of RFC 2890."""

    def payload(self, key: int, inside: bytes, source: bytes, end: bytes) -> tuple[int, bytes]:
        """GRE with a key and without a checksum."""
        return _GRE, struct.pack("!HHI", _KEY_PRESENT, _BRIDGED, key) + inside


_PORTS = (VxlanReference.port, GeneveReference.port)


def without_source_port(frame: Frame, topology: SwitchTopology) -> Frame:
    """Return a tunnel's frame as the reference has it: without the UDP source port and checksum, if they are right ones.

    The checksum is that of the packet over IPv6, and none over IPv4. All other frames stay as they are.
    """
    if not topology.outer_sources:
        return frame
    try:
        packet = parse(frame.data)
    except MalformedError:
        return frame
    if packet.source not in topology.outer_sources or packet.protocol != UDP or packet.dport not in _PORTS:
        return frame
    data, at = frame.data, packet.l4
    segment = data[at : packet.end]
    has = segment[6:8] != b"\0\0"
    is_right = not has
    if packet.ethertype == IPV6:
        pseudo = pseudo_header(packet.source, packet.destination, UDP, len(segment))
        is_right = has and not checksum(pseudo + segment)
    if packet.sport < _LEAST_PORT or not is_right:
        return frame
    return Frame(frame.port, data[:at] + b"\0\0" + data[at + 2 : at + 6] + b"\0\0" + data[at + 8 :])
