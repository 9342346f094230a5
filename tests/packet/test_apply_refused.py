# SPDX-License-Identifier: Apache-2.0
"""What `apply` refuses, and that a failure at any step changes nothing and is explained."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dnsteer.deploy import wanted_switch
from dnsteer.plan.build import build_plan
from dnsteer.render.flows import Flow, Group, flows_of, groups_of
from dnsteer.status.verify import find_drift
from dnsteer.switch import tools
from dnsteer.switch.database import Database
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.tools import SwitchError, UnavailableError
from tests.packet.apply_spec import add_foreign, apply
from tests.packet.switches import BRIDGE, LARGE, NUMBER, SMALL, VIP_TABLE, Switch, line_of, spec_of

MANY, FEW = spec_of(LARGE), spec_of(SMALL)
BROKEN = LARGE.replace("vf1:", "vf1: {type: nonexistent}")
CANNOT_OPEN = ["unknown type nonexistent", "could not open network device"]


@pytest.mark.parametrize("flags", ["", "idle_timeout=900, send_flow_rem "])
def test_a_foreign_flow_in_the_way_is_refused(switch: Switch, flags: str) -> None:
    """Even when it has a time-out, and although the ports of the new spec would have to be made first."""
    apply(FEW, switch.database)
    ours = next(f for f in flows_of(build_plan(MANY)) if f.match.startswith("udp,nw_dst=198.51.100.54"))
    theirs = f"cookie=0x99, table={ours.table}, {flags}priority={ours.priority},{ours.match} actions=drop"
    switch.ofctl("add-flow", theirs.replace("rem ", "rem,"))
    tables, conf = switch.tables(), switch.conf()
    with pytest.raises(
        SwitchError, match=rf"1 flow\(s\) that are not dnsteer's have the table, .*cookie=0x99, {VIP_TABLE}"
    ):
        apply(MANY, switch.database)
    assert switch.tables() == tables
    assert switch.conf() == conf
    assert any("cookie=0x99" in flow for flow in tables[0])


def test_a_foreign_bridge_is_refused_and_untouched(switch: Switch) -> None:
    switch.vsctl(
        "add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "datapath_type=netdev", "--", "add-port", BRIDGE, "p0"
    )
    tables, conf = switch.tables(), switch.conf()
    with pytest.raises(SwitchError, match=r"bridge br-dns exists, but dnsteer did not make it.*--adopt"):
        apply(FEW, switch.database)
    assert (switch.tables(), switch.conf()) == (tables, conf)


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


def test_a_port_that_cannot_be_opened_leaves_no_new_bridge(switch: Switch) -> None:
    switch.expected = CANNOT_OPEN
    reason = r"vf1: could not open network device vf1 \(.*\) .*; bridge br-dns was removed again"
    with pytest.raises(SwitchError, match=reason):
        apply(spec_of(BROKEN), switch.database)
    assert switch.bridges() == []
    apply(MANY, switch.database)
    assert find_drift(MANY, switch.database) == []


def test_a_port_that_cannot_be_opened_leaves_the_old_tables_and_ports(switch: Switch) -> None:
    switch.expected = CANNOT_OPEN
    apply(FEW, switch.database)
    tables, record = switch.tables(), switch.column("Bridge", BRIDGE, "external_ids")
    with pytest.raises(SwitchError, match=r"vf1: could not open .*; nothing was changed"):
        apply(spec_of(BROKEN), switch.database)
    assert switch.tables() == tables
    assert switch.ports() == {"p0"}
    assert switch.column("Bridge", BRIDGE, "external_ids") == record
    assert find_drift(FEW, switch.database) == []


def test_settings_of_a_port_come_back_when_the_new_ones_do_not_work(switch: Switch) -> None:
    switch.expected = CANNOT_OPEN
    with_option = SMALL.replace("p0:\n", "p0: {options: {tx_pcap: /dev/null}}\n")
    apply(spec_of(with_option), switch.database)
    with pytest.raises(SwitchError, match="p0: could not open"):
        apply(spec_of(SMALL.replace("p0:\n", "p0: {type: nonexistent}\n")), switch.database)
    assert switch.column("Interface", "p0", "type") == "system"
    assert switch.column("Interface", "p0", "options") == '{tx_pcap="/dev/null"}'
    assert find_drift(spec_of(with_option), switch.database) == []


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
    assert switch.column("Bridge", BRIDGE, "fail_mode") == "[]"
    assert switch.column("Bridge", BRIDGE, "external_ids") == "{}"
    assert switch.column("Port", "p0", "external_ids") == "{}"


def test_a_port_that_broke_down_is_named_before_anything_is_done(switch: Switch) -> None:
    switch.expected = CANNOT_OPEN
    apply(MANY, switch.database)
    switch.vsctl("--no-wait", "set", "Interface", "vf1", "type=nonexistent")
    with pytest.raises(SwitchError, match="vf1: could not open"):
        apply(spec_of(BROKEN), switch.database)


def test_a_bundle_that_the_switch_refuses_changes_nothing_and_is_explained(switch: Switch) -> None:
    """A limit on a table that the operator set; the error names the object whose flow did not fit."""
    apply(FEW, switch.database)
    switch.vsctl(
        "clear",
        "Bridge",
        BRIDGE,
        "flow_tables",
        "--",
        "--id=@t",
        "create",
        "Flow_Table",
        "name=vip",
        "flow_limit=8",
        "overflow_policy=refuse",
        "--",
        "set",
        "Bridge",
        BRIDGE,
        f"flow_tables:{NUMBER['vip']}=@t",
    )
    tables = switch.tables()
    line = line_of(LARGE, "services: [dns]")  # MANY needs nine flows there, and these come last
    said = (
        rf"for VIP straight .* port 53/... \(spec\.yaml:{line}\): OFPFMFC_TABLE_FULL: .*cookie.*; nothing was changed"
    )
    with pytest.raises(SwitchError, match=said):
        apply(MANY, switch.database)
    assert switch.tables() == tables
    assert switch.ports() == {"p0"}


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

    monkeypatch.setattr(wanted_switch, "lines_of", broken)
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
    monkeypatch.setattr(wanted_switch, "groups_of", lambda plan: change(groups_of(plan)[0]))
    if how == "by the switch":
        send = OpenFlow.bundle
        monkeypatch.setattr(OpenFlow, "bundle", lambda self, lines: send(self, [*lines[:2], *lines[1:]]))
    # The switch's own message about what it could not read names no group.
    about = "" if how == "with a warning" else rf" for pool hashed.* \(spec\.yaml:{line_of(LARGE, 'hashed:')}\)"
    with pytest.raises(SwitchError, match=rf"refused the changes{about}: {reason}.*; bridge br-dns was removed again"):
        apply(MANY, switch.database)
    assert switch.bridges() == []


def test_a_switch_that_does_not_run_is_named_in_time_and_nothing_is_left(switch: Switch) -> None:
    apply(MANY, switch.database)
    switch.vsctl("del-br", BRIDGE)
    switch.expected = ["Connection reset by peer"]
    switch.kill_switch()
    start = time.monotonic()
    with pytest.raises(
        UnavailableError, match=r"ovs-vswitchd did not confirm .* within 0.5 s.*br-dns was removed again"
    ):
        apply(FEW, switch.database, timeout=0.5)
    assert time.monotonic() - start < 8
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
    assert find_drift(FEW, remote, openflow=f"unix:{switch.dir}/{BRIDGE}.mgmt") == []
