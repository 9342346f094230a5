# SPDX-License-Identifier: Apache-2.0
"""`explain --live`: the way of a query by the running switch's record, drains and downs included."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.plan.pool_slots import slots_of
from dnsteer.spec.model.spec import State
from tests.packet.command import FARM, Ran, fresh, nothing_changes, on, run, spec_file
from tests.packet.status_cases import out
from tests.packet.switches import BRIDGE, Switch, spec_of

LOADED = spec_of(FARM)
OWN = slots_of(
    LOADED.spec,
    LOADED.spec.pools["farm"].model_copy(
        update={"backends": [b.model_copy(update={"state": State.UP}) for b in LOADED.spec.pools["farm"].backends]}
    ),
    "ipv4",
)
MACS = {b.mac: b.name for b in LOADED.spec.pools["farm"].backends}


def port_of(slot: int) -> int:
    """A source port that has the slot."""
    return 40000 - 40000 % 64 + 2 * slot


def query(slot: int) -> list[str]:
    return ["--client", f"198.51.100.7:{port_of(slot)}", "--vip", "192.0.2.53:53/udp"]


def really(switch: Switch, slot: int) -> str:
    """The backend that the running switch itself gives the slot to, by its own trace."""
    flow = (
        f"in_port=p0,udp,dl_src=02:00:00:00:00:fe,dl_dst=02:00:00:00:00:53,nw_src=198.51.100.7,nw_dst=192.0.2.53,"
        f"nw_ttl=64,udp_src={port_of(slot)},udp_dst=53"
    )
    traced = switch.appctl("ofproto/trace", BRIDGE, flow)
    return MACS[re.findall(r"set_field:([0-9a-f:]{17})->eth_dst", traced)[-1]]


def line(ran: Ran, name: str) -> str:
    """The line of that name, without the name."""
    return next((text[9:] for text in ran.out.splitlines() if text.startswith(f"{name} ")), "")


def test_live_explain_names_the_backend_in_service_and_the_slots_own(applied: Switch, tmp_path: Path) -> None:
    dnsteer, file = on(applied), spec_file(tmp_path)
    assert dnsteer("drain", "farm/ns1", "--for", "2h", "--note", "kernel update", "--yes").code == 0
    slots = {name: next(n for n, owner in enumerate(OWN) if owner == name) for name in ("ns1", "ns2", "ns4")}
    with nothing_changes(applied):
        moved = dnsteer("explain", "--live", *query(slots["ns1"]))
        here = really(applied, slots["ns1"])
        assert (moved.code, here in ("ns2", "ns3")) == (0, True)
        head = f"bridge br-dns of switch dpu-1, which runs {file} (state 1); out: farm/ns1 drained"
        assert line(moved, "view") == head
        assert line(moved, "backend").startswith(f"{here}  (query for dns ")
        assert f"slot {slots['ns1']} -> {here}" in moved.out
        drained = r"ns1, which is drained since [-0-9]+ [:0-9]+ UTC, until [-0-9]+ [:0-9]+ UTC, by \S+: kernel update"
        assert re.fullmatch(drained, line(moved, "base"))
        cookie = next(m for m in re.findall(r"cookie (0x[0-9a-f]+)", moved.out) if m.startswith("0xd45307"))
        ran = dnsteer("explain", "--live", "--cookie", cookie)
        assert f"slot {slots['ns1']} -> {here}, " in ran.out
        assert f"slot {slots['ns1']} -> ns1, " in run("explain", file, "--cookie", cookie).out
        told = dnsteer("explain", "--live", *query(slots["ns1"]), "--json").json
        assert (told["own"], told["backend"], told["view"]["from"], told["view"]["state"]) == ("ns1", here, "switch", 1)
        assert [(a["backend"], a["kind"], a["note"]) for a in told["own_out"]] == [("ns1", "drain", "kernel update")]

        stays = dnsteer("explain", "--live", *query(slots["ns2"]))
        assert line(stays, "backend").startswith("ns2  (") and really(applied, slots["ns2"]) == "ns2"
        assert line(stays, "base") == ""

        spec = dnsteer("explain", "--live", *query(slots["ns4"]))
        assert line(spec, "backend").startswith(f"{really(applied, slots['ns4'])}  (")
        assert line(spec, "base") == "ns4, which is down by the spec (state: down)"

        alone = run("explain", file, *query(slots["ns1"]))  # needs no switch, and knows of none
        assert line(alone, "backend").startswith("ns1  (")
        assert line(alone, "view").startswith(f"the spec {file};")


def test_live_explain_follows_a_gradual_drain_slot_by_slot(applied: Switch) -> None:
    dnsteer = on(applied)
    out(TargetSwitch(applied.database), "farm/ns2", over=100_000.0, ago=50_000)
    assert dnsteer("reconcile").code == 0
    mine = [n for n, owner in enumerate(OWN) if owner == "ns2"]
    now = {slot: really(applied, slot) for slot in mine}
    stays, left = (next(s for s in mine if (now[s] == "ns2") is here) for here in (True, False))
    for slot in (stays, left):
        told = dnsteer("explain", "--live", *query(slot), "--json").json
        assert (told["own"], told["backend"]) == ("ns2", now[slot])
    assert re.search(r"; out: farm/ns2 drained 5\d(\.\d)? %\n", dnsteer("explain", "--live", *query(left)).out)


def test_tables_that_differ_from_the_record_are_warned_of(applied: Switch) -> None:
    dnsteer = on(applied)
    applied.ofctl("del-flows")
    ran = dnsteer("explain", "--live", *query(3))
    assert ran.code == 0
    assert ran.err.startswith(
        "warning: the tables differ from the record, so packets may take other paths; dnsteer restore"
    )
    cookie = re.findall(r"cookie (0x[0-9a-f]+)", ran.out)[-1]
    assert dnsteer("explain", "--live", "--cookie", cookie).code == 0


@pytest.mark.parametrize("given", [[], ["--live", "SPEC"]])
def test_a_spec_together_with_live_is_refused(given: list[str], tmp_path: Path) -> None:
    file = spec_file(tmp_path)
    ran = run("explain", *(str(file) if word == "SPEC" else word for word in given), *query(1))
    assert (ran.code, ran.err) == (64, "dnsteer: give either SPEC, or --live for what the running switch does\n")


def test_live_explain_without_record_or_switch_fails(applied: Switch, tmp_path: Path) -> None:
    fresh(applied)
    none = on(applied)("explain", "--live", *query(1))
    assert none.code == 1 and "no bridge" in none.err
    away = run("explain", "--live", *query(1), "--db", f"unix:{tmp_path}/none.sock")
    assert (away.code, "there is no such socket" in away.err) == (69, True)
