# SPDX-License-Identifier: Apache-2.0
"""Traffic of backends' own on a private switch: what resolvers ask and are told, what is dropped, and floods."""

from __future__ import annotations

import random
from ipaddress import IPv6Address

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment
from scapy.layers.inet6 import (
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6PacketTooBig,
    IPv6,
    IPv6ExtHdrFragment,
    fragment6,
)
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from dnsteer.plan.build import build_plan
from dnsteer.proof.check import prove
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.reference.packets import Frame
from dnsteer.status.limit_drops import limit_drops
from dnsteer.switch.meters import read_meter_counts
from tests.packet.switches import EXAMPLES, spec_of
from tests.packet.test_limits import counts, limited, timed
from tests.unit.spec_text import changed

SPEC = (EXAMPLES / "resolvers-nat.yaml").read_text()
SLOW = SPEC.replace("backends: 20k/s", "backends: 50/s, errors: 20/s, echo: 20/s")
ONE_ARMED = (EXAMPLES / "one-armed-nat.yaml").read_text().replace("  bridge:", "  pass: backends\n  bridge:")
MAC, GATEWAY, ROUTER = "02:00:00:00:00:53", "02:00:00:00:00:52", "02:00:00:00:00:fe"
R1, R2 = "02:00:00:00:04:01", "02:00:00:00:04:02"
SERVER, SERVER6 = "203.0.113.53", "2001:db8:9::53"
RATE, BURST, FLOOD = 50, 10, 2000


def sent(packet: Packet, port: str = "vf0", source: str = R1) -> Frame:
    """What a resolver sends by its gateway."""
    return Frame(port, bytes(Ether(src=source, dst=GATEWAY) / packet))


def told(packet: Packet, router: str = ROUTER) -> Frame:
    """What a router sends by the gateway."""
    return Frame("p0", bytes(Ether(src=router, dst=GATEWAY) / packet))


def left(packet: Packet) -> Frame:
    return Frame("p0", bytes(Ether(src=MAC, dst=ROUTER) / packet))


def arrived(packet: Packet, port: str = "vf0", to: str = R1, router: str = ROUTER) -> Frame:
    return Frame(port, bytes(Ether(src=router, dst=to) / packet))


def test_resolvers_ask_from_any_port_and_get_what_they_are_told() -> None:
    v4, v6 = IP(src="10.53.0.11", dst=SERVER), IPv6(src="2001:db8:53::11", dst=SERVER6)
    back4, back6 = IP(src=SERVER, dst="10.53.0.11", ttl=9), IPv6(src=SERVER6, dst="2001:db8:53::11", hlim=9)
    asked = [net / over(sport=p, dport=53) for net in (v4, v6) for over in (UDP, TCP) for p in (52, 1077, 40000, 65535)]
    asked += [v4 / UDP(sport=123, dport=123), v4 / ICMP() / b"ping", v6 / ICMPv6EchoRequest(data=b"ping")]
    answers = [net / over(sport=53, dport=p) for net in (back4, back6) for over in (UDP, TCP) for p in (1077, 40000)]
    answers += [
        back4 / UDP(sport=123, dport=123),
        back4 / ICMP(type=0) / b"ping",
        back6 / ICMPv6EchoReply(data=b"ping"),
    ]
    answers += [back4 / ICMP(type=3, code=4, nexthopmtu=1280) / bytes(28), back6 / ICMPv6PacketTooBig(mtu=1280) / v6]
    large = back4 / UDP(sport=53, dport=40000) / Raw(bytes(3000))
    answers += fragment(large, 1400)
    answers += fragment6(back6 / IPv6ExtHdrFragment(id=5) / UDP(sport=53, dport=40000) / Raw(bytes(3000)), 1280)
    with Harness(build_plan(spec_of(SPEC))) as harness:
        assert harness.send(map(sent, asked)) == [left(packet) for packet in asked]
        assert harness.send(map(told, answers)) == [arrived(packet) for packet in answers]
        other = "02:00:00:00:00:77"  # a router that answers by another MAC address than it is sent to
        packet = IP(src=SERVER, dst="10.53.0.12") / UDP(sport=53, dport=40000)
        assert harness.send([told(packet, other)]) == [arrived(packet, "vf1", R2, other)]


def test_services_are_reached_by_the_vip_alone_and_nobody_sends_as_somebody_else() -> None:
    v4, v6 = IP(src="10.53.0.11", dst=SERVER), IPv6(src="2001:db8:53::11", dst=SERVER6)
    as_vip = IP(src="198.51.100.53", dst=SERVER) / UDP(sport=53, dport=53)
    dropped = [told(IP(src=SERVER, dst="10.53.0.11") / over(sport=4000, dport=53)) for over in (UDP, TCP)]
    dropped += [told(IPv6(src=SERVER6, dst="2001:db8:53::11") / UDP(sport=4000, dport=53))]
    dropped += [told(IP(src=SERVER, dst=to) / UDP(sport=53, dport=4000)) for to in ("10.53.0.13", "10.53.0.1")]
    dropped += [told(IP(src=SERVER, dst="10.53.0.11") / ICMP(type=kind)) for kind in (5, 13)]
    dropped += [told(IP(src=SERVER, dst="10.53.0.11", proto=47) / bytes(20))]
    dropped += [Frame("p0", bytes(Ether(src=ROUTER, dst=MAC) / IP(src=SERVER, dst="10.53.0.11") / UDP(dport=4000)))]
    dropped += [sent(IP(src="10.53.0.77", dst=SERVER) / UDP(sport=4000, dport=53))]
    dropped += [sent(v4 / UDP(sport=4000) / Raw(bytes(100)), port) for port in ("p0",)]
    dropped += [sent(IP(src="10.53.0.11", dst=SERVER, proto=47) / bytes(20)), sent(v6 / ICMPv6EchoReply(type=137))]
    with Harness(build_plan(spec_of(SPEC))) as harness:
        assert harness.send(dropped) == []
        # A fixed source port of a service: the clash that the docs and lint (DNS046) warn of.
        assert harness.send([sent(v4 / UDP(sport=53, dport=53))]) == [left(as_vip)]


def test_a_flood_to_one_resolver_leaves_the_others_and_the_vip_alone() -> None:
    flood = [told(IP(src=SERVER, dst="10.53.0.11") / UDP(sport=53, dport=40000 + n)) for n in range(FLOOD)]
    loaded = spec_of(SLOW)
    with limited(SLOW) as harness:
        before = read_meter_counts(harness.openflow)
        out, seconds = timed(harness, flood)
        assert BURST <= len(out) <= RATE * (seconds + 1) + BURST < FLOOD / 2
        assert counts(harness, "", "10.53.0.11", "backends") == (FLOOD, FLOOD - len(out))
        after = read_meter_counts(harness.openflow)
        others = [told(IPv6(src=SERVER6, dst="2001:db8:53::11") / UDP(sport=53, dport=4000))]
        others += [told(IP(src=SERVER, dst="10.53.0.12") / UDP(sport=53, dport=4000))]
        query = Ether(src=ROUTER, dst=MAC) / IP(src=SERVER, dst="198.51.100.53")
        others += [Frame("p0", bytes(query / UDP(sport=2000 + n, dport=53))) for n in range(100)]
        assert len(harness.send(others)) == len(others)
    (drops,) = limit_drops(loaded.spec, before, after, 2.0)
    rate = f"{(FLOOD - len(out)) / 2:,.0f} packets/s"
    assert drops.text == f"backend 10.53.0.11: {rate} are dropped by the limit of what comes for its own address"


def test_pings_and_errors_have_limits_and_make_as_many_megaflows() -> None:
    rng = random.Random(5)
    flood = [
        told(IP(src=f"203.0.113.{rng.randrange(1, 255)}", dst="10.53.0.11") / ICMP(type=3, code=4))
        for _ in range(FLOOD)
    ]
    flood += [
        told(IPv6(src=str(IPv6Address(rng.getrandbits(128))), dst="2001:db8:53::11") / ICMPv6EchoRequest())
        for _ in range(FLOOD)
    ]
    with limited(SLOW) as harness:
        out, seconds = timed(harness, flood)
        most = 2 * (20 * (seconds + 1) + BURST)
        assert 2 * BURST <= len(out) <= most < FLOOD / 2
        assert counts(harness, "", "backends", "errors")[0] == FLOOD
        assert len(harness.megaflows()) <= most + 2


def test_questions_from_all_ports_make_few_megaflows_and_queries_as_many_as_ever() -> None:
    rng = random.Random(7)
    ports = rng.sample(range(1024, 65536), FLOOD)
    asked = [sent(IP(src="10.53.0.11", dst=f"203.0.113.{p % 250}") / UDP(sport=p, dport=53)) for p in ports]
    answers = [told(IP(src=f"203.0.113.{p % 250}", dst="10.53.0.11") / UDP(sport=53, dport=p)) for p in ports]
    with Harness(build_plan(spec_of(SPEC))) as harness:
        assert len(harness.send(asked)) == len(harness.send(answers)) == FLOOD
        assert len(harness.megaflows()) == 2 * 63
        harness.forget_megaflows()
        query = Ether(src=ROUTER, dst=MAC) / IP(src=SERVER, dst="198.51.100.53")
        assert len(harness.send([Frame("p0", bytes(query / UDP(sport=p, dport=53))) for p in ports])) == FLOOD
        assert len(harness.megaflows()) == 256  # slots
        harness.forget_megaflows()
        beside = [told(IP(src=SERVER, dst="10.53.0.11") / UDP(sport=53, dport=p)) for p in range(2048)]
        assert len(harness.send(beside)) == 2048 - 2  # but port 53, and 0
        assert len(harness.megaflows()) <= 125 + 2


def test_behind_the_routers_uplink_the_switch_sees_what_resolvers_send_alone() -> None:
    v4 = IP(src="10.53.0.11", dst=SERVER) / UDP(sport=40000, dport=53)
    back = IP(src=SERVER, dst="10.53.0.11") / UDP(sport=53, dport=40000)
    with Harness(build_plan(spec_of(ONE_ARMED))) as harness:
        assert harness.send([sent(v4, "p0")]) == [left(v4)]
        assert harness.send([sent(v4, "p0", ROUTER), told(back)]) == []


@pytest.mark.parametrize("text", [SPEC, ONE_ARMED], ids=["ports", "one uplink"])
def test_without_the_key_nothing_of_their_own_passes(text: str) -> None:
    plain = text.replace("pass: backends", "repair: report").replace("limits: {backends: 20k/s}", "")
    asked = IP(src="10.53.0.11", dst=SERVER) / UDP(sport=40000, dport=53)
    with Harness(build_plan(spec_of(plain))) as harness:
        assert harness.send([sent(asked, "vf0" if "vf0" in text else "p0")]) == []


def test_each_topology_is_proven() -> None:
    """Another VLAN of the same uplink; two uplinks; a bond; tunnels; workers; next hops and backends that are followed."""
    for name in ("vlans", "two-uplinks", "workers", "ct-nat", "followed"):
        text = (EXAMPLES / f"{name}.yaml").read_text().replace("  bridge:", "  pass: backends\n  bridge:")
        assert prove(spec_of(text)).ok, name
    far = ("\nvips:", "\n  far:\n    health: {check: dns}\n    backup: spare\n"
           "    backends: [{name: f1, ipv4: 203.0.113.11, mac: 02:00:00:00:01:01}]\n"
           "  spare:\n    backends: [{name: f2, ipv4: 203.0.113.12, mac: 02:00:00:00:01:02}]\nvips:\n"
           "  far: {addresses: [192.0.2.53], services: [dns], pool: far, forwarding: vxlan}")  # fmt: skip
    tunnel = ("\n  uplinks:", "\n  tunnel: {ipv4: 198.51.100.4, key: 53}\n  uplinks:")
    assert prove(spec_of(changed(far, tunnel, text=SPEC))).ok, "servers at the ends of tunnels beside those at ports"
    bond = (EXAMPLES / "bond.yaml").read_text().replace("  bridge:", "  pass: backends\n  bridge:")
    bond = bond.replace("04:01}", "04:01, port: vm1}").replace("port: bond0", "port: vm1")
    assert prove(spec_of(bond)).ok
