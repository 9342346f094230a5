# SPDX-License-Identifier: Apache-2.0
"""What people have changed for a time is said by `verify` and `plan`; and of a damaged record no more than is known."""

from __future__ import annotations

from pathlib import Path

from dnsteer.cli.output import Exit
from tests.packet.command import FARM, on, spec_file
from tests.packet.switches import BRIDGE, SLOT_TABLE, VIP_TABLE, Switch

HEAVIER = FARM.replace("mac: '02:00:00:00:01:01'}", "mac: '02:00:00:00:01:01', weight: 3}")


def test_verify_names_maintenance_in_force(applied: Switch, tmp_path: Path) -> None:
    do, spec = on(applied), spec_file(tmp_path)
    assert do("verify", spec).out == "br-dns: as the spec says\n"
    assert do("verify", spec, "--json").json["in_force"] == []
    assert do("drain", "farm/ns1", "--yes").code == do("weight", "farm/ns2", "5", "--yes").code == 0
    said = do("verify", spec)
    assert (said.code, said.out.splitlines()) == (
        Exit.OK,
        [
            "in force: farm/ns1 is drained",
            "in force: farm/ns2 is at weight 5",
            "br-dns: as the spec says with what is in force",
        ],
    )
    assert do("verify", spec, "--json").json["in_force"] == ["farm/ns1 is drained", "farm/ns2 is at weight 5"]


def test_without_a_file_verify_compares_with_the_record(applied: Switch, tmp_path: Path) -> None:
    do = on(applied)
    as_recorded = f"br-dns: as recorded: {tmp_path}/spec.yaml (state 1)"
    assert (do("verify").code, do("verify").out) == (Exit.OK, f"{as_recorded}\n")
    (tmp_path / "spec.yaml").unlink()
    assert do("drain", "farm/ns1", "--yes").code == 0
    assert do("verify", "--bridge", BRIDGE).out.splitlines()[-1] == f"{as_recorded} with what is in force"
    applied.ofctl("add-flow", f"{VIP_TABLE},priority=7,actions=drop")
    found = do("verify", "--json")
    assert found.code == Exit.DIFFERENT and len(found.json["drift"]) == 1
    assert do("verify", "--ignore-foreign").code == Exit.OK
    wrong = do("verify", spec_file(tmp_path), "--bridge", BRIDGE)
    assert wrong.code == Exit.USAGE and "found SPEC and --bridge" in wrong.err


def test_a_weight_of_the_spec_that_a_given_one_overrides_moves_nothing(applied: Switch, tmp_path: Path) -> None:
    do, heavier = on(applied), tmp_path / "heavier.yaml"
    heavier.write_text(HEAVIER)
    assert do("weight", "farm/ns1", "5", "--yes").code == 0
    before = applied.flows()
    stays = (
        "weight 1 -> 3, but the given weight 5 stays in force, and its slots with it (dnsteer weight farm/ns1 --undo"
    )
    planned = do("plan", heavier)
    assert planned.code == Exit.DIFFERENT and f"backend farm/ns1: {stays} ends it)" in planned.out
    assert "slots of pool farm move" not in planned.out
    (change,) = do("plan", heavier, "--json").json["changes"]
    assert change["text"].startswith(f"backend farm/ns1: {stays}")
    assert do("apply", heavier, "--yes").code == 0
    assert [flow for flow in applied.flows() if f"{SLOT_TABLE}," in flow] == [
        flow for flow in before if f"{SLOT_TABLE}," in flow
    ]
    assert do("weight", "farm/ns1", "--undo", "--yes").code == 0
    assert "in force" not in do("plan", spec_file(tmp_path)).out


def test_a_damaged_record_claims_no_added_objects(applied: Switch, tmp_path: Path) -> None:
    do, heavier = on(applied), tmp_path / "heavier.yaml"
    heavier.write_text(HEAVIER)
    applied.vsctl("set", "Bridge", BRIDGE, "external_ids:dnsteer-state=7")
    planned = do("plan", heavier)
    assert "added" not in planned.out.replace("flows added", "").replace("flow added", "")
    assert "what is applied now cannot be read, so what changes is known of flows alone (-v)" in planned.out
    assert "slots" not in planned.out.partition("on the switch")[0]


def test_a_change_of_the_group_that_ties_bundles_to_the_tables_is_seen_and_put_right(
    applied: Switch, tmp_path: Path
) -> None:
    do, spec = on(applied), spec_file(tmp_path)
    applied.ofctl("mod-group", "group_id=53065536,type=all,bucket=drop")
    said = do("verify", spec)
    assert (said.code, said.out.splitlines()[0].partition(" (")[0]) == (Exit.DIFFERENT, "group changed: pipeline")
    assert "group 53065536" in said.out
    assert do("restore").code == 0
    assert do("verify", spec).code == do("plan", spec).code == 0
    assert do("drain", "farm/ns1", "--yes").code == 0
