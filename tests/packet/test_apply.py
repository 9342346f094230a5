"""`apply` on a real switch: what it makes, what it leaves alone, what it refuses, and that a failure changes nothing."""

from __future__ import annotations

import json
import re
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest

from dnsteer import __version__
from dnsteer.plan.build import build_plan
from dnsteer.render.flows import Flow, Group, flows_of, groups_of
from dnsteer.spec.load import digest
from dnsteer.switch import apply as apply_module
from dnsteer.switch import tools
from dnsteer.switch.database import Database
from dnsteer.switch.fence import FENCE
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.record import Record
from dnsteer.switch.state import State
from dnsteer.switch.tools import SwitchError, UnavailableError
from dnsteer.switch.verify import verify
from tests.packet.applying import apply
from tests.packet.conftest import BRIDGE, LARGE, SMALL, Switch, cli, line_of, spec_of

MANY, FEW = spec_of(LARGE), spec_of(SMALL)
FOREIGN_FLOWS = (
    "cookie=0x5, table=20, idle_timeout=900, send_flow_rem priority=9,icmp,in_port=1 actions=drop",
    "cookie=0x6, table=20, hard_timeout=900, importance=3, priority=8,udp,tp_dst=99 actions=output:1",
    "cookie=0x7, table=200, priority=5,tcp actions=group:7",
)
FOREIGN_GROUP = "group_id=7,type=all,bucket=bucket_id:0,actions=output:1"


def add_foreign(switch: Switch, bridge: str = BRIDGE) -> None:
    switch.ofctl("add-group", FOREIGN_GROUP, bridge=bridge)
    for flow in FOREIGN_FLOWS:
        switch.ofctl("add-flow", flow.replace("send_flow_rem ", "send_flow_rem,"), bridge=bridge)
    assert set(FOREIGN_FLOWS) <= switch.flows(bridge)


def column(switch: Switch, table: str, record: str, name: str) -> str:
    return switch.vsctl("get", table, record, name).strip()


def test_a_fresh_bridge_is_as_planned(switch: Switch) -> None:
    done = apply(MANY, switch.database)
    assert done.changed
    assert switch.bridges() == [BRIDGE]
    assert switch.ports() == {"p0", "vf0", "vf1", "vf2"}
    assert column(switch, "Bridge", BRIDGE, "fail_mode") == "secure"
    assert column(switch, "Bridge", BRIDGE, "datapath_type") == "netdev"
    assert column(switch, "Port", "vf1", "external_ids:dnsteer") == "port"
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
    noted = column(switch, "Bridge", BRIDGE, "external_ids")
    record = dict(re.findall(r'([\w-]+)="?([^",}]+)"?', noted))
    assert set(record) == {f"dnsteer{part}" for part in ("", "-spec", "-version", "-applied", "-state")}
    assert record["dnsteer"] == "bridge"
    assert record["dnsteer-spec"] == digest(MANY.spec)
    assert record["dnsteer-version"] == __version__
    assert record["dnsteer-state"] == "1"
    assert before <= datetime.fromisoformat(record["dnsteer-applied"]) <= datetime.now(timezone.utc)
    assert column(switch, "Open_vSwitch", ".", "external_ids:dnsteer-switch") == "dpu-1"
    with Record(switch.database) as reader:
        standing = reader.the_bridge(None)
        (state,) = reader.states(standing)
    assert isinstance(state, State)
    assert (state.number, state.text, state.digest, state.version) == (1, LARGE, digest(MANY.spec), __version__)
    assert state.time == record["dnsteer-applied"]
    assert state.members == tuple(build_plan(MANY).members)
    assert (standing.name, standing.pending, list(standing.overlay)) == ("dpu-1", None, [])
    marked = [f for f in switch.flows() if "table=63" in f]
    assert [int(f.split(",")[0].removeprefix("cookie="), 16) & 0xFFFFFFFFFF for f in marked] == [standing.marker]


def test_a_second_apply_changes_nothing_and_says_so(switch: Switch, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(LARGE)
    first = cli("apply", spec, "--db", switch.database)
    assert first.returncode == 0
    assert "create bridge br-dns" in first.stdout
    tables, conf = switch.tables(), switch.conf()
    second = cli("apply", spec, "--db", switch.database)
    assert (second.returncode, second.stdout, second.stderr) == (0, "br-dns: nothing to change\n", "")
    third = json.loads(cli("apply", spec, "--db", switch.database, "--json").stdout)
    assert set(third["counts"].values()) == {0}
    nothing = {key: [] for key in ("settings", "changes", "moves", "ended", "returned", "asks", "warnings")}
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
        done = cli(*dry, "--db", switch.database)
        assert (done.returncode, done.stdout) == (0, "br-dns: nothing to change\n")
    assert switch.conf() == conf  # not one transaction
    assert switch.tables() == tables


def test_flows_and_groups_of_others_stay(switch: Switch) -> None:
    apply(MANY, switch.database)
    add_foreign(switch)
    for spec in (FEW, MANY):
        apply(spec, switch.database)
        assert set(FOREIGN_FLOWS) <= switch.flows()
        assert FOREIGN_GROUP in switch.groups()


@pytest.mark.parametrize("flags", ["", "idle_timeout=900, send_flow_rem "])
def test_a_foreign_flow_in_the_way_is_refused(switch: Switch, flags: str) -> None:
    """Even when it has a time-out, and although the ports of the new spec would have to be made first."""
    apply(FEW, switch.database)
    ours = next(f for f in flows_of(build_plan(MANY)) if f.match.startswith("udp,nw_dst=198.51.100.54"))
    theirs = f"cookie=0x99, table={ours.table}, {flags}priority={ours.priority},{ours.match} actions=drop"
    switch.ofctl("add-flow", theirs.replace("rem ", "rem,"))
    tables, conf = switch.tables(), switch.conf()
    with pytest.raises(SwitchError, match=r"1 flow\(s\) that are not dnsteer's stand where .*cookie=0x99, table=20"):
        apply(MANY, switch.database)
    assert switch.tables() == tables
    assert switch.conf() == conf
    assert any("cookie=0x99" in flow for flow in tables[0])


def test_a_foreign_bridge_is_refused_and_untouched(switch: Switch) -> None:
    switch.vsctl(
        "add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "datapath_type=netdev", "--", "add-port", BRIDGE, "p0"
    )
    tables, conf = switch.tables(), switch.conf()
    with pytest.raises(SwitchError, match=r"bridge br-dns exists and is not dnsteer's.*--adopt"):
        apply(FEW, switch.database)
    assert (switch.tables(), switch.conf()) == (tables, conf)


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
    assert verify(FEW, switch.database, ignore_foreign=True) == []


def test_a_port_of_another_bridge_is_refused(switch: Switch) -> None:
    switch.vsctl(
        "add-br", "br-x", "--", "set", "Bridge", "br-x", "datapath_type=netdev", "--", "add-port", "br-x", "p0"
    )
    conf = switch.conf()
    with pytest.raises(SwitchError, match="port p0 is on bridge br-x"):
        apply(FEW, switch.database)
    assert switch.conf() == conf


def test_a_port_inside_a_bond_is_refused(switch: Switch) -> None:
    switch.expected = ["bond0: Using the default bond_mode"]
    apply(FEW, switch.database)
    switch.vsctl("add-bond", BRIDGE, "bond0", "vf0", "vf1")
    conf = switch.conf()
    with pytest.raises(SwitchError, match="interface vf0 is part of the bond bond0"):
        apply(MANY, switch.database)
    assert switch.conf() == conf


def test_a_bridge_named_like_a_port_is_refused(switch: Switch) -> None:
    switch.vsctl(
        "add-br", "br-x", "--", "set", "Bridge", "br-x", "datapath_type=netdev", "--", "add-port", "br-x", BRIDGE
    )
    with pytest.raises(SwitchError, match="br-dns is a port of bridge br-x"):
        apply(FEW, switch.database)


BROKEN = LARGE.replace("vf1:", "vf1: {type: nonexistent}")
CANNOT_OPEN = ["unknown type nonexistent", "could not open network device"]


def test_a_port_that_cannot_be_opened_leaves_no_new_bridge(switch: Switch) -> None:
    switch.expected = CANNOT_OPEN
    reason = r"vf1: could not open network device vf1 \(.*\) .*; bridge br-dns was removed again"
    with pytest.raises(SwitchError, match=reason):
        apply(spec_of(BROKEN), switch.database)
    assert switch.bridges() == []
    apply(MANY, switch.database)
    assert verify(MANY, switch.database) == []


def test_a_port_that_cannot_be_opened_leaves_the_old_tables_and_ports(switch: Switch) -> None:
    switch.expected = CANNOT_OPEN
    apply(FEW, switch.database)
    tables, record = switch.tables(), column(switch, "Bridge", BRIDGE, "external_ids")
    with pytest.raises(SwitchError, match=r"vf1: could not open .*; nothing was changed"):
        apply(spec_of(BROKEN), switch.database)
    assert switch.tables() == tables
    assert switch.ports() == {"p0"}
    assert column(switch, "Bridge", BRIDGE, "external_ids") == record
    assert verify(FEW, switch.database) == []


def test_settings_of_a_port_come_back_when_the_new_ones_do_not_work(switch: Switch) -> None:
    switch.expected = CANNOT_OPEN
    with_option = SMALL.replace("p0:\n", "p0: {options: {tx_pcap: /dev/null}}\n")
    apply(spec_of(with_option), switch.database)
    with pytest.raises(SwitchError, match="p0: could not open"):
        apply(spec_of(SMALL.replace("p0:\n", "p0: {type: nonexistent}\n")), switch.database)
    assert column(switch, "Interface", "p0", "type") == "system"
    assert column(switch, "Interface", "p0", "options") == '{tx_pcap="/dev/null"}'
    assert verify(spec_of(with_option), switch.database) == []


def test_a_failed_adoption_gives_the_bridge_back_with_its_flows(switch: Switch) -> None:
    switch.expected = CANNOT_OPEN
    switch.vsctl(
        "add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "datapath_type=netdev", "--", "add-port", BRIDGE, "p0"
    )
    add_foreign(switch)
    tables = switch.tables()
    with pytest.raises(SwitchError, match=r"vf1: could not open .*; nothing was changed"):
        apply(spec_of(BROKEN), switch.database, adopt=True)
    assert switch.tables() == tables
    assert switch.ports() == {"p0"}
    assert column(switch, "Bridge", BRIDGE, "fail_mode") == "[]"
    assert column(switch, "Bridge", BRIDGE, "external_ids") == "{}"
    assert column(switch, "Port", "p0", "external_ids") == "{}"


def test_a_port_that_broke_down_is_named_before_anything_is_done(switch: Switch) -> None:
    switch.expected = CANNOT_OPEN
    apply(MANY, switch.database)
    switch.vsctl("--no-wait", "set", "Interface", "vf1", "type=nonexistent")
    with pytest.raises(SwitchError, match="vf1: could not open"):
        apply(spec_of(BROKEN), switch.database)


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
    assert column(switch, "Interface", "p0", "options") == "{}"


def test_a_bundle_that_the_switch_refuses_changes_nothing_and_is_explained(switch: Switch) -> None:
    """A limit on a table that the operator set; the error names the object whose flow did not fit."""
    apply(FEW, switch.database)
    switch.vsctl("clear", "Bridge", BRIDGE, "flow_tables", "--", "--id=@t", "create", "Flow_Table", "name=vip",
                 "flow_limit=8", "overflow_policy=refuse", "--", "set", "Bridge", BRIDGE, "flow_tables:20=@t")  # fmt: skip
    tables = switch.tables()
    line = line_of(LARGE, "services: [dns]")  # MANY needs nine flows there, and these come last
    said = (
        rf"for VIP straight .* port 53/... \(spec\.yaml:{line}\): OFPFMFC_TABLE_FULL: .*cookie.*; nothing was changed"
    )
    with pytest.raises(SwitchError, match=said):
        apply(MANY, switch.database)
    assert switch.tables() == tables
    assert switch.ports() == {"p0"}


def test_limits_that_the_operator_set_on_a_table_stay(switch: Switch) -> None:
    apply(FEW, switch.database)
    switch.vsctl("--", "--id=@t", "create", "Flow_Table", "flow_limit=5000",
                 "--", "set", "Bridge", BRIDGE, "flow_tables:20=@t")  # fmt: skip
    assert apply(FEW, switch.database).settings == ["name the tables"]
    assert "flow_limit          : 5000" in switch.vsctl("--columns=name,flow_limit", "list", "Flow_Table", "vip")


def test_a_flow_that_ovs_ofctl_cannot_read_is_shown_with_its_object(
    switch: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(FEW, switch.database)
    tables = switch.tables()

    def broken(plan):
        flows = flows_of(plan)
        bad = next(i for i, f in enumerate(flows) if f.match.startswith("tcp,nw_dst=198.51.100.54"))
        flows[bad] = Flow(flows[bad].table, flows[bad].priority, flows[bad].match, flows[bad].cookie, "fly_away")
        return [flow.line() for flow in flows]

    monkeypatch.setattr(apply_module, "lines_of", broken)
    said = (
        rf"for VIP straight .*\(spec\.yaml:{line_of(LARGE, 'services: [dns]')}\): .*fly_away.*tcp,nw_dst=198.51.100.54"
    )
    with pytest.raises(SwitchError, match=said):
        apply(MANY, switch.database)
    assert switch.tables() == tables
    assert switch.ports() == {"p0"}


REFUSED_GROUPS = {
    "by ovs-ofctl": (lambda g: [Group(g.number, g.text.replace("resubmit", "fly_away", 1))], "unknown action fly_away"),
    "by the switch": (lambda g: [g], "OFPGMFC_GROUP_EXISTS: .*ADD group_id="),  # the test sends it twice
    "with a warning": (
        lambda g: [Group(g.number, g.text.replace("dp_hash", "tarot"))],
        r"OFPBPC_BAD_VALUE \(ntr selection method 'tarot' is not supported\): OFPT_GROUP_MOD",
    ),
}


@pytest.mark.parametrize("how", REFUSED_GROUPS)
def test_a_group_that_is_refused_is_shown_with_its_object(
    how: str, switch: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch.expected = ["selection method 'tarot'"]
    change, reason = REFUSED_GROUPS[how]
    monkeypatch.setattr(apply_module, "groups_of", lambda plan: change(groups_of(plan)[0]))
    if how == "by the switch":
        send = OpenFlow.bundle
        monkeypatch.setattr(OpenFlow, "bundle", lambda self, lines: send(self, [*lines[:2], *lines[1:]]))
    # The switch's own message about what it could not read names no group.
    about = "" if how == "with a warning" else rf" for pool hashed.* \(spec\.yaml:{line_of(LARGE, 'hashed:')}\)"
    with pytest.raises(SwitchError, match=rf"refused the changes{about}: {reason}.*; bridge br-dns was removed again"):
        apply(MANY, switch.database)
    assert switch.bridges() == []


def test_a_bridge_without_openflow_15_gets_it_and_keeps_its_other_versions(switch: Switch) -> None:
    switch.expected = ["version negotiation failed", "connection dropped"]
    apply(FEW, switch.database)
    switch.vsctl("set", "Bridge", BRIDGE, "protocols=OpenFlow13")
    assert "protocols lack OpenFlow15" in verify(FEW, switch.database)[0].detail
    assert apply(FEW, switch.database).settings == ["add OpenFlow15 to protocols"]
    assert column(switch, "Bridge", BRIDGE, "protocols") == "[OpenFlow13, OpenFlow15]"
    assert verify(FEW, switch.database) == []


def test_one_apply_at_a_time(switch: Switch) -> None:
    with Record(switch.database) as other:
        other.lock(BRIDGE)
        with pytest.raises(SwitchError, match="another dnsteer is at work on bridge br-dns"):
            apply(FEW, switch.database, timeout=0.3)
        assert switch.bridges() == []
    apply(FEW, switch.database)


def test_who_lost_the_lock_writes_no_more(switch: Switch) -> None:
    """Each of its transactions is refused by the server, which checks the lock with it."""
    apply(FEW, switch.database)
    with Record(switch.database) as record:
        record.lock(BRIDGE)
        standing = record.the_bridge(BRIDGE)
        record._rpc.call("unlock", [record._lock], 5)
        conf = switch.conf()
        with pytest.raises(SwitchError, match="not owner"):
            record.begin(standing, record.state(standing, 1), standing.overlay)
    assert switch.conf() == conf


def test_a_second_connection_goes_to_its_own_server_and_at_once(switch: Switch) -> None:
    """ovsdbapp keeps one connection per class: without care the second goes to the first server, after a second."""
    with Switch() as second:
        second.vsctl("add-br", "br-second", "--", "set", "Bridge", "br-second", "datapath_type=netdev")
        for _ in range(2):
            for private, name in ((switch, None), (second, "br-second")):
                start = time.monotonic()
                with Database(private.database) as base:
                    found = base.bridge("br-second")
                assert time.monotonic() - start < 0.8
                assert (found.name if found else None) == name


def test_a_switch_that_does_not_run_is_named_in_time_and_nothing_is_left(switch: Switch) -> None:
    apply(MANY, switch.database)
    switch.vsctl("del-br", BRIDGE)
    switch.expected = ["Connection reset by peer"]
    switch.kill_switch()
    start = time.monotonic()
    with pytest.raises(
        UnavailableError, match=r"ovs-vswitchd did not follow .* within 0.5 s.*br-dns was removed again"
    ):
        apply(FEW, switch.database, timeout=0.5)
    assert time.monotonic() - start < 2
    with Database(switch.database) as base:
        assert base.bridge(BRIDGE) is None
    switch.start_switch()
    assert apply(FEW, switch.database).changed


def test_without_ovs_ofctl_nothing_is_begun(switch: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = switch.conf()
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        patch.setattr(tools, "SBIN", ())
        with pytest.raises(UnavailableError, match="ovs-ofctl is not installed; install Open vSwitch"):
            apply(FEW, switch.database)
    assert switch.conf() == conf


def test_a_database_elsewhere_needs_the_openflow_target(switch: Switch) -> None:
    remote = switch.listen_on_tcp()
    with pytest.raises(SwitchError, match="--openflow"):
        apply(FEW, remote)
    assert apply(FEW, remote, openflow=f"unix:{switch.dir}/{BRIDGE}.mgmt").changed
    assert verify(FEW, remote, openflow=f"unix:{switch.dir}/{BRIDGE}.mgmt") == []
