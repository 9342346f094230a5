# SPDX-License-Identifier: Apache-2.0
"""The agent and a switch that is not as applied: what it puts right, what it only reports, and what it leaves alone."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.switch.control_socket import folder_of
from tests.packet.agents import Agent, agent, wait
from tests.packet.command import SLOW, fresh, on, spec_file
from tests.packet.switches import BRIDGE, EGRESS_TABLE, LARGE, NEIGHBOR_TABLE, VIP_TABLE, Switch

ENDED = ["Connection reset by peer", "connection dropped", "Broken pipe", *SLOW]
"""What the switch says of a monitor that ends with its agent."""
EXPECTED = ["connection dropped", "could not open network device", "Broken pipe", "version negotiation failed"]


def _hashed(switch: Switch) -> str:
    """The group of the pool `hashed`, as group_id=N."""
    return next(group for group in switch.groups() if "dp_hash" in group).split(",")[0].strip()


TAMPER: dict[str, tuple[Callable[[Switch], object], str]] = {
    "a flow is deleted": (lambda s: s.ofctl("del-flows", f"{NEIGHBOR_TABLE},arp,arp_tpa=10.53.0.1"), "missing flow:"),
    "a flow is replaced": (
        lambda s: s.ofctl("add-flow", f"{EGRESS_TABLE},priority=0,actions=NORMAL"),
        "changed flow: ",
    ),
    "actions are changed": (lambda s: s.ofctl("mod-flows", f"{VIP_TABLE},udp actions=drop"), "changed flow:"),
    "a flow is added with our cookie": (
        lambda s: s.ofctl("add-flow", "cookie=0xd453020000000001,table=0,priority=9,udp,actions=drop"),
        "is not planned",
    ),
    "all flows are deleted": (lambda s: s.ofctl("del-flows"), "the switch has lost its tables"),
    "a group is deleted": (lambda s: s.ofctl("del-groups"), "missing group:"),
    "a group is changed": (
        lambda s: s.ofctl("mod-group", f"{_hashed(s)},type=select,bucket=drop"),
        "changed group:",
    ),
    "meters are deleted": (lambda s: s.ofctl("del-meters"), "missing meter:"),
    "a meter is added with our number": (
        lambda s: s.ofctl("add-meter", "meter=2147483649,pktps,bands=type=drop,rate=9"),
        "meter in dnsteer's range that is not planned",
    ),
    "a port forwards nothing": (lambda s: s.ofctl("mod-port", "p0", "no-forward"), "port p0: no-forward true -> false"),
    "fragments are dropped": (lambda s: s.ofctl("set-frags", "drop"), "set-frags drop -> normal"),
    "the fail mode is changed": (
        lambda s: s.vsctl("set-fail-mode", BRIDGE, "standalone"),
        "fail_mode standalone -> secure",
    ),
    "a port is removed": (lambda s: s.vsctl("del-port", BRIDGE, "p0"), "add port p0"),
    "spanning tree is on": (lambda s: s.vsctl("set", "Bridge", BRIDGE, "stp_enable=true"), "stp_enable true -> false"),
    "OpenFlow 1.5 is off": (lambda s: s.vsctl("set", "Bridge", BRIDGE, "protocols=OpenFlow13"), "protocols"),
    "ovs-vswitchd is killed": (lambda s: (s.kill_switch(), s.start_switch()), "the switch has lost its tables"),
}


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return spec_file(tmp_path_factory.mktemp("spec"), LARGE)


@pytest.fixture(scope="module")
def watched(shared: Switch, spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """An agent beside the module's switch, with the spec LARGE applied."""
    fresh(shared)
    assert on(shared)("apply", spec, "--yes").code == 0
    with agent(shared, tmp_path_factory.mktemp("agent")) as running:
        yield running


@pytest.mark.parametrize("what", TAMPER)
def test_drift_is_repaired(shared: Switch, watched: Agent, spec: Path, what: str) -> None:
    before, length = shared.tables(), len(watched.said())
    tamper, words = TAMPER[what]
    tamper(shared)
    wait(
        lambda: "repaired: " in watched.said()[length:],
        lambda: f"not repaired: {shared.ofctl('get-frags')} {watched.said()}",
    )
    wait(lambda: on(shared)("verify", spec).code == 0, lambda: on(shared)("verify", spec).out)
    assert words in watched.said()[length:]
    assert shared.tables() == before


def test_a_flow_of_others_is_left_and_named(shared: Switch, watched: Agent) -> None:
    line = "table=0,priority=7,udp actions=drop"
    shared.ofctl("add-flow", "cookie=0x77," + line)
    watched.waits_for(
        "a flow that is not dnsteer's is left as it is: cookie=0x77, table=0, priority=7,udp actions=drop"
    )
    assert any("cookie=0x77" in flow for flow in shared.flows())
    shared.ofctl("del-flows", "cookie=0x77/-1")


def test_a_setting_of_others_is_named(shared: Switch, watched: Agent) -> None:
    shared.vsctl("set", "Interface", "vf0", "ingress_policing_rate=1")
    watched.waits_for("warning: port vf0: ingress_policing_rate is 1")
    assert shared.column("Interface", "vf0", "ingress_policing_rate") == "1"
    shared.vsctl("set", "Interface", "vf0", "ingress_policing_rate=0")


def test_a_flow_of_others_in_the_place_of_ours_is_left_and_named(shared: Switch, watched: Agent, spec: Path) -> None:
    shared.ofctl("add-flow", f"cookie=0x77,{EGRESS_TABLE},priority=0,actions=NORMAL")
    watched.waits_for(f"have the table, priority and match of its own flows: cookie=0x77, {EGRESS_TABLE}")
    assert any("cookie=0x77" in flow for flow in shared.flows())
    shared.ofctl("del-flows", "cookie=0x77/-1")
    wait(lambda: on(shared)("verify", spec).code == 0, lambda: watched.said())


def test_an_unfinished_change_by_others_is_reported(shared: Switch, watched: Agent) -> None:
    before = shared.tables()
    with TargetSwitch(shared.database).session() as session:
        session.lock(BRIDGE)
        shared.ofctl("del-flows", f"{NEIGHBOR_TABLE},arp,arp_tpa=10.53.0.1")
        watched.waits_for(f"not compared with the record: another dnsteer is changing bridge {BRIDGE}")
        assert shared.tables() != before
    watched.waits_for("\ncompared with the record again")
    wait(lambda: shared.tables() == before, watched.said)


def test_changes_by_verbs_are_not_repaired(shared: Switch, watched: Agent, spec: Path) -> None:
    length = len(watched.said())
    for verb, change in (("drain", "direct/a"), ("undrain", "direct/a"), ("down", "hashed/b"), ("up", "hashed/b")):
        assert on(shared)(verb, change, "--yes").code == 0
    fewer = spec.with_name("fewer.yaml")
    fewer.write_text(LARGE.replace("198.51.100.54, ", ""))
    assert on(shared)("apply", fewer, "--yes", "--grace", "0").code == 0
    assert on(shared)("rollback", "--yes", "--grace", "0").code == 0
    watched.waits_for("state 3, ")
    wait(lambda: on(shared)("verify", spec).code == 0, lambda: watched.said())
    assert "repaired" not in watched.said()[length:]


def test_report_mode_names_drift_and_repairs_nothing(switch: Switch, tmp_path: Path) -> None:
    switch.expected += ENDED
    spec = spec_file(tmp_path, LARGE.replace("switch:\n", "switch:\n  repair: report\n"))
    assert on(switch)("apply", spec).code == 0
    with agent(switch, tmp_path) as running:
        switch.ofctl("del-flows", f"{NEIGHBOR_TABLE},arp,arp_tpa=10.53.0.1")
        running.waits_for("not as applied: missing flow:")
        switch.ofctl("mod-port", "p0", "no-forward")
        running.waits_for("not as applied: port p0 no-forward is true")
        assert "repaired" not in running.said()
    assert on(switch)("verify", spec).code == 2


def test_a_switch_that_goes_away_and_comes_back(switch: Switch, tmp_path: Path) -> None:
    """The database too: the agent waits without haste, and puts right what it finds then."""
    spec = spec_file(tmp_path, LARGE)
    switch.expected += ENDED
    assert on(switch)("apply", spec).code == 0
    with agent(switch, tmp_path) as running:
        switch.kill_switch()
        database = switch._processes["ovsdb-server"]
        database.send_signal(signal.SIGSTOP)
        try:
            running.waits_for("the switch stays as it is: ")
            before = _cpu(running)
            time.sleep(2)
            assert _cpu(running) - before < 0.6, running.said()
        finally:
            database.send_signal(signal.SIGCONT)
        switch.start_switch()
        running.waits_for("repaired: the switch has lost its tables")
        wait(lambda: on(switch)("verify", spec).code == 0, running.said)
        running.waits_for("the switch can be reached again")


def _cpu(running: Agent) -> float:
    """Seconds of CPU time that the agent has taken."""
    fields = Path(f"/proc/{running.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_tables_of_another_version_are_left_alone(
    switch: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch.expected += ENDED
    monkeypatch.setattr("dnsteer.deploy.goal.__version__", "99.0")
    assert on(switch)("apply", spec_file(tmp_path, LARGE)).code == 0
    with agent(switch, tmp_path) as running:
        running.waits_for("dnsteer 99.0 made the tables; apply the spec to have them watched")
        _stays_damaged(switch, running)


def test_an_overlay_of_a_newer_version_is_left_alone(switch: Switch, tmp_path: Path) -> None:
    switch.expected += ENDED
    assert on(switch)("apply", spec_file(tmp_path, LARGE)).code == 0
    entry = {"pool": "direct", "backend": "a", "kind": "asleep", "since": "2026-01-01T00:00:00+00:00", "by": "x"}
    with agent(switch, tmp_path) as running:
        text = json.dumps(json.dumps([entry]))
        switch.vsctl("set", "Bridge", BRIDGE, f"external_ids:dnsteer-overlay={text}")
        running.waits_for("the switch stays as it is: external_ids:dnsteer-overlay of bridge br-dns")
        running.waits_for("asleep")
        _stays_damaged(switch, running)


@pytest.mark.parametrize("text", ["2 0.2.0", "0 0.0.9"])
def test_a_record_of_another_format_is_left_alone(switch: Switch, tmp_path: Path, text: str) -> None:
    """As while dnsteer is upgraded, and its agent is not restarted yet."""
    switch.expected += ENDED
    assert on(switch)("apply", spec_file(tmp_path, LARGE)).code == 0
    with agent(switch, tmp_path) as running:
        switch.vsctl("set", "Bridge", BRIDGE, f'external_ids:dnsteer-format="{text}"')
        running.waits_for("the switch stays as it is: the record of bridge br-dns has format")
        _stays_damaged(switch, running)
        switch.vsctl("set", "Bridge", BRIDGE, 'external_ids:dnsteer-format="1 0.1.0"')
        running.waits_for("repaired")


def test_an_agent_of_another_format_keeps_what_the_agent_before_could_not_record(
    switch: Switch, tmp_path: Path
) -> None:
    switch.expected += ENDED
    assert on(switch)("apply", spec_file(tmp_path, LARGE)).code == 0
    switch.vsctl("set", "Bridge", BRIDGE, 'external_ids:dnsteer-format="2 0.2.0"')
    folder = folder_of(switch.database)
    assert folder is not None
    folder.mkdir(exist_ok=True)
    kept = folder / f"{BRIDGE}.unrecorded"
    kept.write_text('{"format": 2}')
    with agent(switch, tmp_path, "the record of bridge br-dns has format 2"):
        assert kept.exists()


def _stays_damaged(switch: Switch, running: Agent) -> None:
    switch.ofctl("del-flows", f"{NEIGHBOR_TABLE},arp,arp_tpa=10.53.0.1")
    before = switch.tables()
    time.sleep(1)
    assert switch.tables() == before
    assert "repaired" not in running.said()


def test_of_two_agents_one_acts(switch: Switch, tmp_path: Path) -> None:
    spec = spec_file(tmp_path, LARGE)
    assert on(switch)("apply", spec).code == 0
    switch.expected += ENDED
    first = Agent(switch, tmp_path / "first.log")
    try:
        first.waits_for("pools with health checks")
        with agent(switch, tmp_path, "standing by", "second") as second:
            switch.ofctl("del-flows", f"{NEIGHBOR_TABLE},arp,arp_tpa=10.53.0.1")
            first.waits_for("repaired: missing flow:")
            first.end(signal.SIGKILL)
            second.waits_for(f"this agent now works on bridge {BRIDGE}")
            assert "repaired" not in second.said()
            switch.ofctl("del-flows", f"{NEIGHBOR_TABLE},arp,arp_tpa=10.53.0.1")
            second.waits_for("repaired: missing flow:")
    finally:
        first.end(signal.SIGKILL)
