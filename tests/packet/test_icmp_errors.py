# SPDX-License-Identifier: Apache-2.0
"""ICMP on a private switch: what floods of errors make of it, and what routers and hosts send to groups all the time."""

from __future__ import annotations

import random
import time
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest
from scapy.contrib.igmp import IGMP
from scapy.contrib.lldp import LLDPDU, LLDPDUChassisID, LLDPDUEndOfLLDPDU, LLDPDUPortID, LLDPDUTimeToLive
from scapy.layers.dhcp6 import DHCP6_Solicit
from scapy.layers.dns import DNS, DNSQR
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_Router_Alert
from scapy.layers.inet6 import (
    ICMPv6MLDMultAddrRec,
    ICMPv6MLQuery,
    ICMPv6MLReport,
    ICMPv6MLReport2,
    ICMPv6ND_RA,
    ICMPv6ND_RS,
    ICMPv6NDOptPrefixInfo,
    ICMPv6PacketTooBig,
    IPv6,
    IPv6ExtHdrHopByHop,
    RouterAlert,
)
from scapy.layers.l2 import LLC, STP, Dot3, Ether
from scapy.packet import Packet

from dnsteer.lint.masks.bound import mask_bound
from dnsteer.plan.build import build_plan
from dnsteer.proof.check import prove
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.reference.packets import Frame
from dnsteer.spec import derived
from dnsteer.spec.model.limits import MAX_COPIES
from dnsteer.tables.error import ErrorRow
from dnsteer.tables.meter_rows import MeterRow
from tests.mask_attack import ObservedMasks
from tests.packet.agents import agent, wait
from tests.packet.command import fresh, on, spec_file
from tests.packet.scraping import METRICS, address, scrape, value
from tests.packet.switches import Switch, spec_of
from tests.packet.test_limits import CLIENT, counts, frame, limited, timed
from tests.packet.test_limits import SPEC as LIMITED

SPEC = LIMITED.replace("limits: {echo: 50/s}", "limits: {errors: 50/s}").replace("name: ns1", "port: vf0, name: ns1")
SPEC = SPEC.replace("uplinks: {p0: }", "uplinks: {p0: }\n  ports: {vf0: }\n  gateways: [192.0.2.1, '2001:db8::1']")
SPEC = SPEC.replace("{p0: }", "{p0: {next_hop: 02:00:00:00:00:fe}}")
RATE, BURST, BACKENDS = 50, 10, 2
FLOOD = 5000


def error(target: str, code: int = 4, kind: int = 3) -> Frame:
    """An error about a segment of which there are 8 bytes."""
    if ":" in target:
        return frame(IPv6(src="2001:db8:9::1", dst=target) / ICMPv6PacketTooBig(mtu=1280) / IPv6(src=target) / TCP())
    quoted = bytes(IP(src=target, dst="203.0.113.7") / TCP(sport=53))[:28]
    return frame(IP(src="203.0.113.1", dst=target) / ICMP(type=kind, code=code, nexthopmtu=1280) / quoted)


def test_a_flood_of_errors_brings_each_backend_as_many_as_the_limit() -> None:
    with limited(SPEC) as harness:
        left, seconds = timed(harness, [error("192.0.2.53")] * (FLOOD // 2) + [error("2001:db8::53")] * (FLOOD // 2))
        passed = len(left) // BACKENDS
        assert len(left) == BACKENDS * passed
        assert {frame.port for frame in left} == {"p0", "vf0"}
        assert BURST <= passed <= RATE * (seconds + 1) + BURST < FLOOD / 2
        assert counts(harness, "", "vips", "errors") == (FLOOD, FLOOD - passed)
        assert len(harness.megaflows()) == 4  # two passes for each family


def test_errors_to_anywhere_make_as_many_megaflows_as_the_meter_lets_through() -> None:
    rng = random.Random(3)
    flood = [error(str(IPv4Address(rng.getrandbits(32)))) for _ in range(FLOOD // 2)]
    flood += [error(str(IPv6Address(0x20010DB8 << 96 | rng.getrandbits(64)))) for _ in range(FLOOD // 2)]
    with limited(SPEC) as harness:
        left, seconds = timed(harness, flood)
        assert left == []
        second = [flow for flow in harness.megaflows() if flow.recirculated]
        assert 0 < len(second) <= RATE * (seconds + 1) + BURST < FLOOD / 4
        time.sleep(1)
        assert len(harness.send([error("192.0.2.53"), error("2001:db8::53")])) == 2 * BACKENDS
        harness.forget_megaflows()
        assert harness.send([error("192.0.2.53", code) for code in range(256) if code != 4]) == []
        assert len(harness.megaflows()) == 255


def to_group(group: str, packet: Packet) -> Ether:
    return Ether(src=CLIENT, dst=group) / packet


HELLO = RouterAlert()
GROUPS = {
    "router solicitation": to_group("33:33:00:00:00:02", IPv6(src="fe80::1", dst="ff02::2", hlim=255) / ICMPv6ND_RS()),
    "router advertisement": to_group(
        "33:33:00:00:00:01",
        IPv6(src="fe80::1", dst="ff02::1", hlim=255) / ICMPv6ND_RA() / ICMPv6NDOptPrefixInfo(prefix="2001:db8::"),
    ),
    "MLD query": to_group(
        "33:33:00:00:00:01",
        IPv6(src="fe80::1", dst="ff02::1", hlim=1) / IPv6ExtHdrHopByHop(options=HELLO) / ICMPv6MLQuery(),
    ),
    "MLDv1 report": to_group(
        "33:33:ff:00:00:53",
        IPv6(src="fe80::1", dst="ff02::1:ff00:53", hlim=1)
        / IPv6ExtHdrHopByHop(options=HELLO)
        / ICMPv6MLReport(mladdr="ff02::1:ff00:53"),
    ),
    "MLDv2 report": to_group(
        "33:33:00:00:00:16",
        IPv6(src="fe80::1", dst="ff02::16", hlim=1)
        / IPv6ExtHdrHopByHop(options=HELLO)
        / ICMPv6MLReport2(records=[ICMPv6MLDMultAddrRec(dst="ff02::1:ff00:53")]),
    ),
    "DHCPv6": to_group(
        "33:33:00:01:00:02", IPv6(src="fe80::1", dst="ff02::1:2") / UDP(sport=546, dport=547) / DHCP6_Solicit(trid=1)
    ),
    "mDNS": to_group(
        "01:00:5e:00:00:fb",
        IP(src="192.0.2.9", dst="224.0.0.251", ttl=255) / UDP(sport=5353, dport=5353) / DNS(qd=DNSQR(qname="a.local")),
    ),
    "mDNS over IPv6": to_group(
        "33:33:00:00:00:fb",
        IPv6(src="fe80::1", dst="ff02::fb", hlim=255) / UDP(sport=5353, dport=5353) / DNS(qd=DNSQR(qname="a.local")),
    ),
    "IGMP": to_group(
        "01:00:5e:00:00:16",
        IP(src="192.0.2.9", dst="224.0.0.22", ttl=1, options=[IPOption_Router_Alert()]) / IGMP(type=0x16),
    ),
    "LLDP": Ether(src=CLIENT, dst="01:80:c2:00:00:0e", type=0x88CC)
    / LLDPDU()
    / LLDPDUChassisID(subtype=4, id=bytes(6))
    / LLDPDUPortID(subtype=3, id=bytes(6))
    / LLDPDUTimeToLive(ttl=20)
    / LLDPDUEndOfLLDPDU(),
    "STP": Dot3(src=CLIENT, dst="01:80:c2:00:00:00") / LLC(dsap=0x42, ssap=0x42, ctrl=3) / STP(),
}
"""What is sent to groups on every network."""


def test_what_is_sent_to_groups_is_dropped_and_makes_no_mask_of_its_own() -> None:
    plan = build_plan(spec_of(SPEC))
    sent = [Frame(port, bytes(packet)) for packet in GROUPS.values() for port in ("p0", "vf0")]
    with Harness(plan) as harness:
        log = harness.switch.dir / "vswitchd.log"
        before = log.read_text().count("|WARN|")
        assert harness.send(sent) == []
        observed = ObservedMasks()
        assert 0 < observed.add(harness.switch.dump("dpctl/dump-flows", "-m").splitlines()) <= len(sent)
        assert log.read_text().count("|WARN|") == before
    bound = mask_bound(plan)
    assert [mask for mask in observed.flows if not bound.allows(mask)] == []


def test_vips_that_share_an_address_share_the_copies_and_without_any_there_is_no_meter() -> None:
    shared = SPEC.replace("192.0.2.54], services: [dns], pool: farm", "192.0.2.53], services: [doq], pool: other")
    shared = shared.replace(
        "vips:\n", "  other: {backends: [{name: o, ipv4: 192.0.2.13, mac: '02:00:00:00:01:03'}]}\nvips:\n"
    )
    assert prove(spec_of(shared)).ok
    with limited(shared) as harness:
        assert len(harness.send([error("192.0.2.53")])) == BACKENDS + 1
    dropped = SPEC.replace("pool: farm\n", "pool: farm\n    errors: drop\n").replace(
        "pool: farm}", "pool: farm, errors: drop}"
    )
    plan = build_plan(spec_of(dropped))
    assert not plan.rows.of(ErrorRow) and "errors" not in {row.limited.kind for row in plan.rows.of(MeterRow)}
    backends = "\n      - {{name: n{0}, ipv4: 10.0.{1}.{2}, mac: '02:00:00:01:{1:02x}:{2:02x}'}}"
    farm = "".join(backends.format(n, n >> 8, n & 255) for n in range(1, MAX_COPIES + 2))
    large = (
        "slots: 512\n    backends:" + farm + "\nvips:\n  dns: {addresses: [192.0.2.53], services: [dns], pool: farm}\n"
    )
    many = build_plan(spec_of(SPEC[: SPEC.index("slots: 16")] + large))
    assert not many.rows.of(ErrorRow)


KEPT = """
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  gateways: [192.0.2.1, '2001:db8::1']
  uplinks: {p0: {type: dummy, next_hop: '02:00:00:00:00:fe'}}
  ports: {v1: {type: dummy}}
pools:
  farm:
    slots: 16
    backends:
      - {name: a, ipv4: 192.0.2.11, ipv6: '2001:db8::11', mac: '02:00:00:00:01:01'}
      - {name: b, ipv4: 192.0.2.12, ipv6: '2001:db8::12', mac: '02:00:00:00:01:02', port: v1}
vips:
  dns: {addresses: [198.51.100.1, '2001:db8:1::1'], services: [dns, dot], pool: farm, keep: connections}
  other: {addresses: [198.51.100.2], services: [dns], pool: farm}
"""


def test_check_sees_whether_errors_go_to_the_backend_of_their_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = spec_of(KEPT)
    assert prove(loaded).failures == []
    monkeypatch.setattr(derived, "pools_of_kept_errors", lambda _: set())
    failures = prove(loaded).failures
    assert failures and all("ICMP error about a connection" in failure.vector for failure in failures)


def test_errors_to_one_and_to_each_are_counted(shared: Switch, tmp_path: Path) -> None:
    fresh(shared)
    run = on(shared)
    assert run("apply", spec_file(tmp_path, KEPT), "--yes").code == 0
    with agent(shared, tmp_path, "metrics at", "agent", *METRICS) as running:
        ether = Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:53")
        begin = ether / IP(src="198.18.0.1", dst="198.51.100.1") / TCP(sport=5000, dport=53, flags="S")
        for port in (5000, 5001, 5001):  # of the second one the tracker knows nothing
            about = IP(src="198.51.100.1", dst="198.18.0.1") / TCP(sport=53, dport=port, seq=1)
            router = ether / IP(src="198.18.9.9", dst="198.51.100.1") / ICMP(type=3, code=4, nexthopmtu=1280)
            frames = [begin] if port == 5000 else []
            for frame in (*frames, router / bytes(about)[:28]):
                shared.appctl("netdev-dummy/receive", "p0", bytes(frame).hex())
        seen = {"one": 1, "each": 2}
        wait(lambda: run("status", "--no-rates", "--json").json["icmp_errors"] == seen, running.said)
        words = "errors passed: 1 to the backend of their connection, 2 copied to each backend"
        assert words in run("status", "--no-rates").out
        name = "dnsteer_icmp_errors_total"
        wait(
            lambda: all(value(scrape(address(running)), name, receivers=to) == n for to, n in seen.items()),
            lambda: str(scrape(address(running))),
        )
