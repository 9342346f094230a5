# SPDX-License-Identifier: Apache-2.0
"""Going back: to the right state, with who was out, and only after asking about what clients lose."""

from __future__ import annotations

import os
import signal
from multiprocessing import get_context
from pathlib import Path

import pytest

from dnsteer.cli.output import Exit
from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.run import deploy
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.slots.maintenance import Maintenance, Overlay
from dnsteer.switch.session import Session
from tests.packet.command import FARM, fresh, nothing_changes, on, spec_file, state_rows
from tests.packet.maintenance_specs import make_overdue, overlay
from tests.packet.switches import BRIDGE, Switch, spec_of

WITHOUT_NS1 = FARM.replace(
    "      - {name: ns1, ipv4: 192.0.2.11, ipv6: '2001:db8::11', mac: '02:00:00:00:01:01'}\n", ""
)
HEAVIER = FARM.replace("weight: 2", "weight: 3")
OTHER_ADDRESS = FARM.replace("192.0.2.54", "192.0.2.56")


EXPECTED = ["Broken pipe"]


# Who was out


def test_rollback_restores_maintenance_of_a_removed_backend(applied: Switch, tmp_path: Path) -> None:
    assert on(applied)("down", "farm/ns1", "--note", "disk dead").code == 0
    before, out = applied.tables(), overlay(applied)
    assert on(applied)("apply", spec_file(tmp_path, WITHOUT_NS1), "--yes").code == 0
    assert overlay(applied) == []
    assert "(ended: down of farm/ns1)" in on(applied)("history").out
    assert on(applied)("history", "--json").json["states"][0]["ended"][0]["note"] == "disk dead"
    with nothing_changes(applied):
        dry = on(applied)("rollback", "--dry-run")
    done = on(applied)("rollback", "--yes")
    assert done.code == 0
    for said in (dry.out, done.out):
        assert "down of farm/ns1 applies again; it ended when the backend was removed (disk dead)" in said
    assert overlay(applied) == out
    assert applied.tables() == before
    assert on(applied)("verify", spec_file(tmp_path)).code == 0
    # And once more, over a state that has nothing to do with it.
    assert on(applied)("apply", spec_file(tmp_path, WITHOUT_NS1), "--yes").code == 0
    assert on(applied)("apply", spec_file(tmp_path, WITHOUT_NS1.replace("weight: 2", "weight: 3")), "--yes").code == 0
    assert on(applied)("rollback", "1", "--yes").code == 0
    assert overlay(applied) == out


def test_rollback_keeps_backends_returned_in_between(applied: Switch, tmp_path: Path) -> None:
    on(applied)("down", "farm/ns1")
    for text in (WITHOUT_NS1, HEAVIER, WITHOUT_NS1):  # an apply takes it in again
        assert on(applied)("apply", spec_file(tmp_path, text), "--yes").code == 0
    assert on(applied)("rollback", "1", "--yes").code == 0
    assert overlay(applied) == []


def test_rollback_restores_no_expired_maintenance(applied: Switch, tmp_path: Path) -> None:
    on(applied)("down", "farm/ns1", "--for", "1h")
    make_overdue(applied)
    assert on(applied)("apply", spec_file(tmp_path, WITHOUT_NS1), "--yes").code == 0
    assert on(applied)("rollback", "--yes").code == 0
    assert overlay(applied) == []


def test_maintenance_comes_back_in_its_place() -> None:
    one, two, three = (
        Maintenance("p", n, "down", f"2030-01-0{i}T00:00:00+00:00", "op") for i, n in enumerate("abc", 1)
    )
    assert Overlay((one, three)).put_by_start([two]) == Overlay((one, two, three))
    assert Overlay((three, one)).put_by_start([two]) == Overlay((two, three, one))  # the others keep their order


# Which state


def killed_after_the_bundle(switch: Switch, text: str) -> None:
    """An apply that dies when the tables are the new ones, and the record is not."""

    def die() -> None:
        Session.commit = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
        deploy(FileSource(spec_of(text)), TargetSwitch(switch.database))

    child = get_context("fork").Process(target=die)
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL


def test_rollback_after_an_interrupted_apply_is_one_state_back(applied: Switch, tmp_path: Path) -> None:
    assert on(applied)("apply", spec_file(tmp_path, HEAVIER)).code == 0
    second = applied.tables()
    killed_after_the_bundle(applied, OTHER_ADDRESS)
    with nothing_changes(applied):
        dry = on(applied)("rollback", "--dry-run")
    assert "weight 2 -> 3" in dry.out
    done = on(applied)("rollback", "--yes")
    assert done.code == 0, done.err
    assert applied.tables() == second
    assert on(applied)("history", "--json").json["states"][0]["note"] == "rollback to state 2"


def test_a_damaged_state_is_named_and_not_passed_over(applied: Switch, tmp_path: Path) -> None:
    for text in (HEAVIER, OTHER_ADDRESS):
        assert on(applied)("apply", spec_file(tmp_path, text), "--yes").code == 0
    applied.vsctl("set", "Flow_Table", state_rows(applied)["2"], "external_ids:sum=0")
    with nothing_changes(applied):
        done = on(applied)("rollback", "--yes")
    assert done.code == Exit.ERROR
    assert "state 2 in the record" in done.err
    assert "dnsteer rollback N" in done.err
    assert on(applied)("rollback", "1", "--yes").code == 0


def test_a_state_that_forwards_is_never_forgotten(applied: Switch) -> None:
    """The apply died after its bundle, and what the next verb must do first fails as well."""
    killed_after_the_bundle(applied, OTHER_ADDRESS)
    tables = applied.tables()
    applied.vsctl("--no-wait", "set", "Interface", "p0", "ofport=-1")
    assert on(applied)("down", "farm/ns1", "--timeout", "0.5").code != 0
    applied.vsctl("--no-wait", "set", "Interface", "p0", "ofport=1")
    assert on(applied)("history", "--json").json["current"] == 2
    assert on(applied)("reconcile").code == 0
    assert applied.tables() == tables


def test_states_stay_within_reach_when_the_number_is_lost(applied: Switch, tmp_path: Path) -> None:
    assert on(applied)("apply", spec_file(tmp_path, HEAVIER)).code == 0
    applied.vsctl("remove", "Bridge", BRIDGE, "external_ids", "dnsteer-state")
    refused = on(applied)("apply", spec_file(tmp_path, OTHER_ADDRESS))
    assert refused.code == Exit.ERROR
    assert "the applied state cannot be read (the record has no state)" in refused.err
    assert "192.0.2.54, which has flows, removed: its clients will get no answer" in refused.err
    assert on(applied)("apply", spec_file(tmp_path, OTHER_ADDRESS), "--yes").code == 0
    assert [s["state"] for s in on(applied)("history", "--json").json["states"]] == [3, 2, 1]
    assert on(applied)("rollback", "1", "--yes").code == 0


# What clients lose


NO_ANSWER = "its clients will get no answer"
THIRD = "  third: {addresses: [192.0.2.57], services: [dns], pool: spare}\n"
OTHER_VIP = "  other: {addresses: [192.0.2.54], services: [dns, dot], pool: spare}\n"
TAKES: dict[str, tuple[str, str, str]] = {
    "a VIP": (OTHER_VIP, THIRD, f"VIP other (192.0.2.54) removed: {NO_ANSWER}"),
    "an address": ("[192.0.2.53, '2001:db8::53']", "[192.0.2.53]", f"VIP dns: 2001:db8::53 removed: {NO_ANSWER}"),
    "a service": ("[dns, dot]", "[dns]", f"VIP other: tcp/853 of 192.0.2.54 removed: {NO_ANSWER}"),
}


@pytest.mark.parametrize("what", TAKES)
def test_losing_addresses_or_services_needs_confirmation(applied: Switch, tmp_path: Path, what: str) -> None:
    old, new, said = TAKES[what]
    file = spec_file(tmp_path, old=old, new=new)
    with nothing_changes(applied):
        plan = on(applied)("plan", file, "--json")
        done = on(applied)("apply", file)
    assert plan.json["asks"] == [said]
    assert (done.code, said in done.err) == (Exit.ERROR, True)
    assert on(applied)("apply", file, "--yes").code == 0
    assert on(applied)("plan", spec_file(tmp_path), "--json").json["asks"] == (
        ["VIP third (192.0.2.57) removed: its clients will get no answer"] if what == "a VIP" else []
    )


def test_renaming_a_vip_needs_no_confirmation(applied: Switch, tmp_path: Path) -> None:
    file = spec_file(tmp_path, old="  other: {", new="  renamed: {")
    assert on(applied)("plan", file, "--json").json["asks"] == []


def test_rollback_over_a_damaged_state_needs_confirmation(applied: Switch, tmp_path: Path) -> None:
    applied.vsctl("set", "Flow_Table", state_rows(applied)["1"], "external_ids:sum=0")
    file = spec_file(tmp_path, OTHER_ADDRESS)
    plan = on(applied)("plan", file)
    assert "warning: the applied state cannot be read (state 1 is damaged)" in plan.err
    done = on(applied)("apply", file)
    assert done.code == Exit.ERROR
    assert "192.0.2.54, which has flows, removed" in done.err
    assert "No rollback to it is possible" in on(applied)("history").out


def test_the_rollback_result_equals_its_plan(applied: Switch, tmp_path: Path) -> None:
    file = spec_file(tmp_path, old="'02:00:00:00:01:03'", new="'02:00:00:00:01:03', weight: 3")
    said, _, place = on(applied)("plan", file).out.splitlines()[1].strip().rpartition(" (")
    line = int(place.removeprefix(f"{file}:").rstrip(")"))
    assert "weight: 3" in file.read_text().splitlines()[line - 1]
    done = on(applied)("apply", file)
    assert done.out.startswith(f"br-dns: applied as state 2; {said}; ")
    fresh(applied)
    assert "the switch gets the name dpu-1" in on(applied)("plan", file).out
