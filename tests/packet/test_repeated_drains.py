# SPDX-License-Identifier: Apache-2.0
"""Drains and downs that are repeated, asked about, ended on their way, or on tables that are not what the record says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dnsteer.cli.output import Exit
from dnsteer.deploy.overlay_change import change_overlay
from dnsteer.deploy.overlay_edits import advance, take_out
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.deploy.times import now, stamp
from dnsteer.switch.state import FAILURES_KEY, KNOWN_KEY
from tests.packet.command import Ran, nothing_changes, on, spec_file
from tests.packet.maintenance_specs import in_terminal, make_overdue, overlay, states
from tests.packet.switches import BRIDGE, ROOT, SLOT_TABLE, Switch

# Repeated


def only(switch: Switch) -> dict[str, Any]:
    (found,) = overlay(switch)
    return found


def test_a_repeated_drain_keeps_its_end_and_note(applied: Switch) -> None:
    assert on(applied)("drain", "farm/ns1", "--for", "2h", "--note", "disk").code == 0
    first = only(applied)
    with nothing_changes(applied):
        again = on(applied)("drain", "farm/ns1")
        same = on(applied)("drain", "farm/ns1", "--note", "disk", "--json")
    assert (again.code, "drained already" in again.out) == (0, True)
    assert (same.code, same.json["changed"]) == (0, False)
    longer = on(applied)("drain", "farm/ns1", "--for", "4h")
    assert re.search(r"changed: drain of farm/ns1: until \S+ \S+ UTC -> \S+ \S+ UTC\n", longer.out), longer.out
    noted = on(applied)("drain", "farm/ns1", "--note", "disk, fan")
    assert "note 'disk' -> 'disk, fan'" in noted.out
    last = only(applied)
    assert datetime.fromisoformat(last["until"]) - datetime.fromisoformat(first["until"]) > timedelta(hours=1)
    assert (last["note"], last["since"]) == ("disk, fan", first["since"])


def test_another_pace_keeps_the_drains_progress(applied: Switch) -> None:
    target = TargetSwitch(applied.database)
    then = now() - timedelta(minutes=30)
    change_overlay(target, None, take_out("farm/ns1", "drain", over=3600), time=then)
    half = change_overlay(target, None, advance)
    assert sum(m.moved for m in half.moves) == 4
    with nothing_changes(applied):
        change_overlay(target, None, take_out("farm/ns1", "drain", over=3600))
    start = time.monotonic()
    done = on(applied)("drain", "farm/ns1", "--over", "2s", "--json")
    assert (done.code, done.json["moved"]) == (0, 4)
    assert 0.8 < time.monotonic() - start < 8  # the second half of the two seconds
    assert "over 3600 s -> 2 s" in str(done.json["words"])
    found = only(applied)
    assert (found["over"], found["since"]) == (2, stamp(then))
    assert states(applied)["ns1"] == "drained"


def test_a_drain_without_slots_says_so(applied: Switch) -> None:
    on(applied)("down", "farm/ns1")
    done = on(applied)("drain", "farm/ns1")
    assert done.out == "br-dns: changed: farm/ns1 is drained\nbr-dns: changed: no slot moves\n"


# Nobody waits for an answer


@pytest.mark.parametrize("touches", ["the same pool", "another pool"])
def test_a_pending_confirmation_does_not_block_other_changes(applied: Switch, touches: str) -> None:
    on(applied)("down", "spare/sp1")
    other = "farm/ns1" if touches == "another pool" else "spare/sp1"
    ran: list[Ran] = []

    def meanwhile() -> None:
        verb = "down" if touches == "another pool" else "up"
        ran.append(on(applied)(verb, other, "--timeout", "1"))

    done = in_terminal(applied, "y\n", "down", "spare/sp2", meanwhile=meanwhile)
    assert ran[0].code == 0, ran[0].err
    assert done.code == 0
    assert "sp2" in [a["backend"] for a in overlay(applied)]
    # What moves is said before the question. When it is no longer that, all is read again.
    assert done.err.index("would change:") < done.err.index("Go on?")
    assert done.err.count("Go on?") == (2 if touches == "another pool" else 1)
    assert ("the switch has changed in the meantime" in done.err) is (touches == "another pool")
    assert "16 of 16 slots of pool spare move" not in done.err


@pytest.mark.parametrize("key", [KNOWN_KEY, FAILURES_KEY])
def test_a_note_of_the_agent_does_not_repeat_the_confirmation(applied: Switch, key: str) -> None:
    asked: list[list[str]] = []

    def confirm(reasons: list[str], _words: list[str]) -> None:
        asked.append(reasons)
        assert len(asked) == 1
        applied.vsctl("set", "Bridge", BRIDGE, f"external_ids:{key}=[]")

    target = TargetSwitch(applied.database)
    change_overlay(target, None, take_out("spare/sp1", "down"))
    change_overlay(target, None, take_out("spare/sp2", "down"), confirm=confirm)
    assert len(asked) == 1
    assert states(applied, "spare") == {"sp1": "down", "sp2": "down"}


def test_an_apply_awaiting_confirmation_does_not_block_other_changes(applied: Switch, tmp_path: Path) -> None:
    file = spec_file(tmp_path, old="slots: 32", new="slots: 1024")
    ran: list[Ran] = []
    done = in_terminal(
        applied, "y\n", "apply", file, meanwhile=lambda: ran.append(on(applied)("down", "spare/sp1", "--timeout", "1"))
    )
    assert (ran[0].code, done.code) == (0, 0), (ran, done)
    assert done.err.index("pool farm: slots 32 -> 1024") < done.err.index("Go on?")
    assert done.err.count("Go on?") == 2
    assert on(applied)("verify", file).code == 0
    assert [a["backend"] for a in overlay(applied)] == ["sp1"]


def test_returning_to_service_needs_no_confirmation(applied: Switch) -> None:
    on(applied)("drain", "farm/ns3")
    assert on(applied)("drain", "farm/ns2", "--yes", "--json").json["asks"]
    assert on(applied)("undrain", "farm/ns2").code == 0
    assert on(applied)("down", "farm/ns2", "--yes").code == 0
    assert on(applied)("up", "farm/ns2").code == 0


def test_up_of_a_drained_backend_names_undrain(applied: Switch) -> None:
    on(applied)("drain", "farm/ns1")
    assert "farm/ns1 is not down, it is drained: dnsteer undrain farm/ns1" in on(applied)("up", "farm/ns1").out


# Not drained


@contextmanager
def draining(switch: Switch) -> Iterator[subprocess.Popen[str]]:
    """A drain of farm/ns1 that is on its way in a process of its own."""
    argv = [sys.executable, "-m", "dnsteer", "drain", "farm/ns1", "--over", "60s", "--for", "1h", "--json"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "generator")}
    with subprocess.Popen([*argv, "--db", switch.database], env=env, stdout=subprocess.PIPE, text=True) as child:
        deadline = time.monotonic() + 20
        while not overlay(switch):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        try:
            yield child
        finally:
            child.kill()


def test_a_gradual_drain_ended_by_others_is_an_error(applied: Switch) -> None:
    base = applied.tables()
    with draining(applied) as child:
        assert on(applied)("undrain", "farm/ns1").code == 0
        said = json.loads(child.communicate(timeout=20)[0])
    assert (child.returncode, said["ok"]) == (Exit.ERROR, False)
    assert "farm/ns1 is NOT drained: it was ended by another command; it has its slots" in said["error"]
    assert applied.tables() == base


def test_a_gradual_drain_that_expires_is_an_error(applied: Switch) -> None:
    with draining(applied) as child:
        deadline = time.monotonic() + 20
        while child.poll() is None:  # again, since the drain may write just now
            assert time.monotonic() < deadline
            make_overdue(applied)
            time.sleep(0.2)
        said = json.loads(child.communicate()[0])
    assert child.returncode == Exit.ERROR
    assert "farm/ns1 is NOT drained: its --for was over; it has its slots" in said["error"]


def test_a_drain_expiring_before_its_end_is_refused(applied: Switch) -> None:
    with nothing_changes(applied):
        for lasts in ("5s", "60s"):
            assert on(applied)("drain", "farm/ns1", "--over", "60s", f"--for={lasts}").code == Exit.USAGE
    change_overlay(TargetSwitch(applied.database), None, take_out("farm/ns1", "drain", over=60))
    with nothing_changes(applied):
        early = on(applied)("drain", "farm/ns1", "--for", "10s")
    assert (early.code, "give a longer --for" in early.err) == (Exit.ERROR, True)


@pytest.mark.parametrize("verb", ["drain", "down"])
def test_already_drained_refers_to_the_tables_not_the_record(applied: Switch, tmp_path: Path, verb: str) -> None:
    assert on(applied)(verb, "farm/ns1").code == 0
    right = applied.tables()
    applied.ofctl("del-flows", SLOT_TABLE)
    with nothing_changes(applied):
        dry = on(applied)(verb, "farm/ns1", "--dry-run")
    assert "the tables would be corrected" in dry.out
    done = on(applied)(verb, "farm/ns1", "--json")
    assert (done.code, done.json["changed"], done.json["repaired"]) == (0, True, True)
    assert applied.tables() == right
    value = json.dumps(json.dumps([{**overlay(applied)[0], "backend": "ns3"}]))
    applied.vsctl("set", "Bridge", BRIDGE, f"external_ids:dnsteer-overlay={value}")  # while ns1 is what is out
    done = on(applied)(verb, "farm/ns3")
    assert (done.code, "the tables were corrected" in done.out) == (0, True), done
    assert on(applied)("verify", tmp_path / "spec.yaml").code == 0
    assert applied.tables() != right
