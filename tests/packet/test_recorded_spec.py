# SPDX-License-Identifier: Apache-2.0
"""A recorded spec in which a newer version finds mistakes, though its tables can be made: the switch stays in hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from dnsteer.checks.load import check_document
from dnsteer.cli.output import Exit
from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.run import deploy
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.spec.read import parse_document
from tests.packet.command import FARM, OTHER, on, spec_file
from tests.packet.maintenance_specs import overlay
from tests.packet.switches import Switch

FARM_POOL, SPARE_VIP = "  farm:\n", "192.0.2.54"
CHANGES = {
    "an empty key": (FARM_POOL, "  farm:\n    health:\n"),
    "a misspelt option": ("    p1:\n", "    p1: {options: {n-rxq: 2}}\n"),
    "an address of translators": (SPARE_VIP, f"{SPARE_VIP}, '64:ff9b::c000:236'"),
    "relative names": (
        FARM_POOL,
        "  farm:\n    health: {query: {name: example.org, type: NS, expect: {answer: ns1.example.org}}}\n",
    ),
    "keep_at_least without health": (FARM_POOL, "  farm:\n    keep_at_least: 1\n"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_recorded_spec_with_later_found_mistakes_still_works(switch: Switch, tmp_path: Path, what: str) -> None:
    old, new = CHANGES[what]
    file = spec_file(tmp_path, FARM.replace(old, new, 1))
    assert on(switch)("plan", file).code == Exit.ERROR
    loaded = check_document(parse_document(str(file), file.read_text()), recorded=True)
    deploy(FileSource(loaded), TargetSwitch(switch.database))
    tables = switch.tables()
    switch.ofctl("del-flows")
    assert on(switch)("restore").code == 0
    assert switch.tables() == tables
    assert on(switch)("drain", "farm/ns1").code == 0
    assert [entry["backend"] for entry in overlay(switch)] == ["ns1"]
    assert on(switch)("undrain", "farm/ns1").code == 0
    assert on(switch)("probes").code == 0
    assert on(switch)("apply", spec_file(tmp_path, OTHER), "--yes").code == 0
    assert on(switch)("rollback", "--yes").code == 0
    assert switch.tables() == tables
