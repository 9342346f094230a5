# SPDX-License-Identifier: Apache-2.0
"""The bound on megaflows against the real switch: no junk makes more than was computed, and much of it makes as many."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.junk import JunkKind, junk_kinds, send_junk
from hypothesis import HealthCheck, given, settings

from dnsteer.checks.load import load_spec
from dnsteer.lint.masks.megaflows import megaflow_bounds
from dnsteer.plan.build import build_plan
from dnsteer.proof.harness.switch import Harness
from dnsteer.spec.loaded import Loaded
from tests.strategies import specs

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.yaml"))
EXACT = ("source ports", "IPv4 protocols", "IPv6 protocols", "fragments", "TTLs", "IPv4 destinations", "IPv4 sources")
"""Kinds of junk of which some thousand packets have all values."""


def compared(loaded: Loaded, kinds: list[JunkKind], packets: int) -> dict[str, tuple[int, int]]:
    """Megaflows made and computed, by kind of junk."""
    plan = build_plan(loaded)
    bounds = megaflow_bounds(plan, [kind.attacker() for kind in kinds])
    with Harness(plan) as harness:
        return {
            kind.name: (send_junk(harness, kind, packets, 53), bound.total)
            for kind, bound in zip(kinds, bounds, strict=True)
        }


def test_junk_makes_the_computed_megaflows() -> None:
    loaded = load_spec(next(file for file in EXAMPLES if file.stem == "quickstart"))
    found = compared(loaded, junk_kinds(loaded), 3000)
    assert len(found) > 24
    assert [kind for kind, (made, computed) in found.items() if made > computed] == []
    exact = {kind: each for kind, each in found.items() if kind.endswith(EXACT)}
    assert len(exact) == 10
    assert [kind for kind, (made, computed) in exact.items() if made != computed] == []


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
def test_a_few_values_of_all_fields_make_no_more_than_computed(file: Path) -> None:
    """Every table is reached, and nearly every value that counts is sent."""
    loaded = load_spec(file)
    found = compared(loaded, [kind for kind in junk_kinds(loaded) if "a few values" in kind.name], 6000)
    for kind, (made, computed) in found.items():
        assert made <= computed, f"{kind}: {made} made, {computed} computed"
        assert made > 40


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(specs())
def test_junk_makes_no_more_than_computed_of_any_spec(loaded: Loaded) -> None:
    for kind, (made, computed) in compared(loaded, junk_kinds(loaded), 400).items():
        assert made <= computed, f"{kind}: {made} made, {computed} computed"
