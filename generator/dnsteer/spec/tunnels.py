# SPDX-License-Identifier: Apache-2.0
"""Tunnels of Open vSwitch: their kinds, where they begin and end, and what they add to a packet."""

from __future__ import annotations

from dataclasses import dataclass

from dnsteer.spec.derived import IPV4_HEADER, IPV6_HEADER
from dnsteer.spec.model.spec import Backend, Forwarding, Spec, Switch
from dnsteer.spec.model.types import Address


@dataclass(frozen=True)
class TunnelKind:
    """A kind of tunnel: its *port* on the bridge, the port's *type* in OVSDB, and how its packets look.

    *protocol* is that of the outer IP header, *udp_port* their destination port (0: no UDP), *header* the bytes between the
    outer IP header and the frame inside. The names of the ports are fixed: Open vSwitch takes one such port of a kind only.
    """

    port: str
    type: str
    protocol: int
    udp_port: int
    header: int


TUNNELS: dict[Forwarding, TunnelKind] = {
    Forwarding.VXLAN: TunnelKind("dns-vxlan", "vxlan", 17, 4789, 16),
    Forwarding.GENEVE: TunnelKind("dns-geneve", "geneve", 17, 6081, 16),
    Forwarding.GRE: TunnelKind("dns-gre", "gre", 47, 0, 8),
}
"""The forwardings whose queries Open vSwitch sends through tunnels."""
_INNER_ETHERNET = 14


def tunnel_kinds(spec: Spec) -> dict[Forwarding, TunnelKind]:
    """The kinds of tunnels that VIPs use."""
    used = {vip.forwarding for vip in spec.vips.values()}
    return {word: kind for word, kind in TUNNELS.items() if word in used}


def outer_address(backend: Backend) -> Address | None:
    """Where a tunnel to a backend ends: at its IPv4 address, if it has both."""
    return backend.ipv4 if backend.ipv4 is not None else backend.ipv6


def tunnel_ends(spec: Spec) -> list[Address]:
    """The addresses of backends at which tunnels of Open vSwitch end, each once."""
    pools = dict.fromkeys(vip.pool for vip in spec.vips.values() if vip.forwarding in TUNNELS)
    ends = (outer_address(backend) for name in pools for backend in spec.pools[name].backends)
    return list(dict.fromkeys(end for end in ends if end is not None))


def tunnel_bytes(kind: TunnelKind, end: Address) -> int:
    """The bytes that a tunnel to *end* adds to a packet: the Ethernet header inside, the tunnel's own, and the outer IP."""
    return _INNER_ETHERNET + kind.header + (IPV4_HEADER if end.version == 4 else IPV6_HEADER)


def tunnel_uplink(switch: Switch) -> str | None:
    """The uplink by which tunnels leave: the first with a next hop."""
    return next((name for name, up in switch.uplinks.items() if up.next_hop is not None), None)


def tunnel_gateway(own: Address) -> Address:
    """The next hop of tunnels as Open vSwitch knows it: the other address of the /31 or /127 that *own* is in.

    It needs one to choose the source address. No packet has it, and nobody else is asked for it: the bridge answers with the
    MAC address of the uplink's next hop.
    """
    return type(own)(int(own) ^ 1)
