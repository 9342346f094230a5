# SPDX-License-Identifier: Apache-2.0
"""A pool without `slots` keeps the number that it was applied with when a newer dnsteer gives new pools another one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dnsteer.spec import derived
from tests.packet.command import on, spec_file
from tests.packet.switches import Switch

SPEC = """apiVersion: dnsteer/v1
switch: {flavor: ovs-netdev, bridge: br-dns, mac: 02:00:00:00:00:53, uplinks: {p0: }}
pools:
  farm:
    backends:
      - {name: ns1, ipv4: 192.0.2.11, mac: 02:00:00:00:01:01}
      - {name: ns2, ipv4: 192.0.2.12, mac: 02:00:00:00:01:02, weight: 2}
      - {name: ns3, ipv4: 192.0.2.13, mac: 02:00:00:00:01:03}
vips:
  dns: {addresses: [198.51.100.1], services: [dns], pool: farm}
"""
SECOND = SPEC.replace(
    "vips:", "  new:\n    backends: [{name: n1, ipv4: 192.0.2.21, mac: 02:00:00:00:02:01}]\nvips:"
).replace("pool: farm}\n", "pool: farm}\n  two: {addresses: [198.51.100.2], services: [dns], pool: new}\n")
NOTE = (
    "note: pool farm keeps its 1024 slots, where a new pool gets 256: to keep them anywhere, or to have others, name them "
    "(slots: 1024)\n"
)
MANY, FEW = 1024, 256


def slots(switch: Switch, pool: str, tmp_path: Path) -> int:
    status = json.loads(on(switch)("status", "--no-verify", "--json").out)
    found = {each["name"]: each["slots"] for each in status["pools"]}
    return int(found[pool])


@pytest.fixture
def older(switch: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Switch:
    """A switch to which SPEC was applied when the number was another one."""
    assert derived.SOURCE_PORT_SLOTS == FEW
    with monkeypatch.context() as patch:
        patch.setattr(derived, "SOURCE_PORT_SLOTS", MANY)
        assert on(switch)("apply", spec_file(tmp_path, SPEC)).code == 0
    return switch


def test_a_pool_without_a_slot_count_keeps_its_slots(older: Switch, tmp_path: Path) -> None:
    tables = older.tables()
    do = on(older)
    planned = do("plan", spec_file(tmp_path, SPEC))
    assert (planned.code, planned.out, planned.err) == (0, "br-dns: nothing to change\n", NOTE)
    assert do("verify", spec_file(tmp_path, SPEC)).code == 0  # also before anything is applied anew
    done = do("apply", spec_file(tmp_path, SPEC))
    assert (done.code, done.out, done.err) == (0, "br-dns: nothing to change\n", NOTE)
    assert older.tables() == tables
    assert slots(older, "farm", tmp_path) == MANY


def test_verify_and_the_quick_verbs_know_the_number(older: Switch, tmp_path: Path) -> None:
    do = on(older)
    assert do("apply", spec_file(tmp_path, SPEC)).code == 0
    assert do("verify", spec_file(tmp_path, SPEC)).out == "br-dns: as the spec says\n"
    status = do("status")
    assert "tables   as recorded" in status.out
    down = do("down", "farm/ns1")
    assert down.code == 0 and "256 of 1024 slots of pool farm IPv4 move" in down.out
    assert do("verify", spec_file(tmp_path, SPEC)).code == 0
    assert do("up", "farm/ns1").code == 0
    assert do("restore").code == 0
    assert do("verify", spec_file(tmp_path, SPEC)).code == 0


def test_a_new_pool_gets_the_new_number_beside_it(older: Switch, tmp_path: Path) -> None:
    do = on(older)
    done = do("apply", spec_file(tmp_path, SECOND))
    assert done.code == 0 and NOTE in done.err
    assert (slots(older, "farm", tmp_path), slots(older, "new", tmp_path)) == (MANY, FEW)
    assert do("verify", spec_file(tmp_path, SECOND)).code == 0
    back = do("rollback", "--yes")
    assert back.code == 0
    assert slots(older, "farm", tmp_path) == MANY


def test_a_named_slot_count_changes_the_slots(older: Switch, tmp_path: Path) -> None:
    do = on(older)
    same = do("apply", spec_file(tmp_path, SPEC.replace("  farm:", f"  farm:\n    slots: {MANY}")))
    assert same.code == 0 and "note" not in same.err and "move" not in same.out
    fewer = SPEC.replace("  farm:", f"  farm:\n    slots: {FEW}")
    done = do("apply", spec_file(tmp_path, fewer), "--yes")
    assert done.code == 0 and slots(older, "farm", tmp_path) == FEW
    back = do("rollback", "--yes")
    assert back.code == 0 and slots(older, "farm", tmp_path) == MANY


def test_another_selection_gets_the_default_slot_count(older: Switch, tmp_path: Path) -> None:
    hashed = SPEC.replace("  farm:", "  farm:\n    selection: dp-hash")
    done = on(older)("apply", spec_file(tmp_path, hashed), "--yes")
    assert done.code == 0 and "note" not in done.err
    assert slots(older, "farm", tmp_path) == 256


def test_a_plan_file_holds_for_the_kept_number(older: Switch, tmp_path: Path) -> None:
    do = on(older)
    file = tmp_path / "plan.json"
    assert do("plan", spec_file(tmp_path, SECOND), "-o", file).code == 2
    done = do("apply", "--plan", file)
    assert done.code == 0, done.err
    assert (slots(older, "farm", tmp_path), slots(older, "new", tmp_path)) == (MANY, FEW)


def test_a_damaged_record_does_not_hide_what_verify_finds(older: Switch, tmp_path: Path) -> None:
    do = on(older)
    ref = older.vsctl("--bare", "--columns=_uuid", "find", "Flow_Table", "external_ids:dnsteer-state=1").strip()
    older.vsctl("set", "Flow_Table", ref, "external_ids:spec=x")
    found = do("verify", spec_file(tmp_path, SPEC))
    assert found.code == 2 and "slot" in found.out
