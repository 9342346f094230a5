# SPDX-License-Identifier: Apache-2.0
"""Meters on a private switch: what floods of ICMP and of queries make of it, and that probes do not count."""

from __future__ import annotations

import ipaddress
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, ICMPv6ND_NS, IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from dnsteer.plan.build import build_plan
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.reference.packets import Frame
from dnsteer.render.meters import meters_of
from dnsteer.spec.model.limits import least_burst
from dnsteer.switch.meters import bring_meters, read_meter_counts
from dnsteer.tables.meter_rows import MeterRow
from dnsteer.tables.slot import probe_numbers
from tests.packet.switches import spec_of

MAC, CLIENT = "02:00:00:00:00:53", "02:00:00:00:00:fe"
SPEC = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  uplinks: {p0: }
  probe: {port: probe0, addresses: [192.0.2.9/24, 2001:db8::9/64]}
  limits: {echo: 50/s}
pools:
  farm:
    slots: 16
    backends:
      - {name: ns1, ipv4: 192.0.2.11, ipv6: '2001:db8::11', mac: '02:00:00:00:01:01'}
      - {name: ns2, ipv4: 192.0.2.12, ipv6: '2001:db8::12', mac: '02:00:00:00:01:02'}
vips:
  dns:
    addresses: [192.0.2.53, '2001:db8::53']
    services: [dns, dot]
    pool: farm
    limits: {queries: 200/s, burst: 40}
  free: {addresses: [192.0.2.54], services: [dns], pool: farm}
"""
ECHO_RATE, ECHO_BURST = 50, 10
RATE, BURST = 200, 40
FLOOD = 3000


@contextmanager
def limited(text: str = SPEC) -> Iterator[Harness]:
    """A private switch with the spec's tables, and its meters at the rates of the spec."""
    plan = build_plan(spec_of(text))
    with Harness(plan) as harness:
        bring_meters(harness.openflow, (), meters_of(plan))
        time.sleep(1.1)  # their buckets are full again
        yield harness


def frame(packet: Packet, port: str = "p0", mac: str = MAC) -> Frame:
    return Frame(port, bytes(Ether(src=CLIENT, dst=mac) / packet))


def timed(harness: Harness, frames: list[Frame]) -> tuple[list[Frame], float]:
    """Send frames; return those that left, and the seconds that it took."""
    begun = time.monotonic()
    return harness.send(frames), time.monotonic() - begun


def counts(harness: Harness, vip: str, service: str = "", kind: str = "") -> tuple[int, int]:
    rows = (row for row in harness.plan.rows.of(MeterRow) if kind in ("", row.limited.kind))
    number = next(row.number for row in rows if (row.limited.vip, row.limited.service) == (vip, service))
    found = read_meter_counts(harness.openflow)[number]
    return found.packets, found.dropped


def test_a_flood_of_echo_requests_makes_as_many_megaflows_as_its_meter_lets_through() -> None:
    rng = random.Random(1)
    flood = []
    for _ in range(FLOOD // 2):
        flood.append(
            frame(
                IP(src=f"203.0.113.{rng.randrange(1, 255)}", dst=str(ipaddress.IPv4Address(rng.getrandbits(32))))
                / ICMP()
            )
        )
        target = str(ipaddress.IPv6Address(0x20010DB8 << 96 | rng.getrandbits(64)))
        flood.append(frame(IPv6(src="2001:db8:9::1", dst=target) / ICMPv6EchoRequest()))
    with limited() as harness:
        left, seconds = timed(harness, flood)
        assert left == []
        made = harness.megaflows()
        second = [flow for flow in made if flow.recirculated]
        # Two for each request that passed at most: none has an address before the meter.
        assert len(made) - len(second) == 2
        assert 0 < len(second) <= ECHO_RATE * (seconds + 1) + ECHO_BURST < FLOOD / 4
        packets, dropped = counts(harness, "", "vips")
        assert packets == FLOOD
        assert packets - dropped == len(second)
        time.sleep(1)
        ping = frame(IP(src="203.0.113.7", dst="192.0.2.53") / ICMP())
        ping6 = frame(IPv6(src="2001:db8:9::1", dst="2001:db8::53") / ICMPv6EchoRequest())
        assert len(harness.send([ping, ping6])) == 2


def test_solicitations_from_behind_a_router_make_one_megaflow() -> None:
    rng = random.Random(2)

    def solicitation(hops: int, target: str, code: int = 0) -> Frame:
        asked = IPv6(src="2001:db8:9::1", dst="ff02::1:ff00:53", hlim=hops) / ICMPv6ND_NS(tgt=target, code=code)
        return frame(asked, mac="33:33:ff:00:00:53")

    def targets() -> Iterator[str]:
        return (str(ipaddress.IPv6Address(0x20010DB8 << 96 | rng.getrandbits(64))) for _ in range(500))

    with limited() as harness:
        assert harness.send([solicitation(64, target) for target in targets()]) == []
        assert len(harness.megaflows()) == 1
        assert harness.send([solicitation(255, target, code=1) for target in targets()]) == []
        assert len(harness.megaflows()) == 2
        assert len(harness.send([solicitation(255, "2001:db8::53")])) == 1


def query(dst: str, sport: int, dport: int = 53, port: str = "p0") -> Frame:
    return frame(IP(src="203.0.113.7", dst=dst) / UDP(sport=sport, dport=dport) / b"query", port)


def test_a_vip_takes_queries_at_its_rate_and_others_are_not_touched() -> None:
    flood = [query("192.0.2.53", sport) for sport in range(2000, 2000 + FLOOD)]
    with limited() as harness:
        left, seconds = timed(harness, flood)
        assert BURST <= len(left) <= RATE * (seconds + 1) + BURST < FLOOD / 2
        assert counts(harness, "dns") == (FLOOD, FLOOD - len(left))
        assert len(harness.send([query("192.0.2.54", sport) for sport in range(2000, 3000)])) == 1000


def test_probes_pass_where_queries_are_limited() -> None:
    number = probe_numbers(spec_of(SPEC).spec.pools["farm"])["ns1"]
    with limited() as harness:
        harness.send([query("192.0.2.53", sport) for sport in range(2000, 2000 + FLOOD)])
        before = counts(harness, "dns")
        probes = [query("192.0.2.53", number << 4 | low, port="probe0") for low in range(16)] * 20
        assert len(harness.send(probes)) == len(probes)
        assert counts(harness, "dns") == before


def test_each_service_has_its_own_rate_where_the_spec_says_so() -> None:
    text = SPEC.replace("services: [dns, dot]", "services: [dns, doq]").replace(
        "burst: 40}", "burst: 40, per: service}"
    )
    with limited(text) as harness:
        harness.send([query("192.0.2.53", sport) for sport in range(2000, 2000 + FLOOD)])
        assert len(harness.send([query("192.0.2.53", sport, 853) for sport in range(2000, 2040)])) == 40
        assert counts(harness, "dns", "853/udp") == (40, 0)


def test_without_a_meter_all_echo_requests_are_answered() -> None:
    with limited(SPEC.replace("echo: 50/s", "echo: none")) as harness:
        assert not [row for row in harness.plan.rows.of(MeterRow) if row.limited.kind == "echo"]
        pings = [frame(IP(src=f"203.0.113.{n}", dst="192.0.2.53") / ICMP()) for n in range(1, 200)]
        assert len(harness.send(pings)) == len(pings)


def test_the_smallest_burst_that_a_spec_may_have_fills_again() -> None:
    """With less than a millisecond's packets a meter lets nothing pass any more once it is empty."""
    text = SPEC.replace("queries: 200/s, burst: 40", f"queries: 100k/s, burst: {least_burst(100_000)}")
    with limited(text) as harness:
        for _ in range(3):
            time.sleep(0.1)
            flood = [query("192.0.2.53", sport) for sport in range(2000, 2000 + FLOOD)]
            assert len(harness.send(flood)) > FLOOD / 2
