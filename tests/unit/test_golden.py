# SPDX-License-Identifier: Apache-2.0
"""Golden flows and groups of the examples, compared parsed. `make golden` regenerates them: read the diff."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dnsteer.checks.load import load_spec
from dnsteer.plan.build import build_plan
from dnsteer.render.flows import flows_of, groups_of, parse_flow
from dnsteer.render.meters import meters_of
from dnsteer.tables.cookies import Category, cookie
from dnsteer.tables.slot import SlotTable

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
EXAMPLES = sorted(p.stem for p in (ROOT / "examples").glob("*.yaml"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_flows_of_examples_equal_the_golden_files(name: str, pytestconfig: pytest.Config) -> None:
    plan = build_plan(load_spec(ROOT / "examples" / f"{name}.yaml"))
    flows, groups, meters = flows_of(plan), groups_of(plan), meters_of(plan)
    file = GOLDEN / f"{name}.txt"
    if pytestconfig.getoption("--regenerate"):
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(
            "".join(f"{line}\n" for line in [*(g.text for g in (*meters, *groups)), *(f.line() for f in flows)])
        )
    lines = file.read_text().splitlines()
    assert {parse_flow(line) for line in lines if line.startswith("cookie")} == set(flows)
    assert [line for line in lines if line.startswith("group")] == [g.text for g in groups]
    assert [line for line in lines if line.startswith("meter=")] == [m.text for m in meters]


def test_every_example_has_a_golden_file() -> None:
    assert sorted(p.stem for p in GOLDEN.glob("*.txt")) == EXAMPLES


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_two_flows_with_one_key(name: str) -> None:
    flows = flows_of(build_plan(load_spec(ROOT / "examples" / f"{name}.yaml")))
    assert len({f.key for f in flows}) == len(flows)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_cookie_has_a_subject(name: str) -> None:
    """And none of another object: each subject has the cookie that was asked for, and a place in the spec."""
    plan = build_plan(load_spec(ROOT / "examples" / f"{name}.yaml"))
    cookies = {f.cookie for f in flows_of(plan)}
    subjects = {key: plan.subject(key) for key in cookies}
    assert [hex(key) for key, subject in subjects.items() if subject is None or subject.cookie != key] == []
    assert all(subject.title and subject.line > 0 for subject in subjects.values() if subject)
    slots = [s for s in subjects.values() if s and re.search(r" slot \d+ -> ", s.title)]
    assert len(slots) == sum(len(table.owners) for table in plan.rows.of(SlotTable))
    assert slots or plan.extension
    unused = [cookie(Category.SLOT, 0xFFFFFF << 16), cookie(Category.STATE, plan.marker ^ 1), cookie(Category.VIP, 1)]
    assert [plan.subject(key) for key in unused] == [None, None, None]
