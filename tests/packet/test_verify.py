# SPDX-License-Identifier: Apache-2.0
"""`verify` names every drift of a switch, with the object and its line in the spec, and `apply` repairs each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dnsteer.plan.build import build_plan
from dnsteer.plan.pool_slots import slots_of
from dnsteer.render.flows import flows_of
from dnsteer.status.verify import find_drift, left_by_apply
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.tools import UnavailableError
from dnsteer.tables.slot import GroupRow
from tests.packet.apply_spec import apply
from tests.packet.command import on
from tests.packet.switches import BRIDGE, LARGE, SMALL, VIP_TABLE, Switch, cli, line_of, spec_of, unexpected

SPEC = spec_of(LARGE)
PLAN = build_plan(SPEC)
FLOWS = flows_of(PLAN)
SERVICE = next(f for f in FLOWS if f.match == "udp,nw_dst=198.51.100.54,tp_dst=53")
SLOT = next(f for f in FLOWS if f.match.endswith("reg1=0x5"))
BACKEND = slots_of(SPEC.spec, SPEC.spec.pools["direct"], "ipv4")[5]
GROUP = PLAN.rows.of(GroupRow)[0].group
HERE = "table={0.table},priority={0.priority},{0.match}"


@dataclass(frozen=True)
class Case:
    """A change behind dnsteer's back, and how verify must name it. *on* is part of the spec's line; empty: no line."""

    change: Callable[[Switch], object]
    kind: str
    about: str
    detail: str
    on: str
    expected: tuple[str, ...] = ()


def bucket_edited(switch: Switch) -> None:
    """Slots 3 and 9 of the group go to another backend."""
    group = next(g for g in switch.groups() if f"group_id={GROUP}," in g)
    buckets = group.split(",bucket=")
    for slot in (3, 9):
        backends = sorted({b.split("set_field:")[1].split("->")[0] for b in buckets[1:]})
        now = buckets[slot + 1].split("set_field:")[1].split("->")[0]
        other = next(b for b in backends if b != now)
        buckets[slot + 1] = buckets[slot + 1].replace(now, other)
    switch.ofctl("mod-group", ",bucket=".join(buckets))


CASES = {
    "a flow is removed": Case(
        lambda s: s.ofctl("del-flows", "--strict", HERE.format(SERVICE)),
        "flow missing",
        "VIP straight 198.51.100.54 port 53/udp",
        SERVICE.match,
        "services: [dns]",
    ),
    "a flow's actions are changed": Case(
        lambda s: s.ofctl("add-flow", f"cookie=0x{SLOT.cookie:x},{HERE.format(SLOT)},actions=drop"),
        "flow changed",
        f"pool direct slot 5 -> {BACKEND}",
        f"actions are drop, should be {SLOT.actions}",
        f"name: {BACKEND}, ",
    ),
    "a flow's cookie is changed": Case(
        lambda s: s.ofctl("add-flow", f"cookie=0x77,{HERE.format(SERVICE)},actions={SERVICE.actions}"),
        "flow changed",
        "VIP straight 198.51.100.54 port 53/udp",
        f"cookie is 0x77, should be 0x{SERVICE.cookie:x}",
        "services: [dns]",
    ),
    "a flow got a time-out": Case(
        lambda s: s.ofctl(
            "add-flow", f"cookie=0x{SERVICE.cookie:x},idle_timeout=999,{HERE.format(SERVICE)},actions={SERVICE.actions}"
        ),
        "flow changed",
        "VIP straight 198.51.100.54 port 53/udp",
        "has idle_timeout=999",
        "services: [dns]",
    ),
    "a foreign flow is added to a table of ours": Case(
        lambda s: s.ofctl("add-flow", f"cookie=0x8,{VIP_TABLE},priority=7,icmp,actions=drop"),
        "foreign flow",
        "table vip",
        f"not dnsteer's: cookie=0x8, {VIP_TABLE}, priority=7,icmp actions=drop",
        "",
    ),
    "a flow is added with the tag of a known object": Case(
        lambda s: s.ofctl("add-flow", f"cookie=0x{SERVICE.cookie:x},{VIP_TABLE},priority=7,icmp,actions=drop"),
        "flow added",
        "VIP straight 198.51.100.54 port 53/udp",
        "priority=7,icmp actions=drop",
        "services: [dns]",
    ),
    "a flow is added with the tag of no object": Case(
        lambda s: s.ofctl("add-flow", "cookie=0xd453ffffffffffff,table=99,priority=7,icmp,actions=drop"),
        "flow added",
        "an object that is not in the spec",
        "table=99, priority=7,icmp actions=drop",
        "",
    ),
    "a group's buckets are edited": Case(
        bucket_edited,
        "group changed",
        "pool hashed",
        f"group {GROUP}: slots 3, 9 differ",
        "hashed:",
    ),
    "a group is removed": Case(
        lambda s: s.ofctl("del-groups", f"group_id={GROUP}"),
        "group missing",
        "pool hashed",
        f"group {GROUP}",
        "hashed:",
    ),
    "a group is added in dnsteer's range": Case(
        lambda s: s.ofctl("add-group", "group_id=53000001,type=all,bucket=actions=drop"),
        "group added",
        "an object that is not in the spec",
        "group 53000001",
        "",
    ),
    "a port is deleted": Case(
        lambda s: s.vsctl("del-port", BRIDGE, "vf1"),
        "port missing",
        "port vf1",
        "is not on the bridge",
        "vf1:",
    ),
    "a port's device is gone": Case(
        lambda s: s.vsctl("--no-wait", "set", "Interface", "vf1", "type=nonexistent"),
        "port not open",
        "port vf1",
        "could not open network device vf1",
        "vf1:",
        ("unknown type nonexistent", "could not open network device"),
    ),
    "a port's type is changed": Case(
        lambda s: s.vsctl("set", "Interface", "vf1", "type=internal"),
        "port changed",
        "port vf1",
        "type is internal, should be system",
        "vf1:",
    ),
    "a port's options are changed": Case(
        lambda s: s.vsctl("set", "Interface", "p0", "options:tx_pcap=/dev/null"),
        "port changed",
        "port p0",
        "options are tx_pcap=/dev/null, should be none",
        "p0: {",
    ),
    "a port loses the mark": Case(
        lambda s: s.vsctl("remove", "Port", "vf2", "external_ids", "dnsteer"),
        "port changed",
        "port vf2",
        "does not carry dnsteer's mark",
        "vf2:",
    ),
    "a port with the mark is added": Case(
        lambda s: s.vsctl("add-port", BRIDGE, "vf9", "--", "set", "Port", "vf9", "external_ids:dnsteer=port"),
        "port added",
        "port vf9",
        "is not in the spec",
        "",
    ),
    "the fail mode is changed": Case(
        lambda s: s.vsctl("set", "Bridge", BRIDGE, "fail_mode=standalone"),
        "bridge changed",
        "bridge br-dns",
        "fail_mode is standalone, should be secure",
        "bridge: br-dns",
    ),
    "the datapath type is changed": Case(
        lambda s: s.vsctl("set", "Bridge", BRIDGE, "datapath_type=dummy"),
        "bridge changed",
        "bridge br-dns",
        "datapath_type is dummy, should be netdev",
        "flavor: ",
    ),
    "the datapath type is one that the switch lacks": Case(
        lambda s: s.vsctl("--no-wait", "set", "Bridge", BRIDGE, "datapath_type=lacking"),
        "bridge changed",
        "bridge br-dns",
        "datapath_type is lacking, should be netdev",
        "flavor: ",
        ("lacking", "failed to create bridge"),
    ),
    "the names of the tables are gone": Case(
        lambda s: s.vsctl("clear", "Bridge", BRIDGE, "flow_tables"),
        "bridge changed",
        "bridge br-dns",
        "tables are not named",
        "bridge: br-dns",
    ),
    "the record is gone": Case(
        lambda s: s.vsctl("remove", "Bridge", BRIDGE, "external_ids", "dnsteer-spec"),
        "record",
        "bridge br-dns",
        "no spec was applied",
        "",
    ),
    "the record is of another spec": Case(
        lambda s: s.vsctl("set", "Bridge", BRIDGE, "external_ids:dnsteer-spec=0123456789abcdef0123"),
        "record",
        "bridge br-dns",
        "another spec was applied (digest 0123456789abcdef)",
        "",
    ),
}


@pytest.fixture(scope="module")
def shared() -> Iterator[Switch]:
    """One switch for all cases: each is repaired before the next."""
    with Switch() as private:
        apply(SPEC, private.database)
        private.expected = [e for case in CASES.values() for e in case.expected]
        yield private
        assert unexpected(private) == []


@pytest.mark.parametrize("what", CASES)
def test_drift_is_named_and_repaired(what: str, shared: Switch) -> None:
    case = CASES[what]
    assert find_drift(SPEC, shared.database) == []
    case.change(shared)
    drift = find_drift(SPEC, shared.database)
    found = [d for d in drift if d.kind == case.kind and d.about.startswith(case.about) and case.detail in d.detail]
    assert found, drift
    if case.on:
        assert case.on in LARGE.splitlines()[found[0].line - 1]
    else:
        assert found[0].line == 0
    assert left_by_apply(drift) == (found if case.kind == "foreign flow" else []), "what apply leaves"
    if case.kind == "foreign flow":
        assert find_drift(SPEC, shared.database, ignore_foreign=True) == []
        shared.ofctl("del-flows", "cookie=0x8/-1")
    elif "cookie is 0x77" in case.detail:
        shared.ofctl("del-flows", "cookie=0x77/-1")  # apply refuses to overwrite it
    apply(SPEC, shared.database)
    assert find_drift(SPEC, shared.database) == []


def test_one_change_is_one_difference(shared: Switch) -> None:
    """One change, one difference: nothing else is blamed."""
    for what in ("a flow is removed", "a flow got a time-out", "a group's buckets are edited", "the record is gone"):
        CASES[what].change(shared)
        assert len(find_drift(SPEC, shared.database)) == 1, what
        apply(SPEC, shared.database)


def test_a_missing_bridge_is_named(switch: Switch) -> None:
    drift = find_drift(SPEC, switch.database)
    assert [(d.kind, d.about, d.line) for d in drift] == [
        ("bridge missing", "bridge br-dns", line_of(LARGE, "bridge: br-dns"))
    ]


def test_a_foreign_bridge_is_named(switch: Switch) -> None:
    switch.vsctl("add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "datapath_type=netdev", "fail_mode=secure")
    conf = switch.conf()
    assert "does not carry dnsteer's mark" in find_drift(SPEC, switch.database)[0].detail
    assert switch.conf() == conf


def test_verify_changes_nothing(shared: Switch) -> None:
    CASES["a group is removed"].change(shared)
    tables, conf = shared.tables(), shared.conf()
    assert find_drift(SPEC, shared.database) != []
    assert (shared.tables(), shared.conf()) == (tables, conf)
    apply(SPEC, shared.database)


def test_a_stopped_switch_is_named(switch: Switch) -> None:
    switch.expected = ["Connection reset by peer"]
    apply(SPEC, switch.database)
    switch.kill_switch()
    with pytest.raises(UnavailableError, match=r"no OpenFlow at .*br-dns.mgmt .* is ovs-vswitchd running"):
        find_drift(SPEC, switch.database, timeout=0.5)


def test_verify_exit_codes_and_output(switch: Switch, tmp_path: Path) -> None:
    large, small = tmp_path / "large.yaml", tmp_path / "small.yaml"
    large.write_text(LARGE)
    small.write_text(SMALL)
    apply(SPEC, switch.database)
    clean = cli("verify", large, "--db", switch.database)
    assert (clean.returncode, clean.stdout, clean.stderr) == (0, "br-dns: as the spec says\n", "")
    CASES["a flow is removed"].change(switch)
    text = cli("verify", large, "--db", switch.database)
    line = line_of(LARGE, "services: [dns]")
    first, last = text.stdout.splitlines()
    assert text.returncode == 2
    assert first.startswith(f"flow missing: VIP straight 198.51.100.54 port 53/udp ({large}:{line}): cookie=0x")
    assert last == "br-dns: 1 difference"
    as_json = cli("verify", large, "--db", switch.database, "--json")
    assert as_json.returncode == 2
    report = json.loads(as_json.stdout)
    assert report["ok"] is False
    assert [(d["kind"], d["line"]) for d in report["drift"]] == [("flow missing", line)]
    other = cli("verify", small, "--db", switch.database)
    assert other.returncode == 2
    assert "record: bridge br-dns: another spec was applied" in other.stdout
    assert "group added: an object that is not in the spec: group 53" in other.stdout


def test_verify_names_what_an_apply_would_leave(switch: Switch, tmp_path: Path) -> None:
    """Of a spec that is not applied yet too: that much else differs does not matter."""
    large, small = tmp_path / "large.yaml", tmp_path / "small.yaml"
    large.write_text(LARGE)
    small.write_text(SMALL)
    apply(SPEC, switch.database)
    run = on(switch)
    for file in (large, small):
        clean = run("verify", file, "--left-by-apply")
        assert (clean.code, clean.out) == (0, "br-dns: no differences that apply leaves\n")
    CASES["a foreign flow is added to a table of ours"].change(switch)
    CASES["a flow is removed"].change(switch)
    ids = []
    for file in (large, small):
        text = run("verify", file, "--left-by-apply")
        first, last = text.out.splitlines()
        assert text.code == 2 and first.startswith("foreign flow: table vip: not dnsteer's: cookie=0x8")
        assert last == "br-dns: 1 difference that apply leaves"
        (found,) = run("verify", file, "--left-by-apply", "--json").json["drift"]
        ids.append(found["id"])
    assert ids == [f"foreign flow, table vip, cookie=0x8, {VIP_TABLE}, priority=7,icmp actions=drop"] * 2
    both = run("verify", large, "--left-by-apply", "--offload")
    assert both.code == 64 and "found --left-by-apply and --offload; expected one of them" in both.err


def test_a_concurrent_drain_is_no_drift(switch: Switch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verify reads the overlay first and the tables later: what changed between is read again."""
    apply(SPEC, switch.database)
    dump, drains = OpenFlow.dump, iter([True])

    def drain_first(self: OpenFlow, *args: Any, **more: Any) -> Any:
        if args and next(drains, False):
            done = on(switch)("down", "direct/a", "--yes")
            assert done.code == 0, done.err
        return dump(self, *args, **more)

    monkeypatch.setattr(OpenFlow, "dump", drain_first)
    assert find_drift(SPEC, switch.database) == []
    assert next(drains, None) is None


def test_the_spec_of_another_switch_is_named_first(shared: Switch) -> None:
    text = LARGE.replace("name: dpu-1", "name: dpu-2")
    first, *_ = find_drift(spec_of(text), shared.database)
    assert (first.kind, first.about, first.detail) == ("other switch", "switch dpu-1", "the spec is for switch dpu-2")
    assert first.line == line_of(text, "name: dpu-2")
    first, *_ = find_drift(spec_of(LARGE.replace("  name: dpu-1\n", "")), shared.database)
    assert "names no switch" in first.detail
