# SPDX-License-Identifier: Apache-2.0
"""The bound on megaflows against the real switch: no junk makes more than was computed, and much of it makes as many."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.junk import JunkKind, junk_kinds, send_junk
from hypothesis import HealthCheck, given, settings

from dnsteer.checks.load import load_spec
from dnsteer.lint.masks.megaflows import bounds_of, megaflow_bounds
from dnsteer.plan.build import build_plan
from dnsteer.proof.harness import switch
from dnsteer.proof.harness.switch import Harness
from dnsteer.render.flows import parse_flow
from dnsteer.render.meters import meters_of
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.meters import bring_meters
from tests.strategies import specs

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.yaml"))
EXACT = ("source ports", "IPv4 protocols", "IPv6 protocols", "fragments", "TTLs", "IPv4 destinations", "IPv4 sources")
"""Kinds of junk of which some thousand packets have all values."""


def compared(loaded: Loaded, kinds: list[JunkKind], packets: int) -> dict[str, tuple[int, int]]:
    """Megaflows made and computed, by kind of junk."""
    plan = build_plan(loaded)
    bounds = megaflow_bounds(plan, [kind.attacker() for kind in kinds])
    with Harness(plan) as harness:
        bring_meters(harness.openflow, (), meters_of(plan))  # the harness lets everything pass them
        return {
            kind.name: (send_junk(harness, kind, packets, 53), bound.total)
            for kind, bound in zip(kinds, bounds, strict=True)
        }


def test_no_junk_makes_more_than_computed() -> None:
    loaded = load_spec(next(file for file in EXAMPLES if file.stem == "quickstart"))
    found = compared(loaded, junk_kinds(loaded), 2000)
    assert len(found) > 24
    assert [kind for kind, (made, computed) in found.items() if made > computed] == []


def test_junk_of_few_values_makes_as_many_as_computed() -> None:
    loaded = load_spec(next(file for file in EXAMPLES if file.stem == "quickstart"))
    found = compared(loaded, [kind for kind in junk_kinds(loaded) if kind.name.endswith(EXACT)], 8000)
    assert len(found) == 10
    assert [kind for kind, (made, computed) in found.items() if made != computed] == []


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
def test_a_few_values_of_all_fields_make_no_more_than_computed(file: Path) -> None:
    """Every table is reached, and nearly every value that counts is sent."""
    loaded = load_spec(file)
    found = compared(loaded, [kind for kind in junk_kinds(loaded) if "a few values" in kind.name], 6000)
    for kind, (made, computed) in found.items():
        assert made <= computed, f"{kind}: {made} made, {computed} computed"
        assert made > 40


RECIRCULATING = [
    "table=0, priority=9,udp,nw_frag=no actions=move:NXM_OF_UDP_DST[0..1]->NXM_NX_REG1[0..1],"
    "move:NXM_OF_UDP_DST[4..5]->NXM_NX_REG12[0..1],ct(table=1)",
    "table=0, priority=0 actions=drop",
    "table=1, priority=9,udp,reg1=0,tp_src=0x0/0x3 actions=IN_PORT",
    "table=1, priority=8,udp,reg1=0x1 actions=move:NXM_OF_UDP_SRC[0..3]->NXM_NX_REG12[0..3]",
    "table=1, priority=0 actions=drop",
]


@pytest.mark.parametrize("clear", ["", "set_field:0->reg12,"])
def test_recirculated_packets_make_the_computed_megaflows(clear: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers differ when packets are recirculated, and each value of them has an identifier, also where nothing looks."""
    loaded = load_spec(next(file for file in EXAMPLES if file.stem == "quickstart"))
    lines = [f"cookie=0xd453010000000000, {line.replace('ct(', clear + 'ct(')}" for line in RECIRCULATING]
    (kind,) = (kind for kind in junk_kinds(loaded) if kind.name == "IPv4 destinations, ports and slots")
    (bound,) = bounds_of([parse_flow(line) for line in lines], (), [kind.attacker()])
    monkeypatch.setattr(switch, "lines_of", lambda _, **__: lines)
    with switch.Harness(build_plan(loaded)) as harness:
        made = send_junk(harness, kind, 3000, 53)
    # The first pass looks at 4 bits. Then, for each value of bits 4 and 5 that is held: what matches and two ways to miss
    # where register 1 is 0; 16 values where it is 1; one megaflow each where it is 2 or 3.
    assert made == 16 + (1 if clear else 4) * (3 + 16 + 2)
    assert made <= bound.total < 2 * made


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(specs())
def test_junk_makes_no_more_than_computed_of_any_spec(loaded: Loaded) -> None:
    for kind, (made, computed) in compared(loaded, junk_kinds(loaded), 400).items():
        assert made <= computed, f"{kind}: {made} made, {computed} computed"
