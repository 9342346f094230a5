# SPDX-License-Identifier: Apache-2.0
"""Totals over restarts, what is read of the datapath and of ports, and what of the agent's work is kept."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from datetime import datetime, timezone

import pytest
from prometheus_client.exposition import generate_latest

from dnsteer.agent.backend_health import Health
from dnsteer.agent.effect import Effect
from dnsteer.agent.event_reporter import EventReporter
from dnsteer.agent.health_decision import Decision, PoolRules
from dnsteer.agent.panics import Panics
from dnsteer.agent.run import Agent
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.metrics.agent_metrics import AgentMetrics
from dnsteer.metrics.collect import Collector, _Made, read_drops
from dnsteer.metrics.datapath import DatapathReader
from dnsteer.metrics.families import BY_NAME, FAMILIES, metric_family
from dnsteer.metrics.family import Family
from dnsteer.metrics.observer import AgentObserver, AppliedBridge, CheckTurn, SwitchInspection
from dnsteer.metrics.switch_readings import read_ports
from dnsteer.metrics.totals import CounterReading, Totals
from dnsteer.slots.maintenance import Maintenance, Overlay
from dnsteer.spec.errors import DefinitionError
from dnsteer.status.agent_knowledge import UnannouncedPrefix
from dnsteer.switch.state import OVERLAY_KEY, STATE_KEY, BridgeRecord
from dnsteer.switch.tools import SwitchError
from dnsteer.tables.order import PIPELINE
from tests.unit.spec_text import SPEC, load
from tests.unit.thread_texts import FROM_4_0, JUST_CLEARED, UP_TO_3_7


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def sums(*readings: tuple[float, int, float | None]) -> list[int]:
    """The sum after each reading: when, packets, age."""
    clock = Clock()
    totals: Totals[str] = Totals(clock)
    found = []
    for when, packets, age in readings:
        clock.now = when
        totals.add([("flow", CounterReading((packets,), age))], lambda _: "vip")
        found.append(totals.sums["vip"][0])
    return found


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ([(0, 5, 1), (10, 9, 11), (20, 9, 21)], [5, 9, 9]),
        ([(0, 5, 1), (10, 3, 2)], [5, 8]),  # replaced
        ([(0, 5, 100), (10, 70, 2)], [5, 75]),  # replaced, and already more than before
        ([(0, 5, 1), (100, 7, 50)], [5, 12]),  # replaced, and older than it was
        ([(0, 5, 1), (10, 0, 11)], [5, 5]),
        ([(0, 5, None), (10, 3, None), (20, 4, None)], [5, 8, 9]),
        ([(0, 5, 1), (0.02, 6, 1.02), (0.1, 8, 1.05)], [5, 6, 8]),
    ],
)
def test_totals_add_the_differences_of_readings(
    readings: list[tuple[float, int, float | None]], expected: list[int]
) -> None:
    assert sums(*readings) == expected


def test_a_missing_counter_restarts_at_0_and_others_add_up() -> None:
    totals: Totals[str] = Totals(Clock())
    label = {"a": "vip", "b": "vip", "c": None}.get
    totals.add([("a", CounterReading((5, 50))), ("b", CounterReading((1, 10))), ("c", CounterReading((9, 90)))], label)  # type: ignore[arg-type]
    totals.add([("b", CounterReading((2, 20)))], label)  # type: ignore[arg-type]
    totals.add([("a", CounterReading((6, 60))), ("b", CounterReading((2, 20)))], label)  # type: ignore[arg-type]
    assert totals.sums["vip"] == [13, 130]
    totals.keep(["other"])
    assert totals.sums == {"other": []}


KERNEL = """\
netdev@ovs-netdev:
  lookups: hit:1 missed:1 lost:1
  flows: 77
system@ovs-system:
  lookups: hit:900 missed:100 lost:7
  flows: 3
  masks: hit:1800 total:4 hit/pkt:1.80
  cache: hit:5 hit-rate:1.00%
"""
UPCALLS = """\
system@ovs-system:
  flows         : (current 3) (avg 2) (max 9) (limit 20000)
  dump duration : 12ms
"""
DUMP = """\
ufid:1, recirc_id(0),in_port(1),eth_type(0x0800),ipv4(dst=192.0.2.53,frag=no), packets:5, bytes:1, used:1s, offloaded:yes, dp:tc, actions:2
ufid:2, recirc_id(0),in_port(1),eth_type(0x0800),ipv4(dst=192.0.2.54,frag=no), packets:6, bytes:1, used:1s, dp:ovs, actions:2
ufid:3, recirc_id(0),in_port(1),eth_type(0x86dd),ipv6(frag=no), packets:1, bytes:1, used:1s, dp:ovs, actions:2
"""  # noqa: E501 - as printed


class Switch:
    """Answers from texts, and counts what it was asked."""

    def __init__(self, **answers: str) -> None:
        self.answers, self.asked = answers, list[str]()
        self.named = list[str]()
        """The datapaths that commands named."""

    def run(self, command: str, *args: str) -> str:
        self.asked.append(command)
        self.named += [arg for arg in args if "@" in arg]
        name = re.sub(r"\W", "_", command)
        if name not in self.answers:
            raise SwitchError(f"{command}: not a valid command")
        return self.answers[name]


def kernel(dump: str = DUMP) -> Switch:
    return Switch(
        dpctl_show=KERNEL,
        upcall_show=UPCALLS,
        dpctl_dump_dps="netdev@ovs-netdev\nsystem@ovs-system\n",
        dpctl_dump_flows=dump,
    )


def test_the_datapath_of_the_kernel() -> None:
    found = DatapathReader(Clock()).read(kernel(), "system")
    assert found.counters == {"hits": 900, "upcalls": 100, "lost": 7, "mask_lookups": 1800}
    assert found.gauges == {
        "megaflows": 3,
        "masks": 4,
        "megaflows_limit": 20000,
        "revalidation_seconds": 0.012,
        "packets_lookups_ratio": 2.0,
        "megaflows_offloaded": 1,
    }
    assert found.mask_packets == {"nw_dst nw_frag": 11, "nw_frag": 1}
    for name in (*found.counters, *found.gauges):
        assert f"dnsteer_datapath_{name}" in BY_NAME or f"dnsteer_datapath_{name}_total" in BY_NAME


def netdev(threads: str) -> Switch:
    return Switch(
        dpctl_show=KERNEL,
        upcall_show=UPCALLS.replace("system@ovs-system", "netdev@ovs-netdev"),
        dpctl_dump_dps="netdev@ovs-netdev\n",
        dpctl_dump_flows=DUMP,
        dpif_netdev_pmd_stats_show=threads,
    )


@pytest.mark.parametrize(("threads", "cycles"), [(UP_TO_3_7, True), (FROM_4_0, False)])
def test_the_userspace_datapath_adds_its_threads(threads: str, *, cycles: bool) -> None:
    found = DatapathReader(Clock()).read(netdev(threads), "netdev")
    assert (found.counters["recirculations"], found.not_understood) == (105, "")
    assert found.gauges["packets_lookups_ratio"] == 2.5
    assert (found.gauges["megaflows"], found.gauges["masks"]) == (77, 2)
    first, second = "numa_id 0 core_id 1", "numa_id 1 core_id 2"
    assert {key: n for key, n in found.workers.items() if key[0] == "packets"} == {
        ("packets", first): 200,
        ("packets", second): 300,
        ("packets", "main"): 0,
    }
    assert {key[1:]: n for key, n in found.workers.items() if key[0] == "cycles"} == (
        {(first, "idle"): 1000, (first, "processing"): 9000, (second, "idle"): 900, (second, "processing"): 100}
        if cycles
        else {}
    )


def test_the_datapath_of_doca_3_5_is_found_by_its_own_name() -> None:
    switch = netdev(UP_TO_3_7)
    name = ("netdev@ovs-netdev", "doca@ovs-doca")
    switch.answers = {command: text.replace(*name) for command, text in switch.answers.items()}
    switch.answers["dpctl_dump_dps"] = "system@ovs-system\ndoca@ovs-doca\n"
    for datapath_type in ("netdev", "doca"):
        found = DatapathReader(Clock()).read(switch, datapath_type)
        assert (found.gauges["megaflows"], found.counters["recirculations"]) == (77, 105)
    assert set(switch.named) == {"doca@ovs-doca"}


def test_unknown_thread_statistics_are_left_out_and_named() -> None:
    found = DatapathReader(Clock()).read(netdev("main thread:\n  packets in: 7\n"), "netdev")
    assert "recirculations" not in found.counters and not found.workers
    assert "pmd-stats-show answers in a form that dnsteer does not know" in found.not_understood
    assert DatapathReader(Clock()).read(netdev(JUST_CLEARED), "netdev").not_understood == ""


def test_a_datapath_trouble_is_reported_once_and_its_metrics_end(monkeypatch: pytest.MonkeyPatch) -> None:
    switch, texts = netdev(UP_TO_3_7), list[str]()

    class Here(contextlib.nullcontext[Switch]):
        def __init__(self, *_: object) -> None:
            super().__init__(switch)

    monkeypatch.setattr("dnsteer.metrics.collect.Unixctl", Here)
    monkeypatch.setattr("dnsteer.metrics.collect.control_socket", lambda _: None)
    collector = Collector(TargetSwitch("unix:/nowhere"), AgentMetrics())
    agent = Agent.__new__(Agent)
    agent._observer = EventReporter(lambda text, *_, **__: texts.append(text))
    known = AppliedBridge("br-dns", None, load(SPEC).spec)  # type: ignore[arg-type]

    def read() -> set[str]:
        collector._read_datapath(known)
        agent.datapath_read(collector.not_understood)
        made = _Made({"switch": "dpu-1", "bridge": "br-dns"}, {})
        collector._add_traffic(made)
        return {*made.metrics}

    ours = {"dnsteer_datapath_recirculations_total", "dnsteer_datapath_worker_packets_total"}
    assert read() >= ours
    switch.answers["dpif_netdev_pmd_stats_show"] = "main thread:\n  packets in: 7\n"
    found = read(), read()
    assert not ours & found[0] and found[0] == found[1] and "dnsteer_datapath_hits_total" in found[0]
    (text,) = texts
    assert text.startswith(
        "the counters of the datapath's threads are left out: dpif-netdev/pmd-stats-show answers in a"
    )
    switch.answers["dpif_netdev_pmd_stats_show"] = FROM_4_0
    assert read() >= ours
    assert texts[1:] == ["what the datapath tells is understood again"]


def test_megaflows_are_dumped_once_a_minute_and_only_where_they_are_few() -> None:
    clock = Clock()
    reader, switch = DatapathReader(clock), kernel()
    for clock.now in (0, 1, 59, 61):
        reader.read(switch, "system")
    assert switch.asked.count("dpctl/dump-flows") == 2
    many = kernel()
    many.answers["dpctl_show"] = KERNEL.replace("flows: 3", "flows: 2001")
    clock.now = 1000
    assert reader.read(many, "system").mask_packets == {}
    assert "dpctl/dump-flows" not in many.asked


PORTS = """\
OFPST_PORT reply (OF1.5) (xid=0x2): 2 ports
  port  p0: rx pkts=3, bytes=200, drop=?, errs=0, frame=?, over=?, crc=?
           tx pkts=4, bytes=300, drop=9, errs=?, coll=?
           duration=0.166s
  port  "1 \\"odd: name": rx pkts=1, bytes=2, drop=?, errs=?, frame=?, over=?, crc=?
           tx pkts=?, bytes=?, drop=?, errs=?, coll=?
"""


def test_ports_are_read_with_odd_names_and_without_what_is_not_counted() -> None:
    assert list(read_ports(PORTS)) == [
        ("p0", "receive_packets", 3),
        ("p0", "receive_bytes", 200),
        ("p0", "receive_errors", 0),
        ("p0", "transmit_packets", 4),
        ("p0", "transmit_bytes", 300),
        ("p0", "transmit_dropped", 9),
        ('1 "odd: name', "receive_packets", 1),
        ('1 "odd: name', "receive_bytes", 2),
    ]


def test_drops_are_the_flows_without_a_way_out() -> None:
    head = " cookie=0xd453010000000000, duration=3.5s, table={}, n_packets={}, n_bytes={}, priority={} actions={}\n"
    vip, egress = (PIPELINE.tables[name].number for name in ("vip", "egress"))
    text = (
        head.format(0, 1, 10, "10,ip", "move:NXM_OF_ETH_DST[]->NXM_NX_XXREG3[0..47]")
        + head.format(10, 2, 20, "100,udp", f"goto_table:{vip}")
        + head.format(egress, 3, 30, "0", "drop")
        + head.format(egress, 4, 40, "5", "output:3")
        + head.format(PIPELINE.tables["fragment"].number, 5, 50, "5,udp", "ct(table=55,nat)")
    )
    assert list(read_drops(text)) == [
        (("ingress", "priority=10,ip"), CounterReading((1, 10), 3.5)),
        (("egress", "priority=0"), CounterReading((3, 30), 3.5)),
    ]


CHECK = ("farm", "ns1", "dns")


def text_of(metrics: AgentMetrics) -> str:
    return generate_latest(metrics.registry).decode()


def adopted(*checks: tuple[str, str, str]) -> AgentMetrics:
    metrics = AgentMetrics()
    metrics.adopted(AppliedBridge("br0", None, None), checks)  # type: ignore[arg-type]
    return metrics


def test_a_backend_is_healthy_by_a_check_when_all_of_its_targets_are() -> None:
    metrics = adopted(CHECK, CHECK)
    line = 'dnsteer_check_healthy{backend="ns1",check="dns",pool="farm"} '
    assert line + "1.0" in text_of(metrics)
    for healthy, expected in ((False, 0), (False, 0), (True, 0), (True, 1)):
        metrics.turned(CheckTurn(CHECK, healthy=healthy))
        assert f"{line}{expected}.0" in text_of(metrics)


def test_results_of_checks_go_on_over_an_apply_and_those_that_are_gone_are_forgotten() -> None:
    gone = ("old", "ns9", "tcp")
    metrics = adopted(CHECK, gone)
    for check in (CHECK, gone):
        metrics.checked(check, 0.003, good=True)
    assert 'pool="old"' in text_of(metrics)
    metrics.adopted(AppliedBridge("br0", None, None), [CHECK])  # type: ignore[arg-type]
    metrics.checked(gone, 0.003, good=True)  # its probe was under way
    metrics.turned(CheckTurn(gone, healthy=False))
    text = text_of(metrics)
    assert 'pool="old"' not in text
    assert 'dnsteer_check_results_total{backend="ns1",check="dns",outcome="good",pool="farm"} 1.0' in text
    assert 'dnsteer_check_results_total{backend="ns1",check="dns",outcome="bad",pool="farm"} 0.0' in text


def test_a_panic_goes_on_over_an_apply_and_is_counted_once() -> None:
    metrics = adopted(CHECK)
    metrics.panicked("farm", ("",))
    metrics.panicked("farm", ("",))  # another of its services
    metrics.adopted(AppliedBridge("br0", None, None), [CHECK])  # type: ignore[arg-type]
    for line, panics in (("1.0", False), ("0.0", True)):
        assert f'dnsteer_pool_panic{{pool="farm"}} {line}' in text_of(metrics)
        assert 'dnsteer_agent_panics_total{pool="farm"} 1.0' in text_of(metrics)
        if not panics:
            metrics.panicked("farm", ())
    metrics.adopted(AppliedBridge("br0", None, None), [])  # type: ignore[arg-type]
    assert "farm" not in text_of(metrics)


def test_changes_are_counted_by_kind_without_those_at_the_start() -> None:
    metrics = AgentMetrics()
    entry = Maintenance("farm", "ns1", "drain", "2026-01-01T00:00:00+00:00", "me")
    down = Maintenance("farm", "ns2", "down", "2026-01-01T00:00:00+00:00", "me")

    def counted(number: int, *entries: Maintenance) -> dict[str, float]:
        ids = {STATE_KEY: str(number), OVERLAY_KEY: Overlay(entries).to_json()}
        metrics.followed(BridgeRecord("u", "v", "br0", ids, {}, "s", "n", False))
        found = re.findall(r'dnsteer_changes_total\{kind="(\w+)"\} (\S+)', text_of(metrics))
        return {kind: float(n) for kind, n in found if float(n)}

    assert counted(1, entry) == {}
    assert counted(1, entry) == {}
    assert counted(1, replace(entry, gone=500), down) == {"drain": 1, "down": 1}
    assert counted(2, down) == {"apply": 1, "drain": 2, "down": 1}


def test_differences_that_stay_and_those_that_were_repaired() -> None:
    metrics = AgentMetrics()
    metrics.inspected(SwitchInspection(flows=3, settings=1, foreign=("", "")), repaired=False, seconds=0.0)
    assert "dnsteer_drift_differences 4.0" in text_of(metrics) and "dnsteer_foreign_flows 2.0" in text_of(metrics)
    metrics.inspected(SwitchInspection(flows=3, settings=1), repaired=True, seconds=0.0)
    text = text_of(metrics)
    assert "dnsteer_drift_differences 0.0" in text
    assert 'dnsteer_drift_found_total{kind="flows"} 6.0' in text
    assert 'dnsteer_drift_repaired_total{kind="settings"} 1.0' in text


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_names_keep_to_the_conventions(family: object) -> None:
    f = BY_NAME[getattr(family, "name", "")]
    assert re.fullmatch(r"dnsteer_[a-z][a-z_]*", f.name)
    assert (f.type == "histogram") == bool(f.buckets)
    assert f.type != "histogram" or f.name.endswith("_seconds")
    assert not re.search(r"_(ms|percent|count|sum|bucket|created)$", f.name)
    assert f.bound
    assert len(set(f.all_labels)) == len(f.all_labels) and "le" not in f.labels
    if f.panel is not None:
        assert set(f.panel.by) <= {*f.labels, "instance"}  # the target, which Prometheus adds


def test_families_that_are_defined_wrongly_are_refused() -> None:
    with pytest.raises(
        DefinitionError,
        match=r"test_metrics.py:\d+: metric dnsteer_pools: help= is a sentence that ends with a full stop",
    ):
        Family("dnsteer_pools", "gauge", "State", "")
    for kind, name in (("counter", "dnsteer_pools"), ("gauge", "dnsteer_pools_total")):
        with pytest.raises(DefinitionError, match=f"metric {name}: the name of a counter ends in _total"):
            Family(name, kind, "State", "Pools.")  # type: ignore[arg-type]
    with pytest.raises(
        DefinitionError, match=r"metric dnsteer_pools: found row 'Pool'; expected one of Traffic, Backends"
    ):
        Family("dnsteer_pools", "gauge", "Pool", "Pools.")  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match='called dnsteer_backend_slot; did you mean "dnsteer_backend_slots"'):
        metric_family("dnsteer_backend_slot")


def test_series_have_a_value_for_each_label_of_the_family() -> None:
    with pytest.raises(
        DefinitionError,
        match=r"dnsteer_pool_slots has the labels pool, title; found the values \('farm', 'farm', '4'\)",
    ):
        _Made({"switch": "dpu-1", "bridge": "br-dns"}, {}).add("dnsteer_pool_slots", ("farm", "farm", "4"), 1)


def test_a_panic_of_one_service_is_a_panic_of_the_pool() -> None:
    told: list[tuple[str, bool]] = []

    class Told(AgentObserver):
        def panicked(self, pool: str, services: tuple[str, ...], *_: object) -> None:
            told.append((pool, bool(services)))

    rules = {
        name: PoolRules(pool, {"a": 1, "b": 1}, 0.5, 0)
        for name, pool in (("udp", "farm"), ("tls", "farm"), ("far", "far"))
    }
    panics = Panics(Health(), Told())
    for slots, panicking in (("udp", True), ("tls", True), ("udp", False), ("tls", False)):
        panics.follow(Effect(None, {slots: Decision((), panics=panicking)}), rules)
    assert told == [("farm", True), ("farm", True), ("farm", True), ("farm", False)]


def test_vips_that_are_announced_and_the_role() -> None:
    metrics = AgentMetrics()
    lacking = UnannouncedPrefix(
        "2001:db8::/48", "0 of its 1 VIPs may be announced, needed: 1", datetime.now(timezone.utc)
    )
    metrics.announcements_changed(
        {"dns": True, "dot": False}, {"dot": 1.5e9}, {}, {"192.0.2.0/24": None, "2001:db8::/48": lacking}
    )
    metrics.role(standby=True)
    value = metrics.registry.get_sample_value
    found = [value("dnsteer_vip_announced", {"vip": vip}) for vip in ("dns", "dot", "other")]
    assert (found, value("dnsteer_switch_standby")) == ([1.0, 0.0, None], 1.0)
    held = [value("dnsteer_vip_held_until_timestamp_seconds", {"vip": vip}) for vip in ("dns", "dot")]
    assert held == [None, 1.5e9]
    routes = [value("dnsteer_prefix_announced", {"prefix": prefix}) for prefix in ("192.0.2.0/24", "2001:db8::/48")]
    assert routes == [1.0, 0.0]
    metrics.announcements_changed({}, {}, {}, {})
    assert value("dnsteer_vip_announced", {"vip": "dns"}) is None
    assert value("dnsteer_vip_held_until_timestamp_seconds", {"vip": "dot"}) is None
