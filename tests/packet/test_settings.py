# SPDX-License-Identifier: Apache-2.0
"""What stops or changes traffic and is no flow: `verify` and `status` name it, `apply` puts right what is dnsteer's."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from dnsteer.cli.output import Exit
from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.run import Options, preview
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.status.verify import Drift, find_drift, left_by_apply
from dnsteer.switch.settings import SETTINGS, SettingLevel
from tests.packet.agents import wait
from tests.packet.apply_spec import apply
from tests.packet.command import SLOW, fresh, on
from tests.packet.setting_cases import (
    CRIPPLING,
    DOWN,
    IGNORED,
    JUMBO,
    NEEDED,
    OTHERS,
    OURS,
    QUERY,
    REFERENCE,
    SPEC,
    Case,
    leaves,
    passes,
)
from tests.packet.switches import BRIDGE, LARGE, NUMBER, SMALL, Switch, spec_of, unexpected

EXPECTED = [
    *SLOW,
    "sFlow agent",
    "not supported",
    "Connection refused",
    "Connection reset by peer",
    "failed to flow_del",
]


@pytest.fixture(scope="module")
def one() -> Iterator[Switch]:
    """One switch for all cases; each leaves it as the spec says."""
    with Switch() as private:
        private.expected = EXPECTED
        yield private
        assert unexpected(private) == []


@pytest.fixture
def applied(one: Switch) -> Switch:
    """The switch with the spec applied, and nothing else."""
    if not one.bridges() or find_drift(SPEC, one.database):
        clean(one)
        apply(SPEC, one.database)
        assert find_drift(SPEC, one.database) == []
    return one


def status(switch: Switch) -> Any:
    """What `dnsteer status` says."""
    return on(switch)("status", "--json", "--no-rates").json


def clean(switch: Switch) -> None:
    """Leave nothing of dnsteer's, and no setting of the whole switch."""
    fresh(switch)
    for key in ("flow-limit", "hw-offload", "max-idle", "vlan-limit", "flow-restore-wait"):
        switch.vsctl("remove", "Open_vSwitch", ".", "other_config", key)


def mend(switch: Switch, drift: Drift) -> None:
    """Run the command that *drift* names."""
    command = drift.detail.rpartition(": ")[2].replace("del-port br-dns PORT", "del-port br-dns vf9")
    words = shlex.split(command.partition(", then")[0])
    assert words[0] in ("ovs-vsctl", "ovs-ofctl"), command
    env = {**os.environ, **switch.env, "OVS_RUNDIR": str(switch.dir)}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, (command, done.stderr)


def only(switch: Switch, case: Case, loaded: object = SPEC) -> Drift:
    """The one thing that verify names."""
    (found,) = find_drift(spec_of(case.spec), switch.database)
    assert found.about == case.about
    assert case.said in found.detail
    line = case.spec.splitlines()[found.line - 1] if found.line else ""
    assert not line or case.about.partition(" ")[2] in line
    assert bool(line) is (case.about != "switch" and not case.about.startswith("table"))
    return found


@pytest.mark.parametrize("what", OURS)
def test_altered_dnsteer_settings_are_named_and_repaired(what: str, applied: Switch, tmp_path: Path) -> None:
    case = OURS[what]
    assert case.stops is not None
    assert passes(applied, case.stops)
    case.change(applied)
    # ovs-vswitchd answers to a change of a port before its main loop has it in the datapath.
    stopped = what != "set-frags nx-match"
    wait(
        lambda: passes(applied, case.stops, within=0.2 if stopped else 2.0) is not stopped,
        lambda: "packets go on as before",
    )
    found = only(applied, case)
    assert not found.warns and not left_by_apply([found])
    seen = status(applied)
    assert [d["detail"] for d in seen["drift"]] == [found.detail]
    assert (seen["ok"], seen["warnings"]) == (False, [])
    summary = preview(FileSource(SPEC), TargetSwitch(applied.database), Options())
    assert len(summary.found.settings) == 1
    assert case.said.replace(" is ", " ") in summary.found.settings[0]
    done = apply(SPEC, applied.database)
    assert done.settings == summary.found.settings
    assert not done.flows
    assert find_drift(SPEC, applied.database) == []
    wait(lambda: passes(applied, case.stops), lambda: "packets do not go on")
    assert not apply(SPEC, applied.database).changed
    case.change(applied)
    mend(applied, only(applied, case))
    assert find_drift(SPEC, applied.database) == []


@pytest.mark.parametrize("what", OTHERS)
def test_foreign_settings_are_warned_of_and_left(what: str, applied: Switch, tmp_path: Path) -> None:
    case = OTHERS[what]
    loaded, file = spec_of(case.spec), tmp_path / "spec.yaml"
    file.write_text(case.spec)
    if case.spec != LARGE:
        fresh(applied)
        apply(loaded, applied.database)
    assert passes(applied, QUERY)
    case.change(applied)
    if what == "controller":  # Open vSwitch empties all tables when the first one comes, and when the last one goes
        assert any(d.kind == "flow missing" for d in find_drift(loaded, applied.database))
        assert on(applied)("restore").code == 0
    found = only(applied, case)
    assert found.warns
    ran = on(applied)("verify", file)
    assert (ran.code, ran.out) == (0, "br-dns: as the spec says\n")
    assert ran.err == f"warning: {found.text(str(file))}\n"
    as_json = on(applied)("verify", file, "--json")
    assert (as_json.code, as_json.json["ok"], as_json.json["drift"]) == (0, True, [])
    assert as_json.json["warnings"] == [found.as_json(str(file))]
    seen = status(applied)
    assert (seen["ok"], seen["drift"], seen["warnings"]) == (True, [], [found.text("spec.yaml")])
    again = on(applied)("apply", file)
    assert (again.code, again.out) == (0, "br-dns: nothing to change\n")
    assert again.err == f"warning: {found.about}: {found.detail}\n"
    assert only(applied, case) == found
    mend(applied, found)
    if what == "hw-offload":
        clean(applied)
        return
    if what == "controller":
        assert on(applied)("restore").code == 0
    assert find_drift(loaded, applied.database) == []
    if case.about == "switch":
        clean(applied)


@pytest.mark.parametrize("what", CRIPPLING)
def test_crippling_settings_are_a_difference(what: str, applied: Switch, tmp_path: Path) -> None:
    case = CRIPPLING[what]
    loaded, file = spec_of(case.spec), tmp_path / "spec.yaml"
    file.write_text(case.spec)
    fresh(applied)
    apply(loaded, applied.database)
    assert passes(applied, QUERY)
    case.change(applied)
    found = [each for each in find_drift(loaded, applied.database) if each.about == case.about]
    assert len(found) == 1 and not found[0].warns and case.said in found[0].detail
    assert left_by_apply(found) == found
    ran = on(applied)("verify", file)
    assert (ran.code, ran.err) == (Exit.DIFFERENT, "") and found[0].text(str(file)) in ran.out
    seen = on(applied)("status", "--json", "--no-rates")
    assert (seen.code, seen.json["ok"]) == (Exit.DIFFERENT, False)
    assert found[0].detail in [each["detail"] for each in seen.json["drift"]]
    again = on(applied)("apply", file)  # which leaves it, as it leaves a port that is down
    assert (again.code, again.out) == (0, "br-dns: nothing to change\n")
    assert f"warning: {found[0].about}: {found[0].detail}\n" in again.err
    if case.spec == LARGE:
        mend(applied, found[0])
        wait(lambda: find_drift(loaded, applied.database) == [], lambda: "it is named still")
    clean(applied)


def test_disabled_megaflows_are_named_where_packets_show_it(applied: Switch) -> None:
    def ask(number: int) -> None:
        ip = IP(src=f"198.18.0.{number}", dst="198.51.100.54") / UDP(sport=20000 + number, dport=53)
        frame = Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:53") / ip
        applied.appctl("netdev-dummy/receive", "p0", bytes(frame).hex())

    ask(1)
    wait(lambda: "udp(" in applied.appctl("dpctl/dump-flows"), lambda: "no datapath flow")
    assert find_drift(SPEC, applied.database) == []
    applied.appctl("upcall/disable-megaflows")
    ask(2)
    wait(lambda: "udp(" in applied.appctl("dpctl/dump-flows"), lambda: "no datapath flow")
    [found] = find_drift(SPEC, applied.database)
    assert (found.kind, found.about, found.warns) == ("switch changed", "switch", False)
    assert found.detail.startswith(
        "megaflows are disabled, should be enabled: each client's address and port makes a datapath"
    )
    assert found.detail.endswith("to change it: ovs-appctl upcall/enable-megaflows")
    assert status(applied)["ok"] is False
    applied.appctl("upcall/enable-megaflows")
    ask(3)
    assert find_drift(SPEC, applied.database) == []


def test_longer_packets_than_the_mtu_are_lost(applied: Switch) -> None:
    """As its warning says."""
    long = replace(QUERY, data=QUERY.data + bytes(1000))
    assert passes(applied, long, leaves(QUERY).port)
    applied.vsctl("set", "Interface", leaves(QUERY).port, "mtu_request=800")
    wait(lambda: find_drift(SPEC, applied.database) != [], lambda: "it is not named")
    assert not passes(applied, long, leaves(QUERY).port)
    assert passes(applied, QUERY)
    fresh(applied)


def test_links_shorter_than_bringup_makes_them_are_named(applied: Switch) -> None:
    """Where bringup was not run, as in the lab, that is no difference."""
    loaded = spec_of(JUMBO)
    fresh(applied)
    apply(loaded, applied.database)
    found = [each for each in find_drift(loaded, applied.database) if each.about == "port p0"]
    assert [(each.warns, each.detail.startswith("mtu is 1500")) for each in found] == [(True, True)]
    assert "full TCP segments need 9000" in found[0].detail
    fresh(applied)


def test_short_idle_times_forget_datapath_flows(applied: Switch) -> None:
    """As its warning says: with it, most packets of a client take the slow path."""
    assert passes(applied, QUERY)
    CRIPPLING["max-idle"].change(applied)
    wait(lambda: "udp(" not in applied.appctl("dpctl/dump-flows"), lambda: "it is there still")
    clean(applied)


def test_every_setting_of_the_list_is_tried() -> None:
    tried = {*OURS, *OTHERS, "megaflows", "tc-policy", "admin_state", "link_state", "flow-restore-wait"}
    assert {s.name.rpartition(":")[2] for s in SETTINGS} <= tried
    assert {s.name for s in SETTINGS if s.level is SettingLevel.SET} <= set(OURS)


def test_enough_datapath_flows_are_no_warning(applied: Switch) -> None:
    for limit, warned in ((NEEDED - 1, True), (NEEDED, False)):
        applied.vsctl("set", "Open_vSwitch", ".", f"other_config:flow-limit={limit}")
        assert bool(find_drift(SPEC, applied.database)) is warned
    applied.vsctl("remove", "Open_vSwitch", ".", "other_config", "flow-limit")


def test_a_controller_that_only_listens_is_no_warning(applied: Switch) -> None:
    """So remote switches are reached."""
    applied.vsctl("set-controller", BRIDGE, "ptcp:0:127.0.0.1")
    assert find_drift(SPEC, applied.database) == []
    applied.vsctl("del-controller", BRIDGE)


@pytest.mark.parametrize("what", IGNORED)
def test_settings_without_effect_are_not_named(what: str, applied: Switch) -> None:
    applied.vsctl("set", *IGNORED[what].split())
    assert passes(applied, QUERY)
    assert find_drift(SPEC, applied.database) == []
    fresh(applied)


@pytest.mark.parametrize("what", ["tag", "trunks", "vlan_mode", "hwaddr", "ports of others", "mirrors", "netflow"])
def test_harmless_settings_let_queries_pass(what: str, applied: Switch) -> None:
    """The warnings of these say that frames pass all the same."""
    OTHERS[what].change(applied)
    assert passes(applied, QUERY)
    fresh(applied)


def test_frames_with_two_tags_pass_by_the_vlan_limit_alone(applied: Switch) -> None:
    """As its warning says. The outer tag has a priority alone, which is served."""
    twice = replace(QUERY, data=QUERY.data[:12] + bytes.fromhex("8100600081000064") + QUERY.data[12:])
    assert not REFERENCE.expect(twice.port, twice.data).options
    assert not passes(applied, twice, leaves(QUERY).port)
    OTHERS["vlan-limit"].change(applied)
    assert passes(applied, twice, leaves(QUERY).port)
    clean(applied)


def test_netflow_makes_a_datapath_flow_for_each_client(applied: Switch) -> None:
    """As its warning says: without it one serves all clients of a slot."""

    def flows() -> int:
        applied.appctl("dpctl/del-flows")
        applied.appctl("revalidator/wait")  # else what is left of a deleted flow may keep the next one from its place
        for client in range(1, 4):
            ip = IP(src=f"198.18.0.{client}", dst="198.51.100.54") / UDP(sport=20000, dport=53)
            frame = Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:53") / ip
            applied.appctl("netdev-dummy/receive", "p0", bytes(frame).hex())
        time.sleep(0.2)
        return applied.appctl("dpctl/dump-flows").count("udp(")

    assert flows() == 1
    OTHERS["netflow"].change(applied)
    assert flows() == 3
    fresh(applied)


def test_a_port_that_is_down_is_not_gone(applied: Switch, tmp_path: Path) -> None:
    assert passes(applied, QUERY)
    DOWN.change(applied)  # a dummy device takes frames all the same; real ones are tried in tests/system
    found = only(applied, DOWN)
    assert (found.kind, found.warns) == ("port down", False)
    assert found.detail.endswith("ovs-ofctl -O OpenFlow15 mod-port br-dns p0 up")
    seen = status(applied)
    assert (seen["ok"], seen["drift"][0]["kind"]) == (False, "port down")
    summary = preview(FileSource(SPEC), TargetSwitch(applied.database), Options())
    assert not summary.changed  # somebody took it down; apply only says so
    assert summary.warnings == [f"port p0: {found.detail}"]
    mend(applied, found)
    assert find_drift(SPEC, applied.database) == []
    assert passes(applied, QUERY)


def test_an_interface_of_a_bond_is_named(switch: Switch) -> None:
    apply(spec_of(SMALL), switch.database)
    switch.vsctl("del-port", BRIDGE, "p0", "--", "add-bond", BRIDGE, "bond0", "p0", "p9")
    found = find_drift(spec_of(SMALL), switch.database)
    assert "is part of the bond bond0" in found[0].detail
    switch.expected = ["default bond_mode"]


def test_a_switch_that_waits_is_named(applied: Switch) -> None:
    applied.vsctl("set", "Open_vSwitch", ".", "other_config:flow-restore-wait=true")
    (found,) = find_drift(SPEC, applied.database)
    assert (found.kind, found.about, found.warns) == ("switch waits", "switch", False)
    assert found.detail.endswith("dnsteer restore")
    assert on(applied)("restore").code == 0
    assert find_drift(SPEC, applied.database) == []


@pytest.mark.parametrize("what", OURS)
def test_after_a_restart_restore_leaves_nothing_otherwise(what: str, applied: Switch) -> None:
    """What OpenFlow alone has does not outlive the switch; what OVSDB has does, and restore puts it right."""
    case = OURS[what]
    assert case.stops is not None
    case.change(applied)
    applied.kill_switch()
    applied.start_switch()
    assert (case.said in " ".join(d.detail for d in find_drift(SPEC, applied.database))) is case.lasting
    assert on(applied)("restore").code == 0
    assert find_drift(SPEC, applied.database) == []
    wait(lambda: passes(applied, case.stops), lambda: "packets do not go on")


def test_a_restore_without_a_restart_puts_it_right(applied: Switch) -> None:
    for what in ("no-forward", "set-frags", "stp_enable"):
        OURS[what].change(applied)
    foreseen = on(applied)("restore", "--dry-run")
    assert "3 changes" in foreseen.out
    assert on(applied)("restore").code == 0
    assert find_drift(SPEC, applied.database) == []


def test_an_adopted_bridge_is_put_right(one: Switch) -> None:
    clean(one)
    one.vsctl(
        "add-br",
        BRIDGE,
        "--",
        "set",
        "Bridge",
        BRIDGE,
        "datapath_type=netdev",
        "rstp_enable=true",
        "--",
        "add-port",
        BRIDGE,
        "p0",
    )
    one.ofctl("set-frags", "drop")
    done = apply(SPEC, one.database, adopt=True)
    assert {s for s in done.settings if "->" in s} >= {"rstp_enable true -> false", "set-frags drop -> normal"}
    assert find_drift(SPEC, one.database) == []


def test_a_failed_apply_leaves_settings(applied: Switch) -> None:
    """They are changed after the tables: nothing of them is when these are refused."""
    OURS["no-forward"].change(applied)
    applied.vsctl("set", "Bridge", BRIDGE, "rstp_enable=true")
    row = applied.column("Bridge", BRIDGE, f"flow_tables:{NUMBER['vip']}")
    applied.vsctl("set", "Flow_Table", row, "flow_limit=4", "overflow_policy=refuse")
    more = LARGE.replace("[198.51.100.54,", "[198.51.100.54, 198.51.100.55,")
    before = {d.detail for d in find_drift(SPEC, applied.database)}
    with pytest.raises(Exception, match="refused"):
        apply(spec_of(more), applied.database)
    assert {d.detail for d in find_drift(SPEC, applied.database)} == before
    fresh(applied)
