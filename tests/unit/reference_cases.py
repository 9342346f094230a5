# SPDX-License-Identifier: Apache-2.0
"""Packets for the tests of the reference: what comes in, and what must leave, both built by scapy from scratch."""

from __future__ import annotations

from dataclasses import dataclass

from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_Router_Alert
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    PadN,
)
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

SPEC = """
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  gateway_mac: 02:00:00:00:00:aa
  gateways: [10.0.0.1, 2001:db8:a::1]
  uplinks:
    p0:
    p1: {next_hop: 02:00:00:00:01:fe}
    p2: {next_hop: 02:00:00:00:02:fe}
  ports:
    vf0:
    vf1: {answers: p2}
pools:
  near: {slots: 2, backends: [{name: near, ipv4: 10.0.0.11, ipv6: 2001:db8:a::11, mac: 02:00:00:00:0b:01}]}
  far: {slots: 2, backends: [{name: far, ipv4: 10.0.0.12, ipv6: 2001:db8:a::12, mac: 02:00:00:00:0b:02, port: p1}]}
  own: {slots: 2, backends: [{name: own, ipv4: 10.0.0.13, ipv6: 2001:db8:a::13, mac: 02:00:00:00:0b:03, port: vf0}]}
  hashed:
    selection: dp-hash
    slots: 4
    backends:
      - {name: a, ipv4: 10.0.0.14, ipv6: 2001:db8:a::14, mac: 02:00:00:00:0b:04, port: vf1}
      - {name: b, ipv4: 10.0.0.15, mac: 02:00:00:00:0b:05}
      - {name: c, ipv4: 10.0.0.16, mac: 02:00:00:00:0b:06, weight: 0}
vips:
  near: {addresses: [192.0.2.1, 2001:db8::1], services: [dns], pool: near}
  far: {addresses: [192.0.2.2], services: [dot], pool: far, echo: false}
  own: {addresses: [192.0.2.3, 2001:db8::3], services: [dns], pool: own}
  nat:
    addresses: [192.0.2.4, 2001:db8::4]
    services: [{protocol: udp, port: 53, target_port: 5353}, {protocol: tcp, port: 853, target_port: 8853}]
    pool: far
    forwarding: nat
  hashed:
    addresses: [192.0.2.5, 2001:db8::5]
    services: [dns, doq]
    pool: hashed
    forwarding: nat
  whole: {addresses: [192.0.2.6], services: [doq], pool: own, forwarding: nat, fragments: drop}
"""

VIPS, GATEWAY = "02:00:00:00:00:53", "02:00:00:00:00:aa"
ROUTER = "02:00:00:00:0c:01"
NEAR, FAR, OWN, A, B = (f"02:00:00:00:0b:0{n}" for n in range(1, 6))
HOP1, HOP2 = "02:00:00:00:01:fe", "02:00:00:00:02:fe"
C4, C6 = "198.18.0.7", "2001:2::7"
Body = Raw(b"some payload")  # scapy copies it at every use


def ether(dst: str, src: str = ROUTER, **fields: object) -> Packet:
    return Ether(dst=dst, src=src, **fields)


@dataclass(frozen=True)
class Case:
    """What comes in at a port, and what must leave: nothing, or one of the frames."""

    what: str
    port: str
    comes: Packet
    leaves: tuple[tuple[str, Packet], ...] = ()


def dropped(what: str, port: str, comes: Packet) -> Case:
    return Case(what, port, comes)


def passes(what: str, port: str, comes: Packet, out: str, leaves: Packet) -> Case:
    return Case(what, port, comes, ((out, leaves),))


def over(src: str, dst: str, **fields: object) -> Packet:
    return IPv6(src=src, dst=dst, **fields) if ":" in src else IP(src=src, dst=dst, **fields)


def udp(src: str, sport: int, dst: str, dport: int, **fields: object) -> Packet:
    return over(src, dst, **fields) / UDP(sport=sport, dport=dport) / Body


def tcp(src: str, sport: int, dst: str, dport: int, **fields: object) -> Packet:
    return over(src, dst, **fields) / TCP(sport=sport, dport=dport, seq=77, flags="PA") / Body


V4_NEAR, V6_NEAR, V4_FAR, V4_OWN, V6_OWN = "192.0.2.1", "2001:db8::1", "192.0.2.2", "192.0.2.3", "2001:db8::3"
V4_NAT, V6_NAT, V4_HASHED, V6_HASHED, V4_WHOLE = "192.0.2.4", "2001:db8::4", "192.0.2.5", "2001:db8::5", "192.0.2.6"
B4, B6 = "10.0.0.12", "2001:db8:a::12"

tag = Dot1Q(vlan=0, prio=5)
"""Of a frame that has a priority, and no VLAN ID."""
pad = {"options": [PadN(optdata=bytes(4))]}


QUERIES = [
    passes(
        "dsr, one-armed",
        "p0",
        ether(VIPS) / udp(C4, 9, V4_NEAR, 53),
        "p0",
        ether(NEAR, VIPS) / udp(C4, 9, V4_NEAR, 53),
    ),
    passes(
        "dsr, one-armed, p2",
        "p2",
        ether(VIPS) / tcp(C6, 9, V6_NEAR, 53),
        "p2",
        ether(NEAR, VIPS) / tcp(C6, 9, V6_NEAR, 53),
    ),
    passes(
        "dsr, other uplink",
        "p0",
        ether(VIPS) / tcp(C4, 9, V4_FAR, 853),
        "p1",
        ether(FAR, VIPS) / tcp(C4, 9, V4_FAR, 853),
    ),
    passes(
        "dsr, own port",
        "p0",
        ether(VIPS) / udp(C6, 9, V6_OWN, 53),
        "vf0",
        ether(OWN, ROUTER) / udp(C6, 9, V6_OWN, 53),
    ),
    passes("nat udp", "p0", ether(VIPS) / udp(C4, 9, V4_NAT, 53), "p1", ether(FAR, VIPS) / udp(C4, 9, B4, 5353)),
    passes("nat tcp", "p1", ether(VIPS) / tcp(C4, 9, V4_NAT, 853), "p1", ether(FAR, VIPS) / tcp(C4, 9, B4, 8853)),
    passes("nat udp6", "p2", ether(VIPS) / udp(C6, 9, V6_NAT, 53), "p1", ether(FAR, VIPS) / udp(C6, 9, B6, 5353)),
    passes("nat tcp6", "p0", ether(VIPS) / tcp(C6, 9, V6_NAT, 853), "p1", ether(FAR, VIPS) / tcp(C6, 9, B6, 8853)),
    passes(
        "nat, own port",
        "p0",
        ether(VIPS) / udp(C4, 9, V4_WHOLE, 853),
        "vf0",
        ether(OWN) / udp(C4, 9, "10.0.0.13", 853),
    ),
    passes(
        "one hop",
        "p0",
        ether(VIPS) / udp(C4, 9, V4_NAT, 53, ttl=1),
        "p1",
        ether(FAR, VIPS) / udp(C4, 9, B4, 5353, ttl=1),
    ),
    passes(
        "one hop6",
        "p0",
        ether(VIPS) / udp(C6, 9, V6_NAT, 53, hlim=1),
        "p1",
        ether(FAR, VIPS) / udp(C6, 9, B6, 5353, hlim=1),
    ),
    passes(
        "class",
        "p0",
        ether(VIPS) / udp(C4, 9, V4_NAT, 53, tos=187),
        "p1",
        ether(FAR, VIPS) / udp(C4, 9, B4, 5353, tos=187),
    ),
    passes(
        "class and flow6",
        "p0",
        ether(VIPS) / udp(C6, 9, V6_NAT, 53, tc=187, fl=0xABCDE),
        "p1",
        ether(FAR, VIPS) / udp(C6, 9, B6, 5353, tc=187, fl=0xABCDE),
    ),
    passes(
        "IP options",
        "p0",
        ether(VIPS) / udp(C4, 9, V4_NAT, 53, options=[IPOption_Router_Alert()]),
        "p1",
        ether(FAR, VIPS) / udp(C4, 9, B4, 5353, options=[IPOption_Router_Alert()]),
    ),
    passes(
        "tagged",
        "p0",
        ether(VIPS) / tag / udp(C4, 9, V4_NAT, 53),
        "p1",
        ether(FAR, VIPS) / tag / udp(C4, 9, B4, 5353),
    ),
    passes(
        "tagged6",
        "p0",
        ether(VIPS) / tag / tcp(C6, 9, V6_NAT, 853),
        "p1",
        ether(FAR, VIPS) / tag / tcp(C6, 9, B6, 8853),
    ),
    passes(
        "no checksum",
        "p0",
        ether(VIPS) / over(C4, V4_NAT) / UDP(sport=9, dport=53, chksum=0) / Body,
        "p1",
        ether(FAR, VIPS) / over(C4, B4) / UDP(sport=9, dport=5353, chksum=0) / Body,
    ),
    passes(
        "hop-by-hop",
        "p0",
        ether(VIPS) / over(C6, V6_NAT) / IPv6ExtHdrHopByHop(**pad) / UDP(sport=9, dport=53) / Body,
        "p1",
        ether(FAR, VIPS) / over(C6, B6) / IPv6ExtHdrHopByHop(**pad) / UDP(sport=9, dport=5353) / Body,
    ),
    passes(
        "options6",
        "p0",
        ether(VIPS) / over(C6, V6_NAT) / IPv6ExtHdrDestOpt(**pad) / TCP(sport=9, dport=853) / Body,
        "p1",
        ether(FAR, VIPS) / over(C6, B6) / IPv6ExtHdrDestOpt(**pad) / TCP(sport=9, dport=8853) / Body,
    ),
    passes(
        "padding",
        "p0",
        ether(VIPS) / over(C4, V4_NAT, len=29) / UDP(sport=9, dport=53, len=9) / Raw(b"x" + bytes(17)),
        "p1",
        ether(FAR, VIPS) / over(C4, B4, len=29) / UDP(sport=9, dport=5353, len=9) / Raw(b"x" + bytes(17)),
    ),
    Case(
        "hash",
        "p0",
        ether(VIPS) / udp(C4, 9, V4_HASHED, 53),
        (
            ("vf1", ether(A, ROUTER) / udp(C4, 9, "10.0.0.14", 53)),
            ("p0", ether(B, VIPS) / udp(C4, 9, "10.0.0.15", 53)),
        ),
    ),
    passes(
        "hash6",
        "p1",
        ether(VIPS) / tcp(C6, 9, V6_HASHED, 53),
        "vf1",
        ether(A, ROUTER) / tcp(C6, 9, "2001:db8:a::14", 53),
    ),
    dropped("at a port", "vf0", ether(VIPS) / udp(C4, 9, V4_NEAR, 53)),
    dropped("other MAC", "p0", ether(HOP1) / udp(C4, 9, V4_NEAR, 53)),
    dropped("broadcast", "p0", ether("ff:ff:ff:ff:ff:ff") / udp(C4, 9, V4_NEAR, 53)),
    dropped("gateways' MAC", "p1", ether(GATEWAY) / udp(C4, 9, V4_NEAR, 53)),
    dropped("other port", "p0", ether(VIPS) / udp(C4, 9, V4_NEAR, 54)),
    dropped("other protocol", "p0", ether(VIPS) / udp(C4, 9, V4_FAR, 853)),
    dropped("sctp", "p0", ether(VIPS) / over(C4, V4_NEAR, proto=132) / Raw(b"\0\x09\0\x35" + bytes(40))),
    dropped("other address", "p0", ether(VIPS) / udp(C4, 9, "192.0.2.99", 53)),
    dropped("first fragment", "p0", ether(VIPS) / udp(C4, 9, V4_NEAR, 53, flags="MF")),
    dropped("last fragment", "p0", ether(VIPS) / udp(C4, 9, V4_NEAR, 53, frag=10)),
    dropped("fragment6", "p0", ether(VIPS) / over(C6, V6_NEAR) / IPv6ExtHdrFragment(m=1) / UDP(dport=53) / Body),
    dropped("to a gateway", "p0", ether(VIPS) / udp(C4, 9, "10.0.0.1", 53)),
    dropped("to a backend", "p0", ether(VIPS) / udp(C4, 9, B4, 5353)),
    dropped("unknown port of the switch", "vf9", ether(VIPS) / udp(C4, 9, V4_NEAR, 53)),
    dropped("cut short", "p0", Raw(bytes(ether(VIPS) / udp(C4, 9, V4_NEAR, 53))[:40])),
    dropped("nothing", "p0", Raw(b"")),
    dropped("another ethertype", "p0", ether(VIPS, type=0x88B5) / Body),
]

ANSWERS = [
    passes(
        "nat udp",
        "p1",
        ether(GATEWAY, FAR) / udp(B4, 5353, C4, 9),
        "p1",
        ether(HOP1, VIPS) / udp(V4_NAT, 53, C4, 9),
    ),
    passes(
        "nat tcp",
        "p1",
        ether(GATEWAY, FAR) / tcp(B4, 8853, C4, 9),
        "p1",
        ether(HOP1, VIPS) / tcp(V4_NAT, 853, C4, 9),
    ),
    passes(
        "nat udp6",
        "p2",
        ether(GATEWAY, FAR) / udp(B6, 5353, C6, 9),
        "p2",
        ether(HOP2, VIPS) / udp(V6_NAT, 53, C6, 9),
    ),
    passes(
        "nat tcp6",
        "p1",
        ether(GATEWAY, FAR) / tcp(B6, 8853, C6, 9),
        "p1",
        ether(HOP1, VIPS) / tcp(V6_NAT, 853, C6, 9),
    ),
    passes(
        "no next hop here",
        "p0",
        ether(GATEWAY) / udp(B4, 5353, C4, 9),
        "p1",
        ether(HOP1, VIPS) / udp(V4_NAT, 53, C4, 9),
    ),
    passes(
        "first next hop",
        "vf0",
        ether(GATEWAY) / udp(B4, 5353, C4, 9),
        "p1",
        ether(HOP1, VIPS) / udp(V4_NAT, 53, C4, 9),
    ),
    passes(
        "answers: p2",
        "vf1",
        ether(GATEWAY) / udp(B4, 5353, C4, 9),
        "p2",
        ether(HOP2, VIPS) / udp(V4_NAT, 53, C4, 9),
    ),
    passes(
        "weight 0",
        "p1",
        ether(GATEWAY) / udp("10.0.0.16", 53, C4, 9),
        "p1",
        ether(HOP1, VIPS) / udp(V4_HASHED, 53, C4, 9),
    ),
    passes(
        "one hop",
        "p1",
        ether(GATEWAY) / udp(B4, 5353, C4, 9, ttl=1),
        "p1",
        ether(HOP1, VIPS) / udp(V4_NAT, 53, C4, 9, ttl=1),
    ),
    passes(
        "tagged",
        "p1",
        ether(GATEWAY) / tag / udp(B4, 5353, C4, 9),
        "p1",
        ether(HOP1, VIPS) / tag / udp(V4_NAT, 53, C4, 9),
    ),
    passes(
        "no checksum",
        "p1",
        ether(GATEWAY) / over(B4, C4) / UDP(sport=5353, dport=9, chksum=0) / Body,
        "p1",
        ether(HOP1, VIPS) / over(V4_NAT, C4) / UDP(sport=53, dport=9, chksum=0) / Body,
    ),
    passes(
        "dsr",
        "vf0",
        ether(GATEWAY, OWN) / udp(V4_OWN, 53, C4, 9),
        "p1",
        ether(HOP1, VIPS) / udp(V4_OWN, 53, C4, 9),
    ),
    passes(
        "dsr, any port",
        "vf0",
        ether(GATEWAY, OWN) / tcp(V6_OWN, 99, C6, 9),
        "p1",
        ether(HOP1, VIPS) / tcp(V6_OWN, 99, C6, 9),
    ),
    passes(
        "dsr first fragment",
        "vf1",
        ether(GATEWAY) / udp(V4_OWN, 53, C4, 9, flags="MF"),
        "p2",
        ether(HOP2, VIPS) / udp(V4_OWN, 53, C4, 9, flags="MF"),
    ),
    passes(
        "dsr later fragment",
        "vf0",
        ether(GATEWAY) / over(V4_OWN, C4, frag=99, proto=6) / Body,
        "p1",
        ether(HOP1, VIPS) / over(V4_OWN, C4, frag=99, proto=6) / Body,
    ),
    passes(
        "dsr later fragment6 of any protocol",
        "vf0",
        ether(GATEWAY) / over(V6_OWN, C6) / IPv6ExtHdrFragment(offset=9, nh=132) / Body,
        "p1",
        ether(HOP1, VIPS) / over(V6_OWN, C6) / IPv6ExtHdrFragment(offset=9, nh=132) / Body,
    ),
    passes(
        "nat later fragment6 of any protocol",
        "p1",
        ether(GATEWAY) / over(B6, C6) / IPv6ExtHdrFragment(offset=9, nh=58) / Body,
        "p1",
        ether(HOP1, VIPS) / over(V6_NAT, C6) / IPv6ExtHdrFragment(offset=9, nh=58) / Body,
    ),
    passes(
        "first fragment from any port, 400 bytes",
        "p1",
        ether(GATEWAY) / over(B4, C4, flags="MF") / UDP(sport=999, dport=9) / Raw(bytes(372)),
        "p1",
        ether(HOP1, VIPS) / over(V4_NAT, C4, flags="MF") / UDP(sport=53, dport=9) / Raw(bytes(372)),
    ),
    passes(
        "later fragment of 400 bytes",
        "p1",
        ether(GATEWAY) / over(B4, C4, flags="MF", frag=99, proto=17) / Raw(bytes(380)),
        "p1",
        ether(HOP1, VIPS) / over(V4_NAT, C4, flags="MF", frag=99, proto=17) / Raw(bytes(380)),
    ),
    passes(
        "short last fragment",
        "p1",
        ether(GATEWAY) / over(B4, C4, frag=99, proto=17) / Body,
        "p1",
        ether(HOP1, VIPS) / over(V4_NAT, C4, frag=99, proto=17) / Body,
    ),
    dropped(
        "first fragment of 399 bytes",
        "p1",
        ether(GATEWAY) / over(B4, C4, flags="MF") / UDP(sport=5353, dport=9) / Raw(bytes(371)),
    ),
    dropped(
        "later fragment of 399 bytes",
        "p1",
        ether(GATEWAY) / over(B4, C4, flags="MF", frag=99, proto=17) / Raw(bytes(379)),
    ),
    dropped("wrong source port", "p1", ether(GATEWAY) / udp(B4, 53, C4, 9)),
    dropped("wrong protocol", "p1", ether(GATEWAY) / tcp(B4, 5353, C4, 9)),
    dropped("of nobody", "p1", ether(GATEWAY) / udp("10.0.0.99", 5353, C4, 9)),
    dropped("of a dsr backend", "p1", ether(GATEWAY) / udp("10.0.0.11", 53, C4, 9)),
    dropped("of a nat VIP itself", "p1", ether(GATEWAY) / udp(V4_NAT, 53, C4, 9)),
    dropped("dsr, other protocol", "p1", ether(GATEWAY) / udp(V4_FAR, 853, C4, 9)),
    dropped("dsr, sctp fragment", "p1", ether(GATEWAY) / over(V4_OWN, C4, frag=99, proto=132) / Body),
    dropped("to the VIPs' MAC", "p1", ether(VIPS) / udp(B4, 5353, C4, 9)),
    dropped("to the next hop", "p1", ether(HOP1) / udp(B4, 5353, C4, 9)),
    dropped("tcp fragment", "p1", ether(GATEWAY) / tcp(B4, 8853, C4, 9, flags="MF")),
    dropped("later tcp fragment", "p1", ether(GATEWAY) / over(B4, C4, frag=99, proto=6) / Body),
    dropped("tcp fragment6", "p1", ether(GATEWAY) / over(B6, C6) / IPv6ExtHdrFragment(m=1) / TCP(sport=8853) / Body),
    dropped("fragments: drop", "p1", ether(GATEWAY) / udp("10.0.0.13", 853, C4, 9, flags="MF")),
    dropped("icmp error", "p1", ether(GATEWAY) / over(B4, C4) / ICMP(type=3, code=3) / IP() / UDP()),
]
