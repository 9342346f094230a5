# SPDX-License-Identifier: Apache-2.0
"""A switch on standby answers no ARP and no neighbour solicitations; the agent, a restore and a boot keep it so."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import ICMPv6ND_NS, ICMPv6NDOptSrcLLAddr, IPv6
from scapy.layers.l2 import ARP, Ether

from dnsteer.deploy.recorded_spec import spec_of
from dnsteer.deploy.role import bring_role, standby_flows
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.switch.openflow import OpenFlow, Tables
from dnsteer.switch.session import Session
from dnsteer.switch.table_changes import lines_to_restore
from tests.packet.agents import agent, wait
from tests.packet.birds import bird, needs_bird
from tests.packet.capturing import send, sent
from tests.packet.command import FARM, SLOW, fresh, nothing_changes, on, run, spec_file, state_rows
from tests.packet.switches import BRIDGE, Switch
from tests.packet.table_numbers import ALL_ABOVE, renumber

EXPECTED = [*SLOW, "connection dropped", "Broken pipe", "could not open network device", "probe0"]
HERE = "02:00:00:00:00:fe"
SPEC = FARM.replace("  uplinks:\n", "  probe: {addresses: [192.0.2.9/24, '2001:db8::9/64']}\n  uplinks:\n")
READY = "state 1"


def arp(address: str) -> bytes:
    return bytes(Ether(src=HERE, dst="ff:ff:ff:ff:ff:ff") / ARP(hwsrc=HERE, psrc="192.0.2.200", pdst=address)).ljust(
        60, b"\0"
    )


def solicitation(address: str) -> bytes:
    last = socket.inet_pton(socket.AF_INET6, address)[-3:].hex()
    mac, to = f"33:33:ff:{last[:2]}:{last[2:4]}:{last[4:]}", f"ff02::1:ff{last[:2]}:{last[2:]}"
    ns = ICMPv6ND_NS(tgt=address) / ICMPv6NDOptSrcLLAddr(lladdr=HERE)
    return bytes(Ether(src=HERE, dst=mac) / IPv6(src="2001:db8::200", dst=to, hlim=255) / ns)


QUERY = bytes(
    Ether(src=HERE, dst="02:00:00:00:00:53")
    / IP(src="192.0.2.200", dst="192.0.2.53")
    / UDP(sport=4000, dport=53)
    / b"q"
)
ASKED = {"192.0.2.53": arp("192.0.2.53"), "2001:db8::53": solicitation("2001:db8::53")}
PROBE = {"192.0.2.9": arp("192.0.2.9"), "2001:db8::9": solicitation("2001:db8::9")}


def answered(switch: Switch, frame: bytes) -> bool:
    """Whether a frame makes the switch send one."""
    switch.appctl("revalidator/wait")
    before = sent(switch)
    send(switch, frame)
    return sent(switch) > before


def answers(switch: Switch) -> set[str]:
    """The addresses that it answers for."""
    return {address for address, frame in {**ASKED, **PROBE}.items() if answered(switch, frame)}


ALL, PROBES = {*ASKED, *PROBE}, {*PROBE}


def applied(switch: Switch, folder: Path, spec: str) -> Switch:
    fresh(switch)
    done = on(switch)("apply", spec_file(folder, spec), "--yes")
    assert done.code == 0, done.err
    return switch


@pytest.fixture
def switch(shared: Switch, tmp_path: Path) -> Switch:
    return applied(shared, tmp_path, SPEC)


@pytest.fixture
def plain(shared: Switch, tmp_path: Path) -> Switch:
    """The same without a port for probes, which an agent needs a real device for."""
    return applied(shared, tmp_path, FARM)


def test_a_standby_switch_answers_only_for_probe_addresses(switch: Switch) -> None:
    run = on(switch)
    assert (run("role").out, answers(switch)) == (f"{BRIDGE}: none\n", ALL)
    with nothing_changes(switch):
        assert "would be on standby" in run("role", "standby", "--dry-run").out
    tables = switch.tables()
    done = run("role", "standby")
    assert (done.code, "br-dns: is on standby" in done.out) == (0, True), done.err
    assert answers(switch) == PROBES
    assert answered(switch, QUERY), "it goes on forwarding"
    shown = run("role", "--json").json
    assert (shown["role"], shown["told"]) == ("standby", "standby")
    told = {key: shown[key] for key in ("role", "told", "since", "by")}
    assert run("status", "--no-rates", "--json").json["role"] == told
    assert "this switch is on standby, by " in run("status", "--no-rates").out
    assert run("verify", "--json", spec_file(Path(switch.dir), SPEC)).code == 0
    before = switch.flows()
    assert "already" in run("role", "standby").out
    assert switch.flows() == before
    before = sent(switch)
    assert run("role", "active").code == 0
    assert answers(switch) == ALL
    assert sent(switch) > before + len(ALL), "and neighbours are told"
    assert switch.tables() == tables
    assert run("role", "none").code == 0
    assert "dnsteer-role" not in switch.column("Bridge", BRIDGE, "external_ids")


def test_the_first_role_of_a_pair_without_a_name_is_warned_of(plain: Switch, tmp_path: Path) -> None:
    run = on(plain)
    first = " ".join(run("role", "standby").err.split())
    assert (
        "the applied spec has no switch.pair, so metrics and alerts call this pair 192.0.2.53, its lowest VIP" in first
    )
    assert "switch.pair" not in run("role", "active").err, "once is enough"
    assert run("role", "none").code == 0
    named = spec_file(tmp_path, old="name: dpu-1", new="name: dpu-1\n  pair: site-a")
    assert run("apply", named, "--yes").code == 0
    assert "switch.pair" not in run("role", "standby").err


def test_a_role_before_the_tables_have_the_numbers_of_this_version(switch: Switch, tmp_path: Path) -> None:
    """After an upgrade: requests for where probes come from go to the table that the switch has for them."""
    run = on(switch)
    renumber(switch, ALL_ABOVE)
    assert run("role", "standby").code == 0
    assert answers(switch) == PROBES
    assert "already" in run("role", "standby").out
    assert run("apply", spec_file(tmp_path, SPEC), "--yes").code == 0
    assert answers(switch) == PROBES
    assert run("role", "active").code == 0
    assert answers(switch) == ALL


def test_applies_and_drains_keep_the_switch_on_standby(switch: Switch, tmp_path: Path) -> None:
    run = on(switch)
    assert run("role", "standby").code == 0
    assert run("drain", "farm/ns1", "--yes").code == 0
    assert run("apply", spec_file(tmp_path, SPEC.replace("weight: 2", "weight: 3")), "--yes").code == 0
    assert run("rollback", "--yes").code == 0
    assert answers(switch) == PROBES


def test_restore_keeps_the_switch_on_standby(switch: Switch) -> None:
    run = on(switch)
    assert run("role", "standby").code == 0
    switch.kill_switch()
    switch.start_switch()
    assert run("restore").code == 0
    assert answers(switch) == PROBES


def test_a_booted_switch_is_on_standby_until_its_role_is_set(switch: Switch, tmp_path: Path) -> None:
    run = on(switch)
    assert run("role", "active").code == 0
    record_role(switch, {**recorded_role(switch), "boot": "another"})
    assert "standby, told to be active" in run("role").out
    assert "since its machine was booted" in run("status", "--no-rates").out
    drift = run("verify", spec_file(tmp_path, SPEC))
    assert (drift.code, "it is on standby and may answer ARP" in drift.out + drift.err) == (2, True), drift
    assert run("restore").code == 0
    assert answers(switch) == PROBES
    assert run("role", "active").code == 0
    assert answers(switch) == ALL


def test_a_switch_that_does_not_answer_is_recorded_and_follows_later(plain: Switch, tmp_path: Path) -> None:
    plain.kill_switch()
    done = on(plain)("role", "standby")
    assert (done.code, "recorded, but the switch does not answer" in done.err) == (69, True), done
    plain.start_switch()
    with agent(plain, tmp_path, READY):
        wait(lambda: answers(plain) == set(), lambda: f"it answers for {answers(plain)}")


def test_the_agent_follows_the_role(plain: Switch, tmp_path: Path) -> None:
    run = on(plain)
    with agent(plain, tmp_path, READY, "agent", "--metrics", "127.0.0.1:0") as running:
        assert run("role", "standby").code == 0
        running.waits_for("this switch is on standby now")
        running.waits_for("metrics at http://")
        address = running.said().partition("metrics at http://")[2].partition("/")[0]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
            assert 'dnsteer_switch_standby{bridge="br-dns",switch="dpu-1"} 1.0' in page.read().decode()
        plain.ofctl("del-flows", "cookie=0xd454000000000000/-1")  # somebody
        wait(lambda: answers(plain) == set(), lambda: f"it answers for {answers(plain)}")
        running.waits_for("repaired: flows of the switch's role")
        plain.kill_switch()
        plain.start_switch()
        running.waits_for("the switch has lost its tables")
        wait(lambda: answered(plain, QUERY), lambda: "no tables yet")
        assert answers(plain) == set()
        assert run("role", "active").code == 0
        running.waits_for("this switch is active now")
        # What it tells its neighbours by itself meanwhile is counted as an answer.
        wait(lambda: answers(plain) == {*ASKED}, lambda: f"it answers for {answers(plain)}")
        running.waits_for("told neighbours of 3 VIP addresses and 0 gateways")


@needs_bird
def test_vips_are_not_announced_on_standby(shared: Switch, tmp_path: Path) -> None:
    rules = f"  announce: {{via: bird, include: {tmp_path}/dnsteer.conf, control: {tmp_path}/bird.ctl, hold_max: 0s}}\n"
    fresh(shared)
    assert (
        on(shared)("apply", spec_file(tmp_path, FARM.replace("  uplinks:\n", f"{rules}  uplinks:\n")), "--yes").code
        == 0
    )
    with bird(tmp_path) as own, agent(shared, tmp_path, READY) as running:
        wait(lambda: "192.0.2.53" in own.routes(), lambda: "not announced")
        assert on(shared)("role", "standby").code == 0
        wait(lambda: not own.routes(), lambda: "still announced")
        running.waits_for("VIP dns is withdrawn: this switch is on standby")
        assert on(shared)("role", "active").code == 0
        wait(lambda: "192.0.2.53" in own.routes(), lambda: "not announced again")


def record_role(switch: Switch, role: dict[str, str]) -> None:
    switch.vsctl("set", "Bridge", BRIDGE, f"external_ids:dnsteer-role={json.dumps(json.dumps(role))}")


def recorded_role(switch: Switch) -> dict[str, str]:
    role: dict[str, str] = json.loads(json.loads(switch.column("Bridge", BRIDGE, "external_ids:dnsteer-role")))
    return role


def test_a_role_set_from_another_machine_holds(switch: Switch, tmp_path: Path) -> None:
    away = ("--db", switch.listen_on_tcp(), "--openflow", f"unix:{switch.dir}/{BRIDGE}.mgmt")
    wait(lambda: run("role", *away).code == 0, lambda: "nobody listens")
    for name, answering in (("standby", PROBES), ("active", ALL)):
        assert run("role", name, *away).code == 0
        assert recorded_role(switch)["boot"] == ""
        assert f"{BRIDGE}: {name}, told to be {name}" in on(switch)("role").out
        assert on(switch)("restore").code == 0
        assert answers(switch) == answering
        assert on(switch)("verify", spec_file(tmp_path, SPEC)).code == 0


def test_an_apply_that_makes_the_switch_drop_its_flows_keeps_it_on_standby(switch: Switch, tmp_path: Path) -> None:
    run = on(switch)
    assert run("role", "standby").code == 0
    switch.vsctl("set-fail-mode", BRIDGE, "standalone")
    done = run("apply", spec_file(tmp_path, SPEC), "--yes")
    assert (done.code, "foreign" in done.out) == (0, False), done
    assert answers(switch) == PROBES


def test_a_failed_apply_restores_the_flows_of_the_role() -> None:
    flows = {flow.key: flow for flow in standby_flows(None)}
    assert len(lines_to_restore(Tables(standby=flows), Tables())) == len(flows) == 2
    assert lines_to_restore(Tables(standby=flows), Tables(standby=flows)) == []


def test_an_apply_on_a_switch_that_lost_its_tables_keeps_it_on_standby(switch: Switch, tmp_path: Path) -> None:
    run = on(switch)
    assert run("role", "standby").code == 0
    switch.kill_switch()
    switch.start_switch()
    more = SPEC.replace("weight: 2", "weight: 3").replace("192.0.2.9/24", "192.0.2.8/24")
    assert run("apply", spec_file(tmp_path, more), "--yes").code == 0
    assert answers(switch) == PROBES - {"192.0.2.9"}, "probes come from elsewhere now"
    assert answered(switch, arp("192.0.2.8"))


@pytest.mark.parametrize("name", ["standby", "active"])
def test_a_role_that_changes_while_flows_are_brought_counts(switch: Switch, name: str) -> None:
    """As when keepalived changes it while the agent looks at the switch."""
    other = {"standby": "active", "active": "standby"}[name]
    assert on(switch)("role", name).code == 0
    role = recorded_role(switch)
    assert on(switch)("role", other).code == 0
    client = TargetSwitch(switch.database).client(BRIDGE)
    bundle = client.bundle

    def slow(lines: Sequence[str]) -> None:
        if changes:
            record_role(switch, changes.pop())
        bundle(lines)

    changes = [recorded_role(switch)]
    record_role(switch, role)
    client.bundle = slow  # type: ignore[method-assign]
    with Session(switch.database) as session:
        spec = spec_of(session.state(session.record_of(BRIDGE), 1))
        assert bring_role(session, client, BRIDGE, spec)
    assert not changes
    assert answers(switch) == (PROBES if other == "standby" else ALL)


def test_a_role_is_recorded_before_its_flows(switch: Switch) -> None:
    """A look of the agent in between brings the flows of the new one."""
    seen: list[str] = []
    for name in ("standby", "active"):
        with pytest.MonkeyPatch().context() as patch:
            patch.setattr(OpenFlow, "bundle", lambda *_: seen.append(recorded_role(switch)["name"]))
            on(switch)("role", name)
        assert seen.pop(0) == name
        seen.clear()
        on(switch)("role", name)


@pytest.mark.parametrize("name", ["standby", "active"])
def test_a_record_that_cannot_be_read_is_no_reason_not_to_change_roles(switch: Switch, name: str) -> None:
    run = on(switch)
    assert run("role", "active" if name == "standby" else "standby").code == 0
    row = state_rows(switch)["1"]
    switch.vsctl("set", "Flow_Table", row, "external_ids:spec=damaged")
    done = run("role", name)
    assert (done.code, "cannot be read" in done.err) == (0, name == "active"), done
    assert answers(switch) == (ALL if name == "active" else set()), "without a spec not even for probes"


def test_a_second_switch_is_on_standby_from_its_first_apply_on(switch: Switch, tmp_path: Path) -> None:
    run, file = on(switch), spec_file(tmp_path, SPEC)
    done = run("apply", file, "--yes", "--standby")
    assert (done.code, answers(switch)) == (0, PROBES), "also where it has been alone so far"
    assert "already" not in run("role", "active").out
    assert "nothing to change" in run("apply", file, "--yes", "--standby").out
    assert answers(switch) == ALL, "it has a role"
    fresh(switch)
    with pytest.MonkeyPatch().context() as patch:
        bundles: list[str] = []
        real = OpenFlow.bundle
        patch.setattr(OpenFlow, "bundle", lambda self, lines: (bundles.append("\n".join(lines)), real(self, lines)))
        done = run("apply", file, "--yes", "--standby")
    assert (done.code, "note: on standby" in done.err) == (0, True), done
    assert "cookie=0xd454" in bundles[0], "not after its tables"
    assert answers(switch) == PROBES
    assert run("verify", file).code == 0


def test_a_missing_port_does_not_stop_announcements_by_others(switch: Switch) -> None:
    run = on(switch)
    assert run("role", "standby").code == 0
    switch.vsctl("del-port", BRIDGE, "p1")
    before = sent(switch)
    done = run("role", "active")
    assert (
        done.code,
        "warning: neighbours are not told of VIPs and gateways: the switch has no port p1" in done.err,
    ) == (
        0,
        True,
    ), done
    assert sent(switch) == before + 3, "by the other one they are"


def test_a_damaged_role_is_named_and_replaced(plain: Switch, tmp_path: Path) -> None:
    run = on(plain)
    plain.vsctl("set", "Bridge", BRIDGE, "external_ids:dnsteer-role=junk")
    for verb in (["role"], ["status", "--no-rates"]):
        done = run(*verb)
        assert "external_ids:dnsteer-role of bridge br-dns in OVSDB is damaged" in done.out + done.err
    with agent(plain, tmp_path, READY) as running:
        running.waits_for("dnsteer-role of bridge br-dns in OVSDB is damaged")
        assert run("role", "active").code == 0
        running.waits_for("the role can be read again")
    assert answers(plain) == {*ASKED}


def test_role_refuses_wrong_usage(switch: Switch) -> None:
    done = on(switch)("role", "master")
    assert (done.code, "master" in done.err) == (64, True)
