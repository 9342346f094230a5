# SPDX-License-Identifier: Apache-2.0
"""Next hops and backends by address, on a real switch: every packet, and what the record keeps through every verb."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dnsteer.deploy.neighbor_change import change_neighbors
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.plan.build import build_plan
from dnsteer.proof import check
from dnsteer.proof.check import prove
from dnsteer.proof.check_report import CheckReport
from dnsteer.slots.maintenance import FoundNeighbor, Overlay
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.table_changes import compare_tables
from tests.packet.command import SLOW, fresh, on, spec_file
from tests.packet.switches import BRIDGE, EGRESS_TABLE, EXAMPLES, FORWARD_TABLE, Switch
from tests.unit.spec_text import changed, load

EXPECTED = [*SLOW, "connection dropped", "Broken pipe"]
TEXT = changed(("slots: 64", "slots: 4"), text=(EXAMPLES / "followed.yaml").read_text())
A, B, C = "02:00:00:00:00:0a", "02:00:00:00:00:0b", "02:00:00:00:00:0c"
ROUTER, ROUTER6, NS1 = "198.51.100.1", "fe80::1", "192.0.2.11"


def proven(loaded: Loaded, found: dict[str, str]) -> CheckReport:
    """The proof of a spec as it is on a switch that has found these MAC addresses."""
    neighbors = tuple(FoundNeighbor(address, mac, "2026-01-01T00:00:00+00:00") for address, mac in found.items())
    return check._prove(loaded, Overlay(neighbors=neighbors), None, lambda *_: None)


# Every packet


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace(
            "  uplinks:\n",
            "  vlans: any\n  uplinks:\n    p1: {next_hop: {ipv4: 198.51.100.1, ipv6: 2001:db8:53::fe}}\n",
        ),
        TEXT.replace("probe: {", "probe: {watch: true, uplink: p1, ")
        .replace("  uplinks:\n", "  ports: {vf0: }\n  uplinks:\n    p1:\n")
        .replace('"2001:db8:53::12", mac: auto', '"2001:db8:53::12", mac: auto, port: vf0'),
        TEXT.replace("ipv4: 192.0.2.11, ", "").replace('ipv6: "fe80::1"', 'ipv6: "2001:db8:53::fe", mac: ' + A),
        TEXT.replace(", forwarding: nat", "").replace('{next_hop: {ipv4: 198.51.100.1, ipv6: "fe80::1"}}', ""),
    ],
    ids=[
        "any VLAN, a router at two uplinks",
        "watched, two uplinks and a port",
        "a watched router, a backend of IPv6",
        "dsr alone",
    ],
)
def test_every_packet_is_as_the_spec_says(text: str) -> None:
    report = prove(load(text))
    assert report.ok, report.failures[:1]
    assert report.packets["probe"] > 20


@pytest.mark.parametrize("found", [{}, {ROUTER: A}, {ROUTER: A, ROUTER6: B, NS1: C}], ids=["nothing", "one", "three"])
def test_what_is_not_found_yet_gets_nothing(found: dict[str, str]) -> None:
    report = proven(load(TEXT), found)
    assert report.ok, report.failures[:1]


def test_flows_with_another_mac_address_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made = build_plan
    old = Overlay(neighbors=(FoundNeighbor(ROUTER, B, "2026-01-01T00:00:00+00:00"),))
    monkeypatch.setattr(check, "build_plan", lambda loaded, _: made(loaded, old))
    report = proven(load(TEXT), {ROUTER: A})
    assert not report.ok and "left with wrong bytes" in report.failures[0].problem


# Through every verb


def macs_in(switch: Switch) -> set[str]:
    """The MAC addresses of neighbours in flows."""
    return {mac for mac in (A, B, C) for line in switch.flows() if f"set_field:{mac}->eth_dst" in line}


def outputs(switch: Switch) -> set[str]:
    """The flows that rewrite queries and answers."""
    return {line for line in switch.tables()[0] if f"{EGRESS_TABLE}," in line or f"{FORWARD_TABLE}," in line}


@pytest.fixture
def followed(shared: Switch, tmp_path: Path) -> Switch:
    fresh(shared)
    done = on(shared)("apply", spec_file(tmp_path, TEXT), "--yes")
    assert done.code == 1
    assert "the MAC addresses of next hop 198.51.100.1 of uplink p0; " in done.err, done.err
    assert "cannot be found out: " in done.err and "then apply again, or start dnsteer agent" in done.err
    assert "no MAC address is known yet, and what is for them is dropped until they are asked" in done.err
    return shared


def test_the_record_keeps_what_was_found(followed: Switch, tmp_path: Path) -> None:
    switch, dnsteer = TargetSwitch(followed.database), on(followed)
    assert macs_in(followed) == set()
    assert [found.mac for found in change_neighbors(switch, BRIDGE, {ROUTER: A, NS1: C, "192.0.2.99": B})] == [A, C]
    assert macs_in(followed) == {A, C}
    assert change_neighbors(switch, BRIDGE, {ROUTER: A}) == []
    assert [(n.mac, n.before) for n in change_neighbors(switch, BRIDGE, {ROUTER: B})] == [(B, A)]
    tables = followed.tables()
    assert macs_in(followed) == {B, C}
    spec = spec_file(tmp_path, TEXT)
    assert dnsteer("verify").code == dnsteer("verify", spec).code == 0
    assert f"in force: {ROUTER} is at {B}" in dnsteer("verify").out
    page = tmp_path / "report.html"
    assert dnsteer("report", "-o", page).code in (0, 3)
    assert f"{ROUTER} is at {B} since" in page.read_text()
    shown = dnsteer("status", "--no-rates")
    assert f"{ROUTER} is at {B} since" in shown.out and f"before at {A}" in shown.out
    found = dnsteer("status", "--no-rates", "--json").json["neighbors"]
    assert [(n["address"], n["mac"], n["before"]) for n in found] == [(ROUTER, B, A), (NS1, C, "")]
    # Drains leave them alone, and so do an apply, a plan and a restore.
    assert dnsteer("drain", "authoritative/ns3").code == dnsteer("undrain", "authoritative/ns3").code == 0
    plan = dnsteer("plan", spec)
    assert plan.code == 0 and f"next hop {ROUTER} of uplink p0 is at {B}" in plan.err
    for table in (EGRESS_TABLE, FORWARD_TABLE):
        followed.ofctl("del-flows", table)
    assert dnsteer("restore").code == 0
    assert followed.tables() == tables


def test_a_rollback_keeps_the_current_mac_address(followed: Switch, tmp_path: Path) -> None:
    switch, dnsteer = TargetSwitch(followed.database), on(followed)
    change_neighbors(switch, BRIDGE, dict.fromkeys((ROUTER, ROUTER6, NS1, "192.0.2.12"), A))
    heavier = TEXT.replace('"2001:db8:53::11", mac: auto', '"2001:db8:53::11", mac: auto, weight: 2')
    assert dnsteer("apply", spec_file(tmp_path, heavier), "--yes").code == 0
    change_neighbors(switch, BRIDGE, {ROUTER: B, ROUTER6: B})
    assert dnsteer("rollback", "--yes").code == 0
    assert macs_in(followed) == {A, B}, "the router that was replaced stays replaced"
    assert dnsteer("verify", spec_file(tmp_path, TEXT)).code == 0


def test_a_fixed_mac_address_holds_until_the_neighbour_answers(shared: Switch, tmp_path: Path) -> None:
    fresh(shared)
    fixed = TEXT.replace('{ipv4: 198.51.100.1, ipv6: "fe80::1"}', f"'{A}'").replace("mac: auto", f"mac: '{B}'")
    assert on(shared)("apply", spec_file(tmp_path, fixed), "--yes").code == 0
    before = outputs(shared)
    done = on(shared)("apply", spec_file(tmp_path, TEXT), "--yes")
    assert done.code == 0, done.err
    assert f"next hop {ROUTER} of uplink p0 is at {A}" in done.err
    assert macs_in(shared) == {A, B}
    assert outputs(shared) == before


@pytest.mark.parametrize("made", [False, True], ids=["undone", "done"])
def test_a_change_that_was_cut_off_is_settled(followed: Switch, made: bool) -> None:
    """Killed between journal and record: by the tables the next verb knows which of both MAC addresses it is."""
    switch = TargetSwitch(followed.database)
    change_neighbors(switch, BRIDGE, {ROUTER: A})
    with switch.session() as session:
        session.lock(BRIDGE)
        record = session.record_of(BRIDGE)
        state = session.state(record, record.number)
        found = tuple(replace(n, mac=B) for n in record.overlay.neighbors or ())
        after = replace(record.overlay, neighbors=found)
        if made:
            change_neighbors_in_tables(switch, after)
        session.begin(record, state, after)
    assert on(followed)("reconcile").code == 0
    with switch.session() as session:
        assert session.record_of(BRIDGE).overlay.macs == {ROUTER: B if made else A}
    assert macs_in(followed) == {B if made else A}
    assert on(followed)("verify").code == 0


def change_neighbors_in_tables(switch: TargetSwitch, after: Overlay) -> None:
    """Bring an overlay to the tables alone."""
    with switch.session() as session:
        record = session.record_of(BRIDGE)
        wanted = switch.wanted(session.state(record, record.number), after)
    client = switch.client(BRIDGE)
    client.bundle(compare_tables(wanted.lines, wanted.groups, client.dump(wanted.lines), wanted.meters).bundle())


# On standby

ARP = "arp,dl_src=02:00:00:00:00:0a,dl_dst=ff:ff:ff:ff:ff:ff,arp_sha=02:00:00:00:00:0a"
ND = "icmp6,dl_src=02:00:00:00:00:0a,ipv6_src=fe80::9,ipv6_dst=ff02::1,nw_ttl=255"
PASS = {
    "a request": f"in_port=probe0,{ARP},arp_op=1,arp_spa=198.51.100.9,arp_tpa={ROUTER}",
    "a reply": f"in_port=p0,{ARP},arp_op=2,arp_spa={ROUTER},arp_tpa=198.51.100.9",
    "gratuitous ARP": f"in_port=p0,{ARP},arp_op=1,arp_spa={ROUTER},arp_tpa={ROUTER}",
    "a solicitation": f"in_port=probe0,{ND},icmpv6_type=135,icmpv6_code=0,nd_target={ROUTER6}",
    "an advertisement": f"in_port=p0,{ND},icmpv6_type=136,icmpv6_code=0,nd_target={ROUTER6}",
}
DROPPED = {
    "a request for another": f"in_port=probe0,{ARP},arp_op=1,arp_spa=198.51.100.9,arp_tpa=198.51.100.2",
    "a request of the router for a VIP": f"in_port=p0,{ARP},arp_op=1,arp_spa={ROUTER},arp_tpa=203.0.113.53",
    "a reply of another": f"in_port=p0,{ARP},arp_op=2,arp_spa=198.51.100.2,arp_tpa=198.51.100.9",
    "an advertisement of another": f"in_port=p0,{ND},icmpv6_type=136,icmpv6_code=0,nd_target=fe80::2",
}


def test_a_switch_on_standby_finds_out_mac_addresses_too(followed: Switch) -> None:
    assert on(followed)("role", "standby").code == 0
    for name, packet in {**PASS, **DROPPED}.items():
        traced = followed.appctl("ofproto/trace", BRIDGE, packet)
        assert traced.rstrip().splitlines()[-1].startswith("Datapath actions: drop") == (name in DROPPED), traced
    assert on(followed)("verify").code == 0
