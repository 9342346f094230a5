"""A switch on standby answers no ARP and no neighbour solicitations; the agent, a restore and a boot keep it so."""

from __future__ import annotations

import json
import socket
import urllib.request
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import ICMPv6ND_NS, ICMPv6NDOptSrcLLAddr, IPv6
from scapy.layers.l2 import ARP, Ether

from tests.packet.agents import agent, wait
from tests.packet.birds import bird, needs_bird
from tests.packet.capturing import send, sent
from tests.packet.command import FARM, SLOW, fresh, nothing_changes, on, spec_file
from tests.packet.switches import BRIDGE, Switch

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


def test_a_standby_switch_answers_for_nothing_but_where_probes_come_from(switch: Switch) -> None:
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


def test_applies_and_drains_leave_it_on_standby(switch: Switch, tmp_path: Path) -> None:
    run = on(switch)
    assert run("role", "standby").code == 0
    assert run("drain", "farm/ns1", "--yes").code == 0
    assert run("apply", spec_file(tmp_path, SPEC.replace("weight: 2", "weight: 3")), "--yes").code == 0
    assert run("rollback", "--yes").code == 0
    assert answers(switch) == PROBES


def test_restore_keeps_it_on_standby(switch: Switch) -> None:
    run = on(switch)
    assert run("role", "standby").code == 0
    switch.kill_switch()
    switch.start_switch()
    assert run("restore").code == 0
    assert answers(switch) == PROBES


def test_after_a_boot_it_is_on_standby_until_it_is_told(switch: Switch, tmp_path: Path) -> None:
    run = on(switch)
    assert run("role", "active").code == 0
    role = json.loads(json.loads(switch.column("Bridge", BRIDGE, "external_ids:dnsteer-role")))
    text = json.dumps(json.dumps({**role, "boot": "another"}))
    switch.vsctl("set", "Bridge", BRIDGE, f"external_ids:dnsteer-role={text}")
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
            assert 'dnsteer_switch_standby{bridge="br-dns"} 1.0' in page.read().decode()
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
        assert answers(plain) == {*ASKED}
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


def test_wrong_usage_and_a_bridge_without_a_state(switch: Switch) -> None:
    done = on(switch)("role", "master")
    assert (done.code, "master" in done.err) == (64, True)
