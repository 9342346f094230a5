# SPDX-License-Identifier: Apache-2.0
"""What capacity says of paths and VIPs: bounds, limits, shares of the hardware, what-ifs, JSON. No switch is needed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dnsteer.capacity.bounds import figures, latencies
from dnsteer.capacity.capacity_report import CapacityReport, beyond_limits, capacity_report
from dnsteer.capacity.card_setup import NoHardwareError, card_setup
from dnsteer.capacity.frame_sizes import TAG, DnsSizes, FrameError, empty_segment, mean, message, mix, parse_frame
from dnsteer.capacity.model import line_rate
from dnsteer.capacity.whatif import with_settings as what_if
from dnsteer.offload.packet_path import PacketPath, Verdict
from dnsteer.offload.profile import profile
from dnsteer.spec.errors import SpecError
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Hardware
from tests.unit.spec_text import SPEC, changed, load

TWO, THREE = Hardware.BLUEFIELD_2, Hardware.BLUEFIELD_3
BASE = PacketPath(
    vip="dns",
    service="udp/53",
    family="ipv4",
    direction="query",
    mode="dsr",
    selection="source-port",
    slots=64,
    rules=64,
    passes=1,
    masks=1,
    match_bytes=27,
    depth=1,
    rewrites=1,
    conntrack=False,
    offloaded="yes",
)
TCP = replace(BASE, service="tcp/53")
DOCA = changed(("flavor: ovs-netdev", "flavor: ovs-doca"))
TWICE = DOCA + "  other: {addresses: [192.0.2.54], services: [dns], pool: ns}\n"
FRAMES = ["64", "query", "answer", "imix", "jumbo"]


def asked(
    paths: Sequence[PacketPath] = (BASE, TCP), hardware: Hardware = THREE, text: str = DOCA, **more: Any
) -> CapacityReport:
    loaded = load(text)
    return capacity_report(loaded, card_setup(loaded, paths, hardware=hardware, **more), paths, FRAMES)


SHAPES = {
    "one table": BASE,
    "two tables": replace(BASE, depth=2, family="ipv6"),
    "thirty tables": replace(BASE, depth=30),
    "many rewrites": replace(BASE, rewrites=5),
    "millions of rules": replace(BASE, rules=3_000_000),
    "tracked": replace(BASE, conntrack=True),
    "not offloaded": replace(BASE, offloaded="no", rules=0),
    "partly offloaded": replace(BASE, offloaded="partial"),
    "not known": replace(BASE, offloaded="unknown"),
}


@pytest.mark.parametrize("hardware", list(Hardware))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("gbps", [1, 25, 100, 400])
def test_figures_are_possible(hardware: Hardware, shape: str, gbps: int) -> None:
    path = SHAPES[shape]
    loaded = load(changed(("bridge:", f"link_gbps: {gbps}\n  bridge:"), text=DOCA))
    setup = card_setup(loaded, [path], hardware=hardware)
    last = None
    for size in (64, 65, 100, 128, 400, 890, 1518, 9018):
        found = figures(setup, path, ((size, 1),))
        rate = found.rate
        assert 0 <= rate.low <= rate.value <= rate.high
        assert rate.high <= line_rate(gbps, size) * 1.0001
        assert rate.value == pytest.approx(min(b.value for b in found.bounds.values()))
        assert found.limit in found.bounds
        assert found.link_share <= 1.0001
        assert found.gbps.value <= gbps
        assert rate.kind == "reading" or rate.because or rate.kind == "interpolation"
        assert rate.rests_on
        if last is not None:
            assert rate.value <= last * 1.0001, "larger frames are not quicker"
        last = rate.value
    waits = latencies(setup, path, figures(setup, path, ((64, 1),)).rate)
    assert 0 < waits.low.value <= waits.loaded.value < 200


def test_the_limit_is_named() -> None:
    assert [f.limit for f in asked().groups[0].frames.values()] == ["switch", "switch", "link", "link", "link"]
    deep = asked([replace(BASE, depth=10)]).groups[0].frames
    assert (deep["64"].limit, deep["answer"].limit) == ("depth", "link")
    assert asked([replace(BASE, rules=3_000_000)], TWO).groups[0].frames["64"].limit == "entries"
    # BlueField-2 does not fill its link with large frames through 25 tables, or with connections tracked.
    assert asked([replace(BASE, depth=25)], TWO).groups[0].frames["jumbo"].limit == "depth"
    assert asked([replace(BASE, conntrack=True)], TWO).groups[0].frames["jumbo"].limit == "conntrack"
    for verdict in ("no", "partial", "unknown"):
        assert asked([replace(BASE, offloaded=verdict)]).groups[0].frames["64"].limit == "arm"  # type: ignore[arg-type]


def test_the_published_figures_of_a_balancer_on_bluefield_3_are_met() -> None:
    """96.7 Mpps at 64 B, 95 above, 100 Gb/s from 128 B (XenoFlow); this spec also rewrites one field."""
    loaded = load(DOCA)
    setup = card_setup(loaded, [BASE], hardware=THREE)
    small, larger, full = (figures(setup, BASE, ((size, 1),)) for size in (64, 100, 128))
    assert (small.rate.value, small.rate.kind, small.limit) == (pytest.approx(96.7), "reading", "switch")
    assert (larger.rate.value, larger.limit) == (pytest.approx(95.0), "switch")
    assert (full.rate.value, full.limit) == (pytest.approx(line_rate(100, 128)), "link")


def test_counters_and_rules_cost_what_table_ii_says() -> None:
    busy = replace(BASE, rewrites=0, rules=3_000_000)
    counted, silent = (asked([busy], TWO, counters=c).groups[0].frames["64"].rate for c in (True, False))
    assert (counted.value, counted.kind) == (pytest.approx(56.89), "reading")
    assert (silent.value, silent.kind) == (pytest.approx(100.05), "reading")
    between = asked([replace(busy, rules=2_500_000)], TWO).groups[0].frames["64"].rate
    assert between.kind == "interpolation"
    assert 56.89 < between.value < 64.58


def test_rules_of_all_paths_count_but_those_in_software() -> None:
    paths = [BASE, TCP, replace(BASE, vip="other", rules=1000, offloaded="no")]
    assert asked(paths, text=TWICE).setup.entries == 128


def test_arm_cores_forward_more_by_number_up_to_what_was_measured() -> None:
    path = replace(BASE, offloaded="no")
    rates = [asked([path], arm_cores=n).groups[0].frames["64"].rate.value for n in (1, 2, 4, 8, 16)]
    assert rates[0] == pytest.approx(25, rel=0.02)
    assert rates[1] == pytest.approx(50, rel=0.02)
    assert rates == sorted(rates)
    assert rates[-1] == rates[-2] == pytest.approx(61, rel=0.05)
    other = asked([path], TWO).groups[0].frames["64"].rate
    assert other.value < rates[0]
    assert other.low == 0  # nobody has published it
    assert any("Open vSwitch does more" in b for b in other.because)


def test_an_answer_takes_its_part_of_the_switch_and_of_the_link() -> None:
    answer = replace(BASE, direction="answer", rules=2)
    alone, both = asked([BASE]), asked([BASE, answer])
    assert alone.all.queries is not None
    assert both.all.queries is not None
    # The answers are large: query and answer share the uplink both ways.
    assert both.all.queries.limit == "link"
    assert both.all.queries.most.value == pytest.approx(100_000 / 8 / (100 + 20 + 890 + 20))
    small = asked([BASE, answer], sizes=DnsSizes(query=17, answer=17))
    assert small.all.queries is not None
    assert small.all.queries.most.value == pytest.approx(96.7 / 2, rel=0.01)


def test_backends_on_ports_of_their_own_leave_the_link_to_the_clients() -> None:
    ports = changed(
        ("    p0:\n", "    p0: {next_hop: 02:00:00:00:00:fe}\n  ports: {vf0: , vf1: }\n  gateways: [192.0.2.1]\n"),
        ("mac: 02:00:00:00:01:01}", "mac: 02:00:00:00:01:01, port: vf0}"),
        ("        mac: 02:00:00:00:01:02", "        mac: 02:00:00:00:01:02\n        port: vf1"),
        text=DOCA,
    )
    answer = replace(BASE, direction="answer", rules=2)
    found = asked([BASE, answer], text=ports).all.queries
    assert found is not None
    assert found.most.value == pytest.approx(100_000 / 8 / (890 + 20))  # answers out; queries in are smaller


def test_the_total_has_the_vips_in_equal_parts() -> None:
    slow = replace(BASE, vip="slow", depth=25)
    found = asked([BASE, slow], text=TWICE.replace("other:", "slow:"))
    one, other = (v.queries.most.value for v in found.vips if v.queries)
    assert found.all.queries is not None
    assert found.all.queries.most.value == pytest.approx(2 / (1 / one + 1 / other), rel=0.02)


def test_connections_are_packets_without_tracking_and_a_table_row_with_it() -> None:
    plain = asked().all.connections
    assert plain is not None
    assert 5 < plain.most.value < 10  # the published test did 10 million without any rewrite
    tracked = [replace(BASE, conntrack=True), replace(TCP, conntrack=True)]
    for flavor, kcps in (("ovs-doca", 298.91), ("ovs-dpdk", 298.91), ("ovs-kernel", 45.31)):
        port = "    p0: {options: {dpdk-devargs: '0000:03:00.0'}}\n" if flavor == "ovs-dpdk" else "    p0:\n"
        text = changed(("flavor: ovs-netdev", f"flavor: {flavor}"), ("    p0:\n", port))
        found = asked(tracked, text=text).all.connections
        assert found is not None
        assert (found.most.value, found.limit) == (pytest.approx(kcps / 1000), "conntrack")
    software = asked([replace(p, offloaded="no") for p in tracked], TWO, text=SPEC).all.connections
    assert software is not None
    assert software.most.value == pytest.approx(0.130)
    assert asked([BASE]).all.connections is None
    assert asked([TCP]).all.queries is None


def test_latency_goes_up_by_tables_tracking_and_cores() -> None:
    def low(path: PacketPath, hardware: Hardware = THREE) -> float:
        return asked([path], hardware).groups[0].latencies.low.value

    plain = replace(BASE, rewrites=0)
    assert low(plain) == pytest.approx(13.66)
    assert low(replace(plain, depth=25)) == pytest.approx(16.62)
    assert low(replace(plain, conntrack=True)) == pytest.approx(13.66 + 1.2, rel=0.02)
    assert low(replace(plain, conntrack=True), TWO) == pytest.approx(11.7)
    assert low(replace(plain, offloaded="no"), TWO) > low(plain, TWO)
    cores = asked([replace(plain, offloaded="no")], TWO).groups[0].latencies
    assert cores.loaded.value > cores.low.value + 30  # table V: 16 us at next to no load, more than 50 from 1 Mpps


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("64", 64), ("QUERY", 100), ("answer", 890), ("imix", 361.8), ("jumbo", 9018), ("9600", 9600)],
)
def test_frame_mixes_have_their_mean_size(text: str, bytes_: float) -> None:
    assert mean(mix(parse_frame(text), "ipv4", "udp", DnsSizes())) == pytest.approx(bytes_, abs=0.05)


@pytest.mark.parametrize("text", ["", "63", "9601", "-64", "64.5", "tiny", "٦٤", "1e3"])
def test_malformed_frame_options_are_refused(text: str) -> None:
    with pytest.raises(FrameError, match="expected query, answer, imix, jumbo or a size of 64 to 9600 bytes"):
        parse_frame(text)


def test_message_sizes_become_frame_sizes() -> None:
    assert message(54, "ipv4", "udp") == 14 + 20 + 8 + 54 + 4
    assert message(54, "ipv6", "tcp") == 14 + 40 + 32 + 2 + 54 + 4
    assert message(1, "ipv4", "udp") == 64
    assert (empty_segment("ipv4"), empty_segment("ipv6")) == (
        14 + 20 + 32 + 4,
        14 + 40 + 32 + 4,
    )  # with time stamps, as the messages
    assert message(54, "ipv4", "udp", TAG) == message(54, "ipv4", "udp") + 4
    assert empty_segment("ipv6", TAG) == empty_segment("ipv6") + 4


def test_the_tag_of_a_vlan_counts_in_each_frame() -> None:
    plain, tagged = (load(SPEC.replace("p0:", p0, 1)) for p0 in ("p0:", "p0: {vlan: 100}"))
    sizes = [card_setup(each, [], hardware=Hardware.BLUEFIELD_3).sizes for each in (plain, tagged)]
    assert [each.tag for each in sizes] == [0, 4]
    assert [mean(mix("query", "ipv4", "udp", each)) for each in sizes] == [100, 104]
    assert [mean(mix("64", "ipv4", "udp", each)) for each in sizes] == [64, 64]  # as it was asked for


# What if


def test_settings_change_the_spec_and_not_the_one_before() -> None:
    loaded = load(SPEC)
    found = what_if(
        loaded,
        [
            "pools.ns.selection=dp-hash",
            "$.pools.ns.slots = 16",
            "pools.ns.backends[1].weight=3",
            'vips["dns"].services=[dns, dot]',
            "switch.hardware=bluefield-2",
        ],
    ).spec
    pool = found.pools["ns"]
    assert (pool.selection.value, pool.slots, pool.backends[1].weight) == ("dp-hash", 16, 3)
    assert found.vips["dns"].services == ["dns", "dot"]
    assert found.switch.hardware is TWO
    assert loaded.spec == load(SPEC).spec


WRONG = {
    "pools.ns.selection=dphash": (
        '$.pools.ns.selection: found "dphash"; expected source-port, source-address, dp-hash, client or spray'
    ),
    "pools.ns.selection=client": "$.vips.dns: found selection client of pool ns without switch.extension",
    "vips.dns.forwarding=ipip": "$.vips.dns: found forwarding ipip without switch.extension",
    "pools.nss.selection=dp-hash": "$.pools.nss: found nothing there; expected a path of the spec",
    "pools.ns.selecton=dp-hash": 'found the unknown key "selecton"',
    "pools.ns.backends[2].weight=1": "$.pools.ns.backends[2]: found nothing there",
    "pools.ns.backends.a.weight=1": "$.pools.ns.backends.a: found nothing there",
    "apiVersion.x=1": "$.apiVersion.x: found nothing there",
    "pools.ns.slots=100": "expected a power of two",
    "pools.ns.selection": "found no such setting; expected a path and a value",
    "=1": "found no such setting",
    "a..b=1": "found no such setting",
    "pools.ns.slots=[": "$.pools.ns.slots: found",
    "vips.dns.forwarding=nat": "spec.yaml:4: $.switch.gateways: found no IPv4 gateway",  # what is in the file has a line
    "pools.ns.backends=": "$.pools.ns.backends: found nothing",
    "vips.dns=null": "$.vips.dns: found nothing; expected a mapping",
    "vips.dns= ~": "$.vips.dns: found nothing; expected a mapping",
}


@pytest.mark.parametrize("setting", WRONG)
def test_impossible_settings_are_refused(setting: str) -> None:
    with pytest.raises(SpecError) as caught:
        what_if(load(SPEC), [setting])
    assert WRONG[setting] in str(caught.value)


def test_without_hardware_the_known_ones_are_named() -> None:
    with pytest.raises(NoHardwareError, match="known are bluefield-2, bluefield-3"):
        card_setup(load(SPEC), [BASE])
    assert card_setup(load(changed(("bridge:", "hardware: bluefield-2\n  bridge:"))), [BASE]).hardware is TWO


# JSON


def keys(value: Any) -> Any:
    """The shape of a JSON value: keys, and of lists their first element."""
    if isinstance(value, dict):
        return {key: keys(v) for key, v in value.items()}
    return (
        [keys(value[0])] if isinstance(value, list) and value and isinstance(value[0], dict) else type(value).__name__
    )


ESTIMATE = {"value": "float", "low": "float", "high": "float", "kind": "str", "rests_on": "list", "because": "list"}
RATE = {**ESTIMATE, "limit": "str"}
RATES = {"queries_per_s": RATE, "new_connections_per_s": RATE}
VIP = {"vip": "str", "family": "str", **RATES}
SHAPE = {
    "file": "str",
    "hardware": "str",
    "flavor": "str",
    "link_gbps": "float",
    "arm_cores": "int",
    "counters": "bool",
    "hardware_rules": "int",
    "beyond_limits": "list",
    "dns_bytes": {"query": "int", "answer": "int"},
    "paths": [
        {
            "vip": "str",
            "services": "list",
            "family": "str",
            "direction": "str",
            "mode": "str",
            "selection": "str",
            "slots": "int",
            "rules": "int",
            "passes": "int",
            "depth": "int",
            "rewrites": "int",
            "conntrack": "bool",
            "offloaded": "str",
            "hops": "list",
            "bytes_longer": "float",
            "latency_us": {"low_load": ESTIMATE, "loaded": ESTIMATE},
            "frames": [
                {
                    "frame": "str",
                    "bytes": "float",
                    "mpps": ESTIMATE,
                    "gbps": ESTIMATE,
                    "link_share": "float",
                    "limit": "str",
                    "bounds_mpps": {"link": "float", "switch": "float"},
                }
            ],
        }
    ],
    "vips": [VIP],
    "pools": [{"pool": "str", "vips": "int", "hardware_rules": "int", **RATES}],
    "all": {**VIP, "family": "NoneType"},
    "notes": "list",
}


def test_the_shape_of_the_json_is_the_documented_one() -> None:
    found = json.loads(json.dumps(asked().as_json(), allow_nan=False))
    cited = found.pop("measurements")
    assert keys(found) == SHAPE
    assert all(set(words) == {"about", "where", "source"} for words in cited.values())
    named = {name for way in found["paths"] for frame in way["frames"] for name in frame["mpps"]["rests_on"]}
    assert named
    assert named <= set(cited)


@pytest.mark.parametrize("verdict", ["yes", "no", "partial", "unknown"])
def test_json_has_no_infinities(verdict: Verdict) -> None:
    paths = [replace(p, offloaded=verdict) for p in (BASE, TCP, replace(BASE, direction="answer"))]
    for hardware in Hardware:
        json.dumps(asked(paths, hardware).as_json(), allow_nan=False)


def test_exceeded_limits_are_named() -> None:
    loaded = load(DOCA)
    setup = card_setup(loaded, [replace(BASE, rules=5_000_000)], hardware=THREE)
    said = list(beyond_limits(setup, profile("ovs-doca"), 600_000))
    assert [text.split(" exceed ")[0] for text in said[:2]] == ["about 600,000 datapath flows"] * 2
    assert "the default flow-limit of 200,000: set other_config:flow-limit to 1,200,000" in said[0]
    assert "the 524,288 counters, of which each offloaded flow takes one (or other_config:flow-limit" in said[1]
    assert said[2].startswith("5,000,000 hardware rules are more than 4,000,000: ") and len(said) == 3
    assert list(beyond_limits(card_setup(loaded, [BASE], hardware=THREE), profile("ovs-doca"), 200_000)) == []


def test_notes_name_what_the_figures_leave_out() -> None:
    def notes(paths: Sequence[PacketPath] = (BASE,), text: str = DOCA, **more: Any) -> str:
        return " ".join(asked(paths, text=text, **more).notes)

    assert "not counted in depth" in notes()
    assert "--flavor ovs-doca" in notes([replace(BASE, offloaded="no")], SPEC)
    assert "dnsteer lint says why" in notes([replace(BASE, offloaded="partial")])
    assert "more than the card's 16" in notes(arm_cores=17)
    two = changed(("    p0:\n", "    p0:\n    p1:\n"), text=DOCA)
    assert "2 times the link" in notes(text=two)
    fast = changed(("bridge:", "link_gbps: 400\n  bridge:"), text=DOCA)
    assert "faster" not in notes(text=fast)
    assert "400 Gb/s is faster than the card's fastest, 200 Gb/s" in notes(text=fast, hardware=TWO)
    assert "500 Gb/s is faster than the card's fastest, 400 Gb/s" in notes(text=fast.replace("400", "500"))


def test_loaded_is_what_was_given() -> None:
    found = asked()
    assert isinstance(found.loaded, Loaded)
    assert [w.services for w in found.groups] == [("udp/53", "tcp/53")]
