# SPDX-License-Identifier: Apache-2.0
"""`reconcile` and `restore` where not all is well: a damaged bridge, wrong tables, a switch that breaks off."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dnsteer import __version__
from dnsteer.cli.output import Exit
from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.overlay_change import change_overlay
from dnsteer.deploy.overlay_edits import advance, take_out
from dnsteer.deploy.run import deploy
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.status.verify import find_drift
from dnsteer.switch.session import Session
from tests.packet.command import FARM, nothing_changes, on, spec_file, state_rows
from tests.packet.maintenance_specs import make_overdue, overlay
from tests.packet.switches import BRIDGE, SLOT_TABLE, VIP_TABLE, Switch, spec_of

SECOND = FARM.replace("br-dns", "br-two").replace("    p0:\n    p1:\n", "    q0:\n")


EXPECTED = ["Broken pipe", "UNKNOWN_GROUP"]


@pytest.fixture
def beside(applied: Switch) -> Iterator[Switch]:
    """With a second bridge, whose record is damaged; it comes first."""
    deploy(FileSource(spec_of(SECOND.replace("br-two", "br-a"))), TargetSwitch(applied.database))
    applied.vsctl("set", "Bridge", "br-a", "external_ids:dnsteer-overlay=junk")
    yield applied
    applied.vsctl("del-br", "br-a")


def test_a_damaged_bridge_stops_no_other(beside: Switch) -> None:
    assert on(beside)("down", "farm/ns1", "--for", "1h", "--bridge", BRIDGE).code == 0
    make_overdue(beside)
    done = on(beside)("reconcile")
    assert done.code == Exit.ERROR
    assert "external_ids:dnsteer-overlay of bridge br-a" in done.err
    assert f"{BRIDGE}: changed: 8 of 32 slots" in done.out
    assert overlay(beside) == []
    value = on(beside)("reconcile", "--json")
    assert (value.code, value.json["ok"], value.json["changed"]) == (Exit.ERROR, False, False)
    assert "br-a" in value.json["error"]


def test_arming_skips_damaged_bridges(beside: Switch) -> None:
    beside.vsctl("set", "Bridge", "br-a", "external_ids:dnsteer-state=junk")
    dry = on(beside)("restore", "--arm", "--dry-run")
    assert dry.code == 0
    assert "br-a: skipped: external_ids:dnsteer-state" in dry.out
    assert f"{BRIDGE}: ovs-vswitchd will wait for restore" in dry.out


def test_tables_of_another_spec_are_restored(applied: Switch) -> None:
    right = applied.tables()
    mark = next(f for f in right[0] if re.fullmatch(r"cookie=0xd4530a\w+, table=\w+, priority=0 actions=drop", f))
    place = mark.split(", ", 1)[1].replace(" actions", ",actions").replace(" ", "")
    applied.ofctl("add-flow", f"cookie=0xd4530a0000000001,{place}")
    with nothing_changes(applied):
        assert on(applied)("reconcile", "--dry-run", "--json").json["restored"] == [BRIDGE]
    assert on(applied)("reconcile", "--json").json["restored"] == [BRIDGE]
    assert applied.tables() == right
    assert on(applied)("reconcile", "--json").json["changed"] is False


def test_a_dry_restore_compares_all_tables(applied: Switch) -> None:
    value = on(applied)("restore", "--dry-run", "--json")
    assert (value.json["dry_run"], value.json["changed"]) == (True, False)
    applied.ofctl("del-flows", VIP_TABLE)
    with nothing_changes(applied):
        done = on(applied)("restore", "--dry-run")
    assert "state 1 would be restored (" in done.out
    assert on(applied)("restore", "--json").json["dry_run"] is False


def test_a_switch_that_breaks_off_makes_no_traceback(
    applied: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ovs-ofctl"
    program.write_text(
        '#!/bin/sh\ncase " $* " in *" dump-flows "*) echo "ovs-ofctl: OpenFlow packet receive failed (Bad)" >&2; exit 1;;\n'
        'esac\nPATH=${PATH#*:} exec ovs-ofctl "$@"\n'
    )
    program.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        done = on(applied)("restore", "--json")
    assert done.code in (Exit.ERROR, Exit.UNAVAILABLE)
    assert "Bad" in done.json["error"]


# What is asked, and by whom


def test_a_gradual_drain_by_others_needs_no_confirmation(applied: Switch) -> None:
    target = TargetSwitch(applied.database)
    change_overlay(target, None, take_out("farm/ns2", "drain", over=3600))
    change_overlay(target, None, advance)
    done = on(applied)("down", "farm/ns1")
    assert done.code == 0, done.err
    # But where nobody would be left when it is done, it does.
    change_overlay(target, None, take_out("spare/sp1", "drain", over=3600))
    last = on(applied)("down", "spare/sp2")
    assert (last.code, "no backend would be left" in last.err) == (Exit.ERROR, True)


def test_a_switch_waiting_for_flows_is_named(applied: Switch, tmp_path: Path) -> None:
    applied.vsctl("set", "Open_vSwitch", ".", "other_config:flow-restore-wait=true")
    try:
        file = spec_file(tmp_path, old="weight: 2", new="weight: 3")
        for verb in (("plan", file), ("down", "farm/ns1")):
            assert "warning: flow-restore-wait is set: the switch does not forward" in on(applied)(*verb).err
    finally:
        applied.vsctl("remove", "Open_vSwitch", ".", "other_config", "flow-restore-wait")


# Cut off, and of another version


def test_an_apply_replaces_a_change_that_cannot_be_completed(applied: Switch, tmp_path: Path) -> None:
    """Cut off before the bundle, with the state that it stays with damaged: quick verbs refuse, an apply mends all."""
    with Session(applied.database) as session:
        session.lock(BRIDGE)
        record = session.record_of(BRIDGE)
        state = session.state(record, 1)
        session.begin(record, replace(state, number=0, digest="0" * 64), record.overlay)
    applied.vsctl("set", "Flow_Table", state_rows(applied)["1"], "external_ids:sum=0")
    refused = on(applied)("down", "farm/ns1")
    assert (refused.code, "damaged" in refused.err) == (Exit.ERROR, True)
    done = on(applied)("apply", spec_file(tmp_path), "--yes")
    assert done.code == 0, done.err
    assert "cannot be completed, and is replaced" in done.err
    assert on(applied)("verify", tmp_path / "spec.yaml").code == 0
    assert on(applied)("down", "farm/ns1").code == 0


def test_tables_of_another_version_are_worked_on_where_they_are_the_same(
    applied: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    target = TargetSwitch(applied.database)
    with monkeypatch.context() as patch:
        patch.setattr("dnsteer.deploy.overlay_change.__version__", "99.0")
        assert not change_overlay(target, None, take_out("farm/ns1", "down"), progress=said.append).repaired
        applied.ofctl("del-flows", SLOT_TABLE)
        assert change_overlay(target, None, take_out("farm/ns3", "down"), progress=said.append).repaired
    assert f"dnsteer {__version__} made the tables, and this is 99.0: applying the whole recorded state" in said
    assert find_drift(spec_of(FARM), applied.database) == []


def test_a_drain_that_cannot_continue_names_who_continues_it(applied: Switch, monkeypatch: pytest.MonkeyPatch) -> None:
    with Session(applied.database) as holder:
        monkeypatch.setattr("dnsteer.cli.backends.progress", lambda _json: lambda _text: holder.lock(BRIDGE))
        done = on(applied)("drain", "farm/ns1", "--over", "30s", "--timeout", "0.3")
    assert done.code == Exit.ERROR
    assert "another dnsteer is changing" in done.err
    assert re.search(r"farm/ns1 is \d+ % drained, and `reconcile` goes on with it", done.err)
