# SPDX-License-Identifier: Apache-2.0
"""What backends send and get for themselves, where the spec lets it pass (docs/pass.md)."""

from __future__ import annotations

from dataclasses import dataclass

from dnsteer.proof.reference.outcome import Expectation, Frame, expect_drop
from dnsteer.proof.reference.spec_services import service_ports, worker_number
from dnsteer.proof.reference.topology import SwitchTopology, packed_mac
from dnsteer.proof.reference.vlans import directly_reached
from dnsteer.proof.reference.wire import ICMP, ICMPV6, IPV6, TCP, UDP, Fragment, Packet, rewritten
from dnsteer.spec.model.spec import Spec

_MESSAGES = {ICMP: frozenset((0, 3, 8, 11, 12)), ICMPV6: frozenset((1, 2, 3, 4, 128, 129))}
"""Types that pass: echo, destination unreachable, packet too big, time exceeded, parameter problem."""


@dataclass(frozen=True)
class _Host:
    """A backend as it is reached by an address of its own. *mac* is empty where it is not known."""

    name: str
    mac: bytes
    port: str | None
    vlan: int


class OwnTrafficReference:
    """The backends of a spec by their own addresses, and the ports at which they serve VIPs."""

    def __init__(self, spec: Spec, topology: SwitchTopology) -> None:
        self._topology = topology
        self._hosts: dict[bytes, _Host] = {}
        self.served: set[tuple[int, int]] = set()
        """Protocols and ports that are for VIPs alone."""
        if spec.switch.own_traffic is None:
            return
        for b in directly_reached(spec):
            host = _Host(b.name, packed_mac(b.mac), b.port, topology.vlans.of_backend(b))
            for address in (b.ipv4, b.ipv6):
                if address is not None:
                    self._hosts.setdefault(address.packed, host)
        for vip in spec.vips.values():
            workers = 1 + max(worker_number(b) for b in spec.pools[vip.pool].backends)
            for found in service_ports(vip):
                self.served |= {(found.protocol, found.target_port + n) for n in range(workers)}

    @property
    def addresses(self) -> tuple[bytes, ...]:
        """The backends' own addresses; none where nothing of their own passes."""
        return tuple(self._hosts)

    def place(self, address: bytes) -> tuple[str | None, int, bytes]:
        """The port, VLAN and MAC address of the backend that has an address."""
        host = self._hosts[address]
        return host.port, host.vlan, host.mac

    def inbound(self, port: str, packet: Packet) -> Expectation:
        """What becomes of a packet from outside to the gateways' MAC address."""
        host = self._hosts.get(packet.destination)
        if host is None:
            return expect_drop("from outside to the gateways' MAC, and for no backend's own address")
        why = f"from outside for backend {host.name} itself"
        if packet.fragment is Fragment.NONE:
            refused = self._refused(packet, packet.dport)
        else:
            refused = "" if self._may_be_fragment(packet) else "in fragments, and not UDP"
        if refused:
            return expect_drop(f"{why}, {refused}")
        if not host.mac:
            return expect_drop(f"{why}, whose MAC address is not known")
        leaves = port if host.port is None else host.port
        from_mac = self._topology.mac if leaves in self._topology.uplinks else packet.data[6:12]
        left = self._topology.vlans.leaving((rewritten(packet, host.mac, from_mac),), host.vlan)
        return Expectation(frozenset(Frame(leaves, data) for data in left), why)

    def sent(self, port: str, packet: Packet) -> Expectation | None:
        """What becomes of a packet of a backend's own; None for what is not, or may be an answer."""
        host = self._hosts.get(packet.source)
        by_icmp = packet.protocol == ICMP and packet.ethertype != IPV6
        if host is None or (packet.fragment is not Fragment.NONE and not by_icmp):
            return None
        if packet.fragment is Fragment.NONE and self._refused(packet, packet.sport):
            return None
        why, leave = f"of backend {host.name} itself", self._topology.exit_of(port)
        next_hop = leave.to(packet.ethertype) if leave is not None else b""
        if leave is None or not next_hop:
            return expect_drop(f"{why}; but the MAC address of no next hop is known")
        vlans = self._topology.vlans
        left = vlans.leaving((rewritten(packet, next_hop, self._topology.mac),), vlans.own(leave.uplink))
        return Expectation(frozenset(Frame(leave.uplink, data) for data in left), why)

    def _refused(self, packet: Packet, port: int) -> str:
        """Why a packet is no traffic of a backend's own, by its protocol and *port*; empty if it is."""
        if packet.protocol in (UDP, TCP):
            if packet.protocol == TCP and packet.fragment is Fragment.NONE and not _fits(packet):
                return "with a TCP header that does not fit"
            return "at a port where backends serve VIPs" if (packet.protocol, port) in self.served or not port else ""
        if packet.protocol != (ICMPV6 if packet.ethertype == IPV6 else ICMP):
            return "of another protocol than TCP, UDP and ICMP"
        if packet.fragment is Fragment.NONE and packet.data[packet.l4] not in _MESSAGES[packet.protocol]:
            return "ICMP of another type"
        return ""

    def _may_be_fragment(self, packet: Packet) -> bool:
        """Whether a fragment for a backend passes: of UDP, and of ICMP over IPv4; a later one of IPv6 shows no protocol."""
        if packet.ethertype == IPV6 and packet.fragment is Fragment.LATER:
            return True
        return packet.protocol == UDP or (packet.protocol == ICMP and packet.ethertype != IPV6)


def _fits(packet: Packet) -> bool:
    """Whether a packet has all of its TCP header: else Open vSwitch takes its ports for 0."""
    return 20 <= (packet.data[packet.l4 + 12] >> 4) * 4 <= packet.end - packet.l4
