# SPDX-License-Identifier: Apache-2.0
"""Packets that the switch answers itself, for the tests of the reference."""

from __future__ import annotations

from scapy.layers.inet import ICMP, IPOption_Router_Alert
from scapy.layers.inet6 import (
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptSrcLLAddr,
    IPv6,
    IPv6ExtHdrFragment,
)
from scapy.layers.l2 import ARP
from scapy.packet import Packet, Raw

from tests.unit.reference_cases import (
    B4,
    C4,
    C6,
    GATEWAY,
    HOP1,
    OWN,
    ROUTER,
    V4_FAR,
    V4_NEAR,
    V6_NEAR,
    VIPS,
    Body,
    dropped,
    ether,
    over,
    passes,
    tag,
)

echo4, reply4 = ICMP(type=8, id=5, seq=6) / Body, ICMP(type=0, id=5, seq=6) / Body
echo6, reply6 = ICMPv6EchoRequest(id=5, seq=6) / Body, ICMPv6EchoReply(id=5, seq=6) / Body


def arp(dst: str, src: str, **fields: object) -> Packet:
    return ether(dst, src) / ARP(**fields)


ALL = "ff:ff:ff:ff:ff:ff"
ASK = {"op": 1, "hwsrc": "02:00:00:00:0c:02", "psrc": C4}
TOLD = {"op": 2, "hwdst": "02:00:00:00:0c:02", "pdst": C4}
NODES = "33:33:ff:00:00:01"


def ns(
    target: str, *, dst: str = NODES, hlim: int = 255, src: str = C6, option: bool = True, **message: object
) -> Packet:
    packet = (
        ether(dst) / IPv6(src=src, dst="ff02::1:ff00:1", hlim=hlim, tc=3, fl=9) / ICMPv6ND_NS(tgt=target, **message)
    )
    return packet / ICMPv6NDOptSrcLLAddr(lladdr="02:00:00:00:0c:02") if option else packet


def na(target: str, mac: str, *, option: bool = True, router: int = 0, dad: bool = False) -> Packet:
    packet = ether("33:33:00:00:00:01" if dad else ROUTER, mac)
    packet /= IPv6(src=target, dst="ff02::1" if dad else C6, hlim=255, tc=3, fl=9)
    packet /= ICMPv6ND_NA(tgt=target, R=router, S=0 if dad else 1, O=1)
    return packet / ICMPv6NDOptDstLLAddr(lladdr=mac) if option else packet


NEIGHBORS = [
    passes(
        "ARP",
        "p2",
        arp(ALL, ROUTER, pdst=V4_NEAR, **ASK),
        "p2",
        arp(ROUTER, VIPS, hwsrc=VIPS, psrc=V4_NEAR, **TOLD),
    ),
    passes(
        "ARP to any MAC",
        "p0",
        arp(HOP1, ROUTER, pdst=V4_FAR, **ASK),
        "p0",
        arp(ROUTER, VIPS, hwsrc=VIPS, psrc=V4_FAR, **TOLD),
    ),
    passes(
        "ARP for a gateway",
        "vf0",
        arp(ALL, OWN, pdst="10.0.0.1", **ASK),
        "vf0",
        arp(OWN, GATEWAY, hwsrc=GATEWAY, psrc="10.0.0.1", **TOLD),
    ),
    passes(
        "ARP for a gateway, uplink",
        "p0",
        arp(ALL, OWN, pdst="10.0.0.1", **ASK),
        "p0",
        arp(OWN, GATEWAY, hwsrc=GATEWAY, psrc="10.0.0.1", **TOLD),
    ),
    passes(
        "tagged and padded ARP",
        "p0",
        ether(ALL) / tag / ARP(pdst=V4_NEAR, **ASK) / Raw(bytes(14)),
        "p0",
        ether(ROUTER, VIPS) / tag / ARP(hwsrc=VIPS, psrc=V4_NEAR, **TOLD) / Raw(bytes(14)),
    ),
    dropped("ARP for a VIP at a port", "vf0", arp(ALL, OWN, pdst=V4_NEAR, **ASK)),
    dropped("ARP for another", "p0", arp(ALL, ROUTER, pdst="192.0.2.99", **ASK)),
    dropped("ARP for a backend", "p0", arp(ALL, ROUTER, pdst=B4, **ASK)),
    dropped("ARP reply", "p0", arp(VIPS, ROUTER, pdst=V4_NEAR, **{**ASK, "op": 2})),
    passes("NS", "p1", ns(V6_NEAR), "p1", na(V6_NEAR, VIPS)),
    passes("NS without option", "p1", ns(V6_NEAR, option=False), "p1", na(V6_NEAR, VIPS, option=False)),
    passes("NS to any MAC", "p1", ns(V6_NEAR, dst=HOP1), "p1", na(V6_NEAR, VIPS)),
    passes("NS for a gateway", "vf1", ns("2001:db8:a::1"), "vf1", na("2001:db8:a::1", GATEWAY, router=1)),
    passes("NS for a gateway at an uplink", "p0", ns("2001:db8:a::1"), "p0", na("2001:db8:a::1", GATEWAY, router=1)),
    passes("DAD", "p0", ns(V6_NEAR, src="::", option=False), "p0", na(V6_NEAR, VIPS, option=False, dad=True)),
    passes(
        "DAD of a gateway",
        "vf0",
        ns("2001:db8:a::1", src="::", option=False),
        "vf0",
        na("2001:db8:a::1", GATEWAY, option=False, router=1, dad=True),
    ),
    dropped("NS of hop limit 254", "p0", ns(V6_NEAR, hlim=254)),
    dropped("NS of code 1", "p0", ns(V6_NEAR, code=1)),
    dropped("NS for a VIP at a port", "vf0", ns(V6_NEAR)),
    dropped("NS for another", "p0", ns("2001:db8::99", dst=VIPS)),
    dropped("NA", "p0", na(V6_NEAR, ROUTER)),
]

ECHOES = [
    passes(
        "VIP",
        "p2",
        ether(VIPS) / over(C4, V4_NEAR, ttl=9, id=7, tos=3) / echo4,
        "p2",
        ether(ROUTER, VIPS) / over(V4_NEAR, C4, ttl=64, id=7, tos=3) / reply4,
    ),
    passes(
        "VIP6",
        "p0",
        ether(VIPS) / over(C6, V6_NEAR, hlim=9, tc=3, fl=8) / echo6,
        "p0",
        ether(ROUTER, VIPS) / over(V6_NEAR, C6, hlim=64, tc=3, fl=8) / reply6,
    ),
    passes(
        "gateway",
        "vf0",
        ether(GATEWAY) / over(C4, "10.0.0.1", ttl=255) / echo4,
        "vf0",
        ether(ROUTER, GATEWAY) / over("10.0.0.1", C4, ttl=64) / reply4,
    ),
    passes(
        "gateway6",
        "p1",
        ether(GATEWAY) / over(C6, "2001:db8:a::1", hlim=1) / echo6,
        "p1",
        ether(ROUTER, GATEWAY) / over("2001:db8:a::1", C6, hlim=64) / reply6,
    ),
    passes(
        "tagged, with options",
        "p0",
        ether(VIPS) / tag / over(C4, V4_NEAR, options=[IPOption_Router_Alert()]) / echo4,
        "p0",
        ether(ROUTER, VIPS) / tag / over(V4_NEAR, C4, options=[IPOption_Router_Alert()]) / reply4,
    ),
    dropped("echo: false", "p0", ether(VIPS) / over(C4, V4_FAR) / echo4),
    dropped("VIP at a port", "vf0", ether(VIPS) / over(C4, V4_NEAR) / echo4),
    dropped("VIP at the gateways' MAC", "p0", ether(GATEWAY) / over(C4, V4_NEAR) / echo4),
    dropped("gateway at the VIPs' MAC", "p0", ether(VIPS) / over(C4, "10.0.0.1") / echo4),
    dropped("other MAC", "p0", ether(HOP1) / over(C4, V4_NEAR) / echo4),
    dropped("fragment", "p0", ether(VIPS) / over(C4, V4_NEAR, flags="MF") / echo4),
    dropped("fragment6", "p0", ether(VIPS) / over(C6, V6_NEAR) / IPv6ExtHdrFragment(m=1) / echo6),
    dropped("code 1", "p0", ether(VIPS) / over(C4, V4_NEAR) / ICMP(type=8, code=1)),
    dropped("reply", "p0", ether(VIPS) / over(C4, V4_NEAR) / reply4),
    dropped("type of the other family", "p0", ether(VIPS) / over(C6, V6_NEAR, nh=1) / echo4),
]
