# SPDX-License-Identifier: Apache-2.0
"""`status` on a real switch, under real packets: what it says of one that is as it should be."""

from __future__ import annotations

import re
import time
from collections import Counter
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address

import pytest

from dnsteer.cli.output import Exit
from dnsteer.deploy.overlay_change import change_overlay
from dnsteer.deploy.overlay_edits import advance
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.slots.maintenance import Maintenance, Overlay
from dnsteer.status import counters
from dnsteer.status.rates import rates_between
from dnsteer.switch.session import Session
from dnsteer.switch.state import AppliedState
from tests.packet.command import on
from tests.packet.status_cases import NOW, backends, deployed, insert_by_start, load, out, status
from tests.packet.switches import BRIDGE, LARGE, SLOT_TABLE, VIP_TABLE, Switch, cli, spec_of

MANY = spec_of(LARGE)
KEYS = {
    "ok",
    "bridge",
    "switch",
    "state",
    "reachable",
    "reason",
    "tables",
    "flow_restore_wait",
    "interrupted",
    "interval",
    "vips",
    "pools",
    "access",
    "limits",
    "icmp_errors",
    "limited",
    "overlay",
    "denials",
    "agent",
    "attention",
    "role",
    "withdrawn",
    "drift",
    "drift_count",
    "warnings",
    "errors",
}


def record_of(target: TargetSwitch) -> AppliedState:
    with Session(target.remote) as session:
        return session.state(session.record_of(None), 1)


def test_a_healthy_switch_has_no_warnings(switch: Switch) -> None:
    deployed(switch)
    found = status(switch)
    assert set(found) == KEYS
    assert (found["bridge"], found["switch"], found["tables"]) == (BRIDGE, "dpu-1", "recorded")
    assert (found["role"], found["withdrawn"]) == ({"role": "none"}, {})
    state = found["state"]
    assert set(state) == {"state", "applied", "by", "note", "spec_file", "digest", "version", "decision"}
    assert (state["state"], state["note"], state["spec_file"]) == (1, "change 4711", "spec.yaml")
    assert abs((datetime.fromisoformat(state["applied"]) - datetime.now(timezone.utc)).total_seconds()) < 30
    assert (found["drift"], found["drift_count"], found["errors"], found["warnings"]) == ([], 0, [], [])
    assert (found["overlay"], found["interrupted"], found["flow_restore_wait"]) == ([], None, False)
    assert found["interval"] >= 0.5
    assert [v["name"] for v in found["vips"]] == ["nat", "straight"]
    assert found["vips"][0]["addresses"] == ["198.51.100.53", "2001:db8:1::53"]
    assert [(s["protocol"], s["port"]) for s in found["vips"][0]["services"]] == [("udp", 53), ("tcp", 53)]
    assert (found["vips"][0]["pool"], found["vips"][0]["forwarding"]) == ("hashed", "nat")
    for pool, slots in (("hashed", 16), ("direct", 32)):
        here = backends(found, pool).values()
        assert [(b["state"], b["slots"], b["own_slots"]) for b in here] == [("up", slots // 2, slots // 2)] * 2
    assert {b["packets_per_second"] for p in found["pools"] for b in p["backends"]} == {0}


def test_every_packet_is_counted_once(switch: Switch) -> None:
    """For its VIP and for its backend, UDP apart from TCP, by the pool's slots and by its group."""
    target = deployed(switch)
    out(target, "direct/a")
    client, (hashed, direct) = target.client(BRIDGE), record_of(target).members
    before = counters.take_counters(client)
    for address in ("198.51.100.53", "198.51.100.54"):
        for _ in range(5):
            insert_by_start(switch, address, udp=40, tcp=20)
    ways = {m.name: [counters.BackendKey(direct.number, m.number, p) for p in ("udp", "tcp")] for m in direct.members}
    pool = [counters.BackendKey(hashed.number, m.number, p) for m in hashed.members for p in ("udp", "tcp")]
    sample = dict(before)

    def counted(keys: list[counters.Key]) -> list[int]:
        """Packets, and those by UDP."""
        here = [(key, count.packets) for (key, _), count in sample.items() if key in keys]
        return [sum(n for _, n in here), sum(n for key, n in here if key.protocol == "udp")]

    deadline = time.monotonic() + 20
    while sum(count.packets for count in sample.values()) < 1200 and time.monotonic() < deadline:
        sample = dict(counters.take_counters(client))
    assert counted([*ways["c"]]) == counted([*pool]) == [300, 200]
    assert counted([*ways["a"]]) == [0, 0]
    for address in ("198.51.100.53", "198.51.100.54"):
        assert counted([counters.CountedService(p, ip_address(address), 53) for p in ("udp", "tcp")]) == [300, 200]
    rates = rates_between(before, sample)
    rate = rates.of(ways["c"])
    assert rates.seconds and rate.packets and rate.queries
    assert [rate.packets * rates.seconds, rate.queries * rates.seconds] == pytest.approx([300, 200], rel=0.1)


def test_rates_are_those_of_the_load(switch: Switch) -> None:
    """Roughly: on a busy machine neither the load nor the switch keeps its pace."""
    target = deployed(switch)
    out(target, "direct/a")
    with load(switch, "198.51.100.54", udp=400, tcp=200):
        found = status(switch, "--no-verify", "--interval", "2s")
        people = cli(
            "status", "--db", switch.database, "--no-verify", "--interval", "0.5s", env={"COLUMNS": "120"}
        ).stdout
    (nat, straight), direct = found["vips"], backends(found, "direct")
    assert found["interval"] >= 2
    for rates in (straight, direct["c"]):
        assert 60 < rates["packets_per_second"] < 1200
        assert rates["queries_per_second"] == pytest.approx(rates["packets_per_second"] * 2 / 3, rel=0.3)
    udp, tcp = (s["packets_per_second"] for s in straight["services"])
    assert udp == straight["queries_per_second"]
    assert udp + tcp == pytest.approx(straight["packets_per_second"], abs=0.2)
    assert nat["packets_per_second"] == direct["a"]["packets_per_second"] == 0
    asked, quiet = straight["by_address"]
    assert asked == {
        "address": "198.51.100.54",
        **{k: straight[k] for k in ("packets_per_second", "queries_per_second")},
    }
    assert quiet == {"address": "2001:db8:1::54", "packets_per_second": 0, "queries_per_second": 0}
    packets = re.search(r"198\.51\.100\.54 .* ([0-9.,]+) +[0-9.,]+\n", people)
    assert packets and float(packets[1].replace(",", "")) > 0
    assert re.search(r"2001:db8:1::54 +0 +0\n", people)


def test_flows_that_were_loaded_anew_give_no_rate(switch: Switch) -> None:
    client = deployed(switch).client(BRIDGE)
    before = counters.take_counters(client)
    lines = [f for f in switch.flows() if f"{VIP_TABLE}," in f and "udp,nw_dst=198.51.100.54" in f]
    assert len(lines) == 1
    head, actions = lines[0].split(" actions=")
    switch.ofctl("del-flows", f"{VIP_TABLE},udp,nw_dst=198.51.100.54")
    switch.ofctl("add-flow", head.replace(", ", ",") + ",actions=" + actions)
    rates = rates_between(before, counters.take_counters(client)).by_key
    unknown = [key for key, rate in rates.items() if rate is None]
    assert [str(key.address) for key in unknown if isinstance(key, counters.CountedService)] == ["198.51.100.54"]
    assert len(rates) > 10


def test_status_shows_backends_out_of_service_and_slots_of_the_tables(switch: Switch) -> None:
    text = LARGE.replace(
        "slots: 32\n    backends:\n",
        "slots: 32\n    backends:\n"
        + "".join(
            f"      - {{name: {n}, ipv4: 10.53.0.{i}, ipv6: '2001:db8:53::{i}', mac: '02:00:00:00:04:{i}'{more}}}\n"
            for n, i, more in (("d", 21, ", weight: 2"), ("e", 22, ", state: down"), ("f", 23, ""))
        ),
    )
    target = deployed(switch, text)
    out(target, "direct/d", over=100, note="slowly", ago=40)
    change_overlay(target, None, advance, time=NOW)
    out(target, "direct/a", lasts=7200, note="kernel [bold]update[/bold]")
    out(target, "direct/f", "down")
    found = status(switch)
    here = backends(found, "direct")
    assert {n: b["state"] for n, b in here.items()} == {
        "a": "drained",
        "c": "up",
        "d": "draining",
        "e": "down",
        "f": "down",
    }
    assert [(n, b["down_in_spec"]) for n, b in here.items() if b["down_in_spec"]] == [("e", True)]
    assert (here["d"]["drained"], here["d"]["note"], here["c"]["by"]) == (0.4, "slowly", None)
    assert here["a"]["until"] == (NOW + timedelta(hours=2)).isoformat(timespec="milliseconds")
    assert "@" in here["a"]["by"]
    # What the switch itself has: the register's value that the flow of each slot sets.
    chosen = Counter(
        int(m[1], 16)
        for f in switch.flows()
        if f"{SLOT_TABLE}," in f and (m := re.search(r"set_field:(0x\w+)->reg2", f))
    )
    assert sorted(chosen.values()) == sorted(b["slots"] for b in here.values() if b["slots"])
    assert sum(chosen.values()) == 32
    assert 0 < here["d"]["slots"] < here["d"]["own_slots"]
    people = cli("status", "--db", switch.database, "--no-verify", "--interval", "0.5s", env={"COLUMNS": "100"}).stdout
    assert "draining 40%" in people
    assert "down in the spec" in people
    assert re.search(r"direct/a +drain +\d{4}-\d\d-\d\d \d\d:\d\d +.* kernel\b", people)
    assert "[bold]update[/bold]" in people  # in the line below, where the name of who runs the tests is long
    assert max(map(len, people.splitlines())) <= 100


def test_pools_whose_families_differ_are_two(switch: Switch) -> None:
    deployed(switch, LARGE.replace("ipv6: '2001:db8:53::13', ", ""))
    found = status(switch, "--no-verify")
    titles = [(p["name"], p["title"], [b["slots"] for b in p["backends"]]) for p in found["pools"]]
    assert titles[1:] == [("direct", "pool direct IPv4", [16, 16]), ("direct", "pool direct IPv6", [32])]


def test_overdue_maintenance_and_pools_without_backends_are_warnings(switch: Switch) -> None:
    target = deployed(switch)
    overlay = [Maintenance("direct", n, "down", NOW.isoformat(), "me@here") for n in ("a", "c")]
    change_overlay(target, None, lambda *_: Overlay((*overlay,)))
    out(target, "hashed/b", lasts=60, ago=100)
    found = status(switch, code=Exit.ATTENTION)
    assert backends(found, "hashed")["b"]["overdue"] is True
    assert [a["overdue"] for a in found["overlay"]] == [False, False, True]
    all_down, alone, over = found["warnings"]
    assert alone.startswith("pool hashed: a is the last of 2 backends in service; without it queries still go to it")
    assert "pool direct: every backend is out of service" in all_down
    assert re.search(r"hashed/b was to be drained only until .*dnsteer reconcile", over)


@pytest.mark.parametrize("change", [("drain", "direct/a"), ("down", "direct/a"), ("weight", "direct/a", "0")])
def test_the_last_backend_in_service_is_warned_of_below_half_of_clients(
    switch: Switch, change: tuple[str, ...]
) -> None:
    deployed(switch, LARGE.replace("port: vf2}", "port: vf2, weight: 3}"))
    last = "pool direct: c would be the last backend in service; if it fails, none of the pool's own is left"
    previewed = on(switch)(*change, "--dry-run", "--json").json
    assert (previewed["warnings"], previewed["asks"]) == ([last], [])
    assert last in on(switch)(*change, "--dry-run").err
    done = on(switch)(*change)
    assert done.code == 0 and last in done.err, "it is no question, which scripts would have to answer"
    assert last not in on(switch)("drain", "hashed/a", "--dry-run").err, "it was so before"
    (alone,) = (found := status(switch, "--no-rates"))["warnings"]
    assert [item["level"] for item in found["attention"]] == ["note", "note"], "planned, so exit code 0"
    assert alone.startswith("pool direct: c is the last of 2 backends in service")


def test_no_rates_skips_the_interval(switch: Switch) -> None:
    deployed(switch)
    with load(switch, "198.51.100.54", udp=400, tcp=0):
        found = on(switch)("status", "--json", "--no-rates", "--no-verify").json
    assert (found["ok"], found["interval"]) == (True, None)
    assert {v["packets_per_second"] for v in (*found["vips"], *found["pools"])} == {None}
    assert found["vips"][1]["by_address"][1]["packets_per_second"] is None
    assert backends(found, "direct")["a"]["slots"] == 16
    done = on(switch)("status", "--no-rates", "--watch")
    assert (done.code, done.out) == (64, "")
    assert "found --watch and --no-rates" in done.err


def test_several_bridges_need_the_bridge_option(switch: Switch) -> None:
    deployed(switch, LARGE.replace("name: dpu-1", "name: one"))
    other = LARGE.replace("name: dpu-1", "name: one").replace("br-dns", "br-two")
    deployed(switch, re.sub(r"\b(p|vf)(\d)\b", r"\1x\2", other))
    done = on(switch)("status", "--json")
    assert done.code == 1
    assert "br-dns, br-two; name one with --bridge" in done.json["error"]
    assert status(switch, "--bridge", "br-two")["bridge"] == "br-two"
