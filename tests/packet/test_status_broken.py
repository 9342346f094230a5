# SPDX-License-Identifier: Apache-2.0
"""`status` of a switch that is not as it should be: each thing that is wrong shows, and the rest as well."""

from __future__ import annotations

import re

import pytest

from dnsteer.slots.maintenance import Maintenance, Overlay
from dnsteer.switch.session import Session
from dnsteer.tables.cookies import Category, cookie
from tests.packet.command import on, run
from tests.packet.status_cases import GONE, NOW, backends, deployed, out, status
from tests.packet.switches import BRIDGE, SLOT_TABLE, STATE_TABLE, VIP_TABLE, Switch, cli


def test_drift_is_counted_and_shown(switch: Switch) -> None:
    deployed(switch)
    switch.ofctl("del-flows", f"{VIP_TABLE},udp,nw_dst=198.51.100.54")
    found = status(switch, code=2)
    assert (found["drift_count"], found["drift"][0]["kind"], found["tables"]) == (1, "flow missing", "recorded")
    assert found["vips"][1]["packets_per_second"] is None
    switch.ofctl("del-flows", SLOT_TABLE)
    found = status(switch, code=2)
    assert len(found["drift"]) == 10
    assert found["drift_count"] == 1 + 32 + 1 + 1
    people = on(switch)("status")
    assert people.code == 2
    assert "drift: and 25 more: dnsteer verify" in people.out
    assert people.out.endswith("br-dns: 35 differences\n")
    found = status(switch, "--no-verify")
    assert (found["drift"], found["drift_count"]) == (None, None)


def test_tables_that_are_not_the_recorded_ones(switch: Switch) -> None:
    deployed(switch)
    switch.ofctl("del-flows", STATE_TABLE)
    found = status(switch, "--no-verify", code=2)
    assert found["tables"] == "other"
    assert "dnsteer restore" in found["warnings"][0]


def test_an_interrupted_change_is_named(switch: Switch) -> None:
    where = deployed(switch)
    with Session(where.remote) as session:
        record = session.record_of(None)
        overlay = Overlay((Maintenance("direct", "a", "drain", NOW.isoformat(), "me@here"),))
        pending = session.begin(record, session.state(record, 1), overlay)
    found = status(switch, "--no-verify", code=2)
    assert (found["interrupted"]["tables"], found["tables"], found["warnings"]) == ("recorded", "recorded", [])
    assert [d["kind"] for d in status(switch, code=2)["drift"]] == []
    switch.ofctl("del-flows", STATE_TABLE)
    mark = cookie(Category.STATE, pending.marker)
    switch.ofctl("add-flow", f"cookie=0x{mark:x},{STATE_TABLE},priority=0,actions=drop")
    found = status(switch, "--no-verify", code=2)
    assert (found["interrupted"]["state"], found["interrupted"]["tables"]) == (1, "pending")
    assert "is pending: the tables already have it" in on(switch)("status").out


def test_flow_restore_wait_is_shown(switch: Switch) -> None:
    deployed(switch)
    switch.vsctl("set", "Open_vSwitch", ".", "other_config:flow-restore-wait=true")
    found = status(switch, "--no-verify", code=2)
    assert found["flow_restore_wait"] is True
    assert "does not forward" in found["warnings"][0]


def test_a_damaged_overlay_is_named_and_the_rest_shown(switch: Switch) -> None:
    where = deployed(switch)
    out(where, "direct/a")
    switch.vsctl("set", "Bridge", BRIDGE, 'external_ids:dnsteer-overlay="[1]"')
    found = status(switch, code=1)
    assert "external_ids:dnsteer-overlay of bridge br-dns in OVSDB is damaged" in found["errors"][0]
    assert (found["overlay"], found["tables"], found["drift"]) == (None, None, None)
    here = backends(found, "direct")
    assert [(b["state"], b["slots"], b["packets_per_second"]) for b in here.values()] == [("unknown", None, 0)] * 2
    assert found["state"]["state"] == 1
    people = on(switch)("status")
    assert (people.code, people.err) == (1, "")
    assert "error: external_ids:dnsteer-overlay" in people.out


@pytest.mark.parametrize("key", ["dnsteer-state", "dnsteer-pending"])
def test_damaged_bridge_keys_are_named(switch: Switch, key: str) -> None:
    deployed(switch)
    switch.vsctl("set", "Bridge", BRIDGE, f"external_ids:{key}=x")
    found = status(switch, code=1)
    assert f"external_ids:{key} of bridge br-dns in OVSDB is damaged" in found["errors"][0]
    assert found["tables"] == "recorded"
    assert (found["state"] is None) == (key == "dnsteer-state")
    assert (found["interrupted"] is None) == (key == "dnsteer-state")


def test_a_damaged_state_is_named_and_the_rest_shown(switch: Switch) -> None:
    deployed(switch)
    row = re.search(r"241=([\w-]+)", switch.vsctl("get", "Bridge", BRIDGE, "flow_tables"))
    assert row
    switch.vsctl("set", "Flow_Table", row[1], "external_ids:by=somebody")
    found = status(switch, code=1)
    assert re.search(r"state 1 in the record .* is damaged", found["errors"][0])
    assert (found["state"], found["pools"], found["vips"], found["tables"]) == (None, [], [], "recorded")


def test_without_the_switch_the_record_is_shown(switch: Switch) -> None:
    where = deployed(switch)
    out(where, "direct/a")
    switch.expected += GONE
    switch.kill_switch()
    found = status(switch, code=69)
    assert found["reachable"] is False
    assert "is ovs-vswitchd running?" in found["reason"]
    here = backends(found, "direct")
    assert [(b["state"], b["slots"], b["packets_per_second"]) for b in here.values()] == [
        ("drained", 0, None),
        ("up", 32, None),
    ]
    assert (found["state"]["note"], found["interval"], found["drift"]) == ("change 4711", None, None)
    people = cli("status", "--db", switch.database)
    assert people.returncode == 69
    assert "change 4711" in people.stdout
    assert people.stdout.endswith("br-dns: cannot be reached\n")
    switch.start_switch()
    found = status(switch, code=2)  # its tables are empty
    assert (found["tables"], found["reachable"]) == ("other", True)
    assert found["drift_count"] > 100


def test_errors_without_a_record(switch: Switch) -> None:
    done = run("status", "--json", "--db", switch.database)
    assert (done.code, done.json["ok"]) == (1, False)
    assert "apply a spec first" in done.out
    done = run("status", "--json", "--db", f"unix:{switch.dir}/nobody.sock")
    assert (done.code, done.json["ok"]) == (69, False)
    done = run("status", "--interval", "100ms")
    assert (done.code, done.out) == (64, "")
    assert "--interval" in done.err
