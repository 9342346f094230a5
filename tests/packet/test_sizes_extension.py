# SPDX-License-Identifier: Apache-2.0
"""How much hardware a spec with an extension takes: counted from the plan, and held against the real switch."""

from __future__ import annotations

import pytest

from dnsteer.checks.load import load_spec
from dnsteer.plan.build import build_plan
from dnsteer.plan.extension.pipes import entries, pipes_of
from dnsteer.plan.sizes import sizes_of
from dnsteer.proof.check import prove
from tests.packet.linted_examples import ROOT, changed


@pytest.mark.parametrize(("example", "local"), [("client-hash", 0), ("ipip", 0), ("spray", 0), ("siit", 4)])
def test_planned_rule_counts_equal_the_datapath_flows(example: str, local: int) -> None:
    """But for those that clients with local addresses over IPv6 would make, of whom check sends nothing."""
    loaded = load_spec(ROOT / "examples" / f"{example}.yaml")
    sizes = sizes_of(loaded.spec, build_plan(loaded))
    assert sizes.total == prove(loaded).megaflows + local


def test_flows_from_the_extension_are_the_largest_set() -> None:
    """The entries of its own program, of which there are more, are not among the datapath flows."""
    loaded = load_spec(ROOT / "examples" / "ipip.yaml")
    plan = build_plan(loaded)
    sizes = sizes_of(loaded.spec, plan)
    assert plan.extension is not None
    assert sizes.largest == ("IPv4 packets from the extension", 5)
    assert entries(pipes_of(plan.extension)) > sizes.total


def test_paths_between_several_uplinks_are_counted() -> None:
    places = [(f"01:0{n}", f"01:0{n}, port: p{n % 2}") for n in (1, 2, 3)]
    loaded = changed("client-hash", ("    p0:\n", "    p0:\n    p1:\n"), *places)
    sizes = sizes_of(loaded.spec, build_plan(loaded))
    assert sizes.crossing == "queries that come in by p1 go to ext-in"
    assert sizes.rules["queries", "ipv4"] == 4  # two services at two uplinks
