# SPDX-License-Identifier: Apache-2.0
"""`apply` on a real switch: what it makes, what it leaves alone, and that there is one at a time."""

from __future__ import annotations

import re
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest

from dnsteer import __version__
from dnsteer.plan.build import build_plan
from dnsteer.render.flows import flows_of, groups_of
from dnsteer.spec.loaded import digest
from dnsteer.status.verify import find_drift
from dnsteer.switch.database import Database
from dnsteer.switch.restart_fence import FENCE
from dnsteer.switch.session import Session
from dnsteer.switch.state import AppliedState
from dnsteer.switch.tools import SwitchError
from tests.packet.apply_spec import FOREIGN_FLOWS, FOREIGN_GROUP, add_foreign, apply
from tests.packet.command import on
from tests.packet.switches import BRIDGE, LARGE, NUMBER, SMALL, STATE_TABLE, Switch, cli, spec_of

MANY, FEW = spec_of(LARGE), spec_of(SMALL)


def test_a_fresh_bridge_is_as_planned(switch: Switch) -> None:
    done = apply(MANY, switch.database)
    assert done.changed
    assert switch.bridges() == [BRIDGE]
    assert switch.ports() == {"p0", "vf0", "vf1", "vf2"}
    assert switch.column("Bridge", BRIDGE, "fail_mode") == "secure"
    assert switch.column("Bridge", BRIDGE, "datapath_type") == "netdev"
    assert switch.column("Port", "vf1", "external_ids:dnsteer") == "port"
    flows, groups = switch.tables()
    plan = build_plan(MANY)
    assert len(flows) == len(flows_of(plan)) > 100
    assert groups == {*(g.text for g in groups_of(plan)), f"group_id={FENCE},type=all"}
    assert len(groups) > 1
    assert "(vip)" not in "".join(flows)
    assert "table=vip" in switch.ofctl("dump-flows", "--names")


def test_the_record_says_what_was_applied(switch: Switch) -> None:
    before = datetime.now(timezone.utc).replace(microsecond=0)
    apply(MANY, switch.database)
    noted = switch.column("Bridge", BRIDGE, "external_ids")
    session = dict(re.findall(r'([\w-]+)="?([^",}]+)"?', noted))
    assert set(session) == {f"dnsteer{part}" for part in ("", "-format", "-spec", "-version", "-applied", "-state")}
    assert session["dnsteer"] == "bridge"
    assert session["dnsteer-format"] == f"1 {__version__}"
    assert session["dnsteer-spec"] == digest(MANY.spec)
    assert session["dnsteer-version"] == __version__
    assert session["dnsteer-state"] == "1"
    assert before <= datetime.fromisoformat(session["dnsteer-applied"]) <= datetime.now(timezone.utc)
    assert switch.column("Open_vSwitch", ".", "external_ids:dnsteer-switch") == "dpu-1"
    with Session(switch.database) as reader:
        record = reader.record_of(None)
        (state,) = reader.states(record)
    assert isinstance(state, AppliedState)
    assert (state.number, state.text, state.digest, state.version) == (1, LARGE, digest(MANY.spec), __version__)
    assert state.time == session["dnsteer-applied"]
    assert state.members == tuple(build_plan(MANY).members)
    assert (record.name, record.pending, list(record.overlay)) == ("dpu-1", None, [])
    marked = [f for f in switch.flows() if STATE_TABLE in f]
    assert [int(f.split(",")[0].removeprefix("cookie="), 16) & 0xFFFFFFFFFF for f in marked] == [record.marker]


def test_a_second_apply_changes_nothing_and_says_so(switch: Switch, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(LARGE)
    first = cli("apply", spec, "--db", switch.database)
    assert first.returncode == 0
    assert "create bridge br-dns" in first.stdout
    tables, conf = switch.tables(), switch.conf()
    second = cli("apply", spec, "--db", switch.database)
    assert (second.returncode, second.stdout, second.stderr) == (0, "br-dns: nothing to change\n", "")
    third = on(switch)("apply", spec, "--json").json
    assert set(third["counts"].values()) == {0}
    lists = ("settings", "changes", "moves", "ended", "returned", "asks", "warnings", "notes", "spec_warnings")
    nothing = {key: [] for key in lists}
    said = {
        "ok": True,
        "named": "",
        "changed": False,
        "bridge": BRIDGE,
        "from_state": 1,
        "state": 1,
        "counts": third["counts"],
    }
    assert third == {**said, **nothing}
    for dry in (("plan", spec), ("apply", spec, "--dry-run")):
        done = on(switch)(*dry)
        assert (done.code, done.out) == (0, "br-dns: nothing to change\n")
    assert switch.conf() == conf  # not one transaction
    assert switch.tables() == tables


def test_flows_and_groups_of_others_stay(switch: Switch) -> None:
    apply(MANY, switch.database)
    add_foreign(switch)
    for spec in (FEW, MANY):
        apply(spec, switch.database)
        assert set(FOREIGN_FLOWS) <= switch.flows()
        assert FOREIGN_GROUP in switch.groups()


def test_adopting_keeps_flows_and_groups_although_the_switch_drops_them(switch: Switch) -> None:
    """A change of the fail mode empties all tables; the flow that forwards everything must go, the rest comes back."""
    switch.vsctl(
        "add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "datapath_type=netdev", "--", "add-port", BRIDGE, "p0"
    )
    switch.vsctl("add-port", BRIDGE, "theirs")
    add_foreign(switch)
    assert any("NORMAL" in flow for flow in switch.flows())
    done = apply(FEW, switch.database, adopt=True)
    assert "adopt bridge br-dns" in done.settings
    assert set(FOREIGN_FLOWS) <= switch.flows()
    assert FOREIGN_GROUP in switch.groups()
    assert not any("NORMAL" in flow for flow in switch.flows())
    assert switch.ports() == {"p0", "theirs"}
    assert find_drift(FEW, switch.database, ignore_foreign=True) == []


def test_a_port_that_left_the_spec_is_removed_and_no_other(switch: Switch) -> None:
    apply(MANY, switch.database)
    switch.vsctl("add-port", BRIDGE, "theirs")
    done = apply(FEW, switch.database)
    assert switch.ports() == {"p0", "theirs"}
    assert {s for s in done.settings if "remove" in s} == {f"remove port vf{i}" for i in range(3)}


def test_options_of_any_kind_are_set_exactly(switch: Switch) -> None:
    odd = "{a: 'x y', b: '1,2', c: '\"q\"', d: 'k=v:w', e: \"it's\", f: 'ü', g: '{}[]'}"
    spec = spec_of(SMALL.replace("p0:\n", f"p0: {{options: {odd}}}\n"))
    apply(spec, switch.database)
    with Database(switch.database) as base:
        have = base.bridge(BRIDGE)
    assert have is not None
    assert dict(have.ports["p0"].options) == dict(spec.spec.switch.uplinks["p0"].options)
    assert not apply(spec, switch.database).changed
    assert apply(FEW, switch.database).settings == ["options of port p0"]
    assert switch.column("Interface", "p0", "options") == "{}"


def test_limits_that_the_operator_set_on_a_table_stay(switch: Switch) -> None:
    apply(FEW, switch.database)
    switch.vsctl(
        "--",
        "--id=@t",
        "create",
        "Flow_Table",
        "flow_limit=5000",
        "--",
        "set",
        "Bridge",
        BRIDGE,
        f"flow_tables:{NUMBER['vip']}=@t",
    )
    assert apply(FEW, switch.database).settings == ["name the tables"]
    assert "flow_limit          : 5000" in switch.vsctl("--columns=name,flow_limit", "list", "Flow_Table", "vip")


def test_a_bridge_without_openflow_15_gets_it_and_keeps_its_other_versions(switch: Switch) -> None:
    switch.expected = ["version negotiation failed", "connection dropped"]
    apply(FEW, switch.database)
    switch.vsctl("set", "Bridge", BRIDGE, "protocols=OpenFlow13")
    assert "protocols lack OpenFlow15" in find_drift(FEW, switch.database)[0].detail
    assert apply(FEW, switch.database).settings == ["add OpenFlow15 to protocols"]
    assert switch.column("Bridge", BRIDGE, "protocols") == "[OpenFlow13, OpenFlow15]"
    assert find_drift(FEW, switch.database) == []


def test_one_apply_at_a_time(switch: Switch) -> None:
    with Session(switch.database) as other:
        other.lock(BRIDGE)
        with pytest.raises(SwitchError, match="another dnsteer is changing bridge br-dns"):
            apply(FEW, switch.database, timeout=0.3)
        assert switch.bridges() == []
    apply(FEW, switch.database)


def test_a_session_that_lost_the_lock_cannot_write(switch: Switch) -> None:
    """Each of its transactions is refused by the server, which checks the lock with it."""
    apply(FEW, switch.database)
    with Session(switch.database) as session:
        session.lock(BRIDGE)
        record = session.record_of(BRIDGE)
        session._rpc.call("unlock", [session._lock], 5)
        conf = switch.conf()
        with pytest.raises(SwitchError, match="not owner"):
            session.begin(record, session.state(record, 1), record.overlay)
    assert switch.conf() == conf


def test_a_second_connection_goes_to_its_own_server_and_at_once(switch: Switch) -> None:
    """ovsdbapp keeps one connection per class: without care the second goes to the first server, after a second."""
    with Switch() as second:
        second.vsctl("add-br", "br-second", "--", "set", "Bridge", "br-second", "datapath_type=netdev")
        took = list[float]()
        for _ in range(4):
            for private, name in ((switch, None), (second, "br-second")):
                start = time.monotonic()
                with Database(private.database) as base:
                    found = base.bridge("br-second")
                took.append(time.monotonic() - start)
                assert (found.name if found else None) == name
        assert min(took[1:]) < 0.8  # a busy machine may take longer at times, but not each time
