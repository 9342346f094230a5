# SPDX-License-Identifier: Apache-2.0
"""Limits of clients and of TCP SYN on a private switch: whose queries share a bucket, and that others are left alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest
from bench.repeated import repeated
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet

from dnsteer.checks.load import load_spec
from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.run import Options, deploy
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.metrics.agent_metrics import AgentMetrics
from dnsteer.metrics.collect import Collector
from dnsteer.metrics.observer import AppliedBridge
from dnsteer.proof.check import prove
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.reference.clients import ClientReference
from dnsteer.proof.reference.outcome import Frame
from dnsteer.status.limit_drops import limit_drops
from dnsteer.status.verify import find_drift
from dnsteer.switch.meters import MeterCount, read_meter_counts
from dnsteer.switch.openflow import OpenFlow
from dnsteer.tables.meter_rows import MeterRow
from dnsteer.tables.slot import probe_numbers
from tests.packet.apply_spec import apply
from tests.packet.command import on
from tests.packet.packets_across_changes import captured, revalidated
from tests.packet.switches import EXAMPLES, SMALL, Switch, spec_of
from tests.packet.test_limits import CLIENT, SPEC, frame, limited

LIMITS = "limits: {queries: 200/s, burst: 40}"
CLIENTS = SPEC.replace(LIMITS, "limits: {clients: {rate: 50/s, burst: 20, buckets: 64}}")
SYN = SPEC.replace(LIMITS, "limits: {tcp_syn: 50/s}")
RATE, BURST, FLOOD = 50, 20, 2000
SLOTS = 16


def query(client: str, sport: int = 4000, port: str = "p0", layer: Packet | None = None) -> Frame:
    version = ip_address(client).version
    head = IP(src=client, dst="192.0.2.53") if version == 4 else IPv6(src=client, dst="2001:db8::53")
    return frame(head / (layer or UDP(sport=sport, dport=53)) / b"query", port)


def buckets(harness: Harness) -> dict[int, MeterCount]:
    """What each bucket has met that has met anything."""
    found = read_meter_counts(harness.openflow)
    rows = [row for row in harness.plan.rows.of(MeterRow) if row.limited.kind == "clients"]
    return {row.bucket: found[row.number] for row in rows if found[row.number].packets}


def test_clients_of_one_prefix_share_a_bucket_and_those_of_the_next_do_not() -> None:
    clients = [
        *("203.0.113.7", "203.0.113.250", "203.0.112.7", "203.0.49.7"),  # 49 and 113 have the same last six bits
        *("2001:db8:9:100::1", "2001:db8:9:1ff:5::1", "2001:db8:9:200::1"),
    ]
    reference = ClientReference(spec_of(CLIENTS).spec)
    wanted: dict[int, int] = {}
    for client in clients:
        bucket = reference.bucket("dns", ip_address(client).packed)
        assert bucket is not None
        wanted[bucket] = wanted.get(bucket, 0) + 1
    assert wanted == {49: 3, 48: 1, 1: 2, 2: 1}
    with limited(CLIENTS) as harness:
        assert len(harness.send([query(client) for client in clients])) == len(clients)
        assert {bucket: count.packets for bucket, count in buckets(harness).items()} == wanted


def test_a_flood_of_one_prefix_leaves_the_queries_of_others_alone() -> None:
    others = [f"198.51.{third}.{host}" for third in range(100, 110) for host in (1, 2)]
    good = [query(client, 5000 + n) for client in others for n in range(3)]
    flood = [query(f"203.0.113.{1 + n % 250}", 2000 + n) for n in range(FLOOD)]
    step = FLOOD // len(good)
    mixed = [each for n, one in enumerate(good) for each in (*flood[n * step : (n + 1) * step], one)]
    with limited(CLIENTS) as harness:
        begun = time.monotonic()
        left = harness.send(mixed)
        seconds = time.monotonic() - begun
        dropped = {bucket: count.dropped for bucket, count in buckets(harness).items() if count.dropped}
        assert [*dropped] == [113 % 64]
        passed = len(left) - len(good)
        assert BURST <= passed <= RATE * (seconds + 1) + BURST < FLOOD / 4
        assert sum(dropped.values()) == len(mixed) - len(good) - passed


def test_buckets_and_slots_add_up_and_do_not_multiply() -> None:
    some = [query(f"198.18.{third}.1", sport) for third in range(64) for sport in range(4000, 4000 + 2 * SLOTS, 2)]
    with limited(CLIENTS) as harness:
        harness.send(some[::3])
        made = harness.megaflows()
        again = [flow for flow in made if flow.recirculated]
        assert (len(made) - len(again), len(again)) == (64, SLOTS)


def test_probes_pass_no_bucket() -> None:
    number = probe_numbers(spec_of(CLIENTS).spec.pools["farm"])["ns1"]
    with limited(CLIENTS) as harness:
        probes = [query("203.0.113.7", number << 4 | low, "probe0") for low in range(16)] * 20
        assert len(harness.send(probes)) == len(probes)
        assert buckets(harness) == {}


def tcp(sport: int, flags: str, dport: int = 53) -> Frame:
    return query("203.0.113.7", layer=TCP(sport=sport, dport=dport, flags=flags))


def test_a_limit_of_syn_drops_what_begins_connections_and_nothing_else() -> None:
    with limited(SYN) as harness:
        assert len(harness.send([tcp(2000 + n, flags) for n in range(300) for flags in ("A", "PA", "SA", "F")])) == 1200
        begun = time.monotonic()
        left = len(harness.send([tcp(2000 + n, "S") for n in range(FLOOD)]))
        assert 10 <= left <= RATE * (time.monotonic() - begun + 1) + 10 < FLOOD / 4
        assert len(harness.send([query("203.0.113.7", 2000 + n) for n in range(300)])) == 300  # UDP is no TCP
    with limited(SYN.replace("tcp_syn: 50/s}", "tcp_syn: 50/s, per: service}")) as harness:
        harness.send([tcp(2000 + n, "S") for n in range(500)])
        assert len(harness.send([tcp(2000 + n, "S", 853) for n in range(10)])) == 10


BOTH = "limits: {queries: 1M/s, clients: {rate: 9k/s, buckets: 16}, tcp_syn: 5k/s}"


@pytest.mark.parametrize(
    ("change", "passes"),
    [
        (("slots: 16", "slots: 16"), 2),
        (("slots: 16", "{slots: 16, passes: 2}"), 3),
        (("slots: 16", "{slots: 16, selection: dp-hash}"), 3),
        ((BOTH, f"{BOTH}\n    access: {{deny: [203.0.113.0/24, '2001:db8:9::/48']}}"), 3),
        ((BOTH, f"{BOTH}\n    forwarding: nat"), 2),
    ],
    ids=["one pass", "two passes", "dp-hash", "access list", "nat"],
)
def test_it_goes_with_what_else_takes_a_pass(change: tuple[str, str], passes: int) -> None:
    before, after = change
    text = SPEC.replace(LIMITS, BOTH)
    if after.startswith("{"):
        text = text.replace("    slots: 16\n", "".join(f"    {part}\n" for part in after.strip("{}").split(", ")))
    else:
        text = text.replace(before, after)
    text = text.replace(
        "  uplinks: {p0: }", f"  gateways: [192.0.2.1, '2001:db8::1']\n  uplinks: {{p0: {{next_hop: '{CLIENT}'}}}}"
    )
    report = prove(spec_of(text))
    assert report.ok, [str(each) for each in report.failures[:3]]
    assert report.recirculations
    with limited(text) as harness:
        harness.send([query("198.51.100.7")])
        assert len(harness.megaflows()) == passes


def test_it_goes_with_the_extension() -> None:
    loaded = load_spec(EXAMPLES / "ipip.yaml")
    name = next(iter(loaded.spec.vips))
    text = (EXAMPLES / "ipip.yaml").read_text()
    text = text.replace(
        f"  {name}:\n", f"  {name}:\n    limits: {{clients: {{rate: 9k/s, buckets: 16}}, tcp_syn: 5k/s}}\n"
    )
    assert prove(spec_of(text)).ok


@pytest.fixture
def switch() -> Iterator[Switch]:
    with Switch() as private:
        private.expected = ["connection dropped", "Connection reset by peer", "Broken pipe"]
        yield private


MANY = SMALL.replace("pool: farm}", "pool: farm, limits: {clients: {rate: 100/s, buckets: 4096}}}")


def test_4096_buckets_come_and_go_in_one_apply_and_not_one_by_one(switch: Switch) -> None:
    apply(spec_of(SMALL), switch.database)
    begun = time.monotonic()
    for text, meters in ((MANY, 4096), (MANY.replace("100/s", "200/s"), 4096), (SMALL, 0)):
        apply(spec_of(text), switch.database)
        assert switch.ofctl("dump-meters").count("meter=") == meters + 2  # and those of echo requests and ICMP errors
        assert find_drift(spec_of(text), switch.database) == []
    assert time.monotonic() - begun < 30  # one command for each would take two minutes


def test_buckets_work_on_a_switch_that_stands_by(switch: Switch) -> None:
    paired = MANY.replace("  uplinks:", "  pair: twins\n  uplinks:").replace("4096", "16")
    apply(spec_of(paired), switch.database)
    assert on(switch)("role", "standby").code == 0
    apply(spec_of(paired.replace("100/s", "300/s")), switch.database)
    assert "rate=300" in switch.ofctl("dump-meters")


def test_who_is_limited_is_in_status_and_metrics() -> None:
    loaded = spec_of(CLIENTS)
    known = AppliedBridge("br-dns", None, loaded.spec)  # type: ignore[arg-type]
    collector = Collector(TargetSwitch("unix:/nowhere"), AgentMetrics())
    with limited(CLIENTS) as harness:
        collector._read_meters(harness.openflow, known)
        before = read_meter_counts(harness.openflow)
        harness.send([query("203.0.113.7", 2000 + n) for n in range(FLOOD)])
        harness.send([query("2001:db8:9:200::1", 2000 + n) for n in range(BURST * 5)])
        after = read_meter_counts(harness.openflow)
        collector._read_meters(harness.openflow, known)
        (drops,) = limit_drops(loaded.spec, before, after, 2.0)
        assert (drops.vips, drops.limited.kind, drops.buckets, drops.dropping) == (("dns",), "clients", 64, 2)
        assert [(each.bucket, each.sources) for each in drops.worst] == [
            (49, ("0.0.49.0/0.0.63.0", "0:0:0:3100::/0:0:0:3f00::")),
            (2, ("0.0.2.0/0.0.63.0", "0:0:0:200::/0:0:0:3f00::")),
        ]
        assert drops.text.startswith("VIP dns: ")
        total = sum(count.dropped for count in buckets(harness).values())
        assert drops.rate == total / 2
    (limited_by,) = [of for of in collector._limited.sums if of.kind == "clients"]
    assert (limited_by.vip, collector._limited.sums[limited_by]) == ("dns", [total])
    assert collector._dropping == {"dns": 2}
    assert limit_drops(loaded.spec, after, after, 1.0) == []


def test_status_says_what_limits_drop_now(switch: Switch) -> None:
    apply(spec_of(SMALL.replace("pool: farm}", "pool: farm, limits: {queries: 20/s}}")), switch.database)
    assert on(switch)("status", "--json", "--no-verify").json["limited"] == []
    flood = [query("203.0.113.7", sport).data.hex() for sport in range(2000, 2090)]
    with repeated(lambda: switch.appctl("netdev-dummy/receive", "p0", *flood), every=0.05):
        found = on(switch)("status", "--json", "--no-verify").json
        shown = on(switch)("status", "--no-verify")
    (drops,) = found["limited"]
    assert (drops["kind"], drops["vips"], drops["service"]) == ("queries", ["dns"], None)
    assert drops["packets_per_second"] > 50
    assert "packets/s are dropped by its limit of queries" in shown.out
    assert shown.code == 0  # a limit does what it is for


def test_a_query_between_its_list_and_its_bucket_is_not_lost_by_a_change(
    switch: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the datapath follows the tables, its flow of the list gives queries to the bucket of the limit that was."""
    bundle, out = OpenFlow.bundle, tmp_path / "p0.pcap"
    clients = iter(f"203.0.{third}.7" for third in range(256))

    def ask() -> None:
        """A query of a client in the same window of the list, and in a bucket that no query was in before."""
        before = out.stat().st_size
        switch.appctl("netdev-dummy/receive", "p0", query(next(clients)).data.hex())
        deadline = time.monotonic() + 2
        while out.stat().st_size == before:
            assert time.monotonic() < deadline, "the query is lost"
            time.sleep(0.005)

    def watched(self: OpenFlow, lines: list[str]) -> None:
        ask()
        switch.appctl("revalidator/pause")
        bundle(self, lines)
        ask()
        switch.appctl("revalidator/resume")
        revalidated(switch)
        ask()

    listed = SMALL.replace("  uplinks:", "  access: {deny: [198.51.100.9]}\n  uplinks:")
    limit = listed.replace("pool: farm}", "pool: farm, limits: {clients: {rate: 9k/s, buckets: 256}}}")
    texts = [captured(text, tmp_path, ["p0"]) for text in (limit, limit.replace("9k", "8k"), listed)]
    apply(spec_of(texts[0]), switch.database)
    monkeypatch.setattr(OpenFlow, "bundle", watched)
    for text in texts[1:]:
        deploy(FileSource(spec_of(text)), TargetSwitch(switch.database), Options(grace=0.1))
    assert switch.ofctl("dump-meters").count("meter=") == 2
    assert find_drift(spec_of(texts[-1]), switch.database) == []
