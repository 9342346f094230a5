# SPDX-License-Identifier: Apache-2.0
"""What the agent decides, searched: whatever is observed, and whatever people and health do to a few backends."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dnsteer.agent.health_decision import PoolRules
from dnsteer.slots.maintenance import Overlay
from dnsteer.slots.owners import owners
from tests.unit.test_agent_decide import NAMES, Pool, people, rules

STATES = ("passes", "fails", "recovers", "unproven", "unknown")
HEALTH = st.fixed_dictionaries({name: st.sampled_from(STATES) for name in NAMES})
BY_PEOPLE = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["drain", "down", "weight"]), max_size=4)


@settings(max_examples=400, deadline=None)
@given(
    seen=st.lists(st.tuples(HEALTH, BY_PEOPLE, st.sampled_from([0.0, 0.1, 1.0, 7.0, -5.0])), min_size=1, max_size=25),
    panic=st.sampled_from([0.0, 0.2, 0.5, 0.79, 1.0]),
    slow_start=st.sampled_from([0.0, 0.5, 3.0, 30.0]),
    keep=st.integers(0, 5),
)
def test_random_observations_keep_the_invariants(
    seen: list[tuple[dict[str, str], dict[str, str], float]],
    panic: float,
    slow_start: float,
    keep: int,
) -> None:
    pool = Pool(rules(panic, slow_start, keep=keep))
    weights = dict.fromkeys(NAMES, 1)
    for states, maintained, passed in seen:
        by_people = tuple(people(name, kind) for name, kind in sorted(maintained.items()))
        pool.overlay = Overlay((*by_people, *(e for e in pool.overlay if e.kind == "health")))
        named = {
            state: [n for n in NAMES if states[n] == state] for state in ("fails", "recovers", "unproven", "unknown")
        }
        before, out_before = {e.backend: e for e in pool.overlay if e.kind == "health"}, pool.out()
        unhealthy = {*named["fails"], *named["recovers"], *named["unproven"]}
        out = pool.step(
            *sorted(unhealthy),
            seconds=passed,
            **{
                what: "".join(named[state])
                for what, state in (("recovering", "recovers"), ("unproven", "unproven"), ("unknown", "unknown"))
            },
        )
        after, counted = pool.gone(), {*NAMES} - maintained.keys()
        assert tuple(e for e in pool.overlay if e.kind != "health") == by_people, "people decide about theirs"

        assert pool.decision.panics == (panic < 1 and bool(counted) and counted <= unhealthy)
        assert not {n for n in unhealthy if n in before and after.get(n, 0) < before[n].gone}, "back but by its checks"
        assert not counted & set(named["recovers"]) & (out - out_before), "who passes again is not taken out"
        if any(states[name] == "passes" for name in counted) and not keep:
            assert counted & set(named["fails"]) <= out, "who fails is out while another one passes"
        serving = counted - out
        if counted - unhealthy:
            assert serving, "not everybody is out while one is healthy"
            assert {*owners(weights, 64, [], pool.overlay.of("p"), drop=True)} <= serving | (counted - unhealthy)
        left = counted - out_before  # who is out already does not come back for it
        assert len(serving) >= min(keep, len(left)), "enough are left"
        went = out - out_before
        moving = {n for n in after if n in before and after[n] < before[n].gone}
        if went & counted:
            assert not moving, "none comes back by steps in the moment of a failure"
    pool.overlay = Overlay(tuple(e for e in pool.overlay if e.kind == "health"))
    for _ in range(int(len(NAMES) * (slow_start + 2)) + 2):
        pool.step()
    assert pool.gone() == {}, "who is healthy long enough is back"


@pytest.mark.parametrize("count", [2, 3, 4])
def test_every_combination_of_maintenance_and_health_keeps_the_invariants(count: int) -> None:
    """Each backend as it is, drained, down, at weight 0, or given a weight that the spec does not give it; each of them
    healthy or failing, one after the other or all at once: no pool is without a backend, and nobody dead serves, while a
    healthy one may."""
    names = NAMES[:count]
    for kinds in product(("", "drain", "down", "weight", "given"), repeat=count):
        spec = {name: int(kind != "given") for name, kind in zip(names, kinds, strict=True)}
        entries = [
            replace(people(name, "weight"), weight=2) if kind == "given" else people(name, kind)
            for name, kind in zip(names, kinds, strict=True)
            if kind
        ]
        counted = {name for name, kind in zip(names, kinds, strict=True) if kind in ("", "given")}
        for ill in product((False, True), repeat=count):
            fail = [name for name, is_ill in zip(names, ill, strict=True) if is_ill]
            for steps in (
                [fail],
                [fail[: n + 1] for n in range(len(fail))],
                [fail[n:] for n in reversed(range(len(fail)))],
            ):
                pool = Pool(PoolRules("p", spec, 0.5, 0.0), Overlay(tuple(entries)))
                for failing in steps:
                    pool.step(*failing, seconds=60)
                    held = {*owners(spec, 16, [], pool.overlay.of("p"), drop=True)}
                    case = f"{kinds} {failing}: {held} {pool.overlay}"
                    assert bool(held) == bool(counted), case
                    assert held <= counted, case
                    if counted - set(failing):
                        assert not held & set(failing), case
