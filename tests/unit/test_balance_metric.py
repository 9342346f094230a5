# SPDX-License-Identifier: Apache-2.0
"""The metric of backends, and what is decided by it: pure functions."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dnsteer.agent.balance.metric import Metric, MetricError
from dnsteer.agent.balance.rules import rule_of, wanted_load
from dnsteer.agent.balance.slot_moves import Moves, Pace, PoolCounts
from dnsteer.agent.balance.spill import SpillRules, decide_spill
from dnsteer.spec.model.balance import Balance

NAMES = ("a", "b", "c")
EVEN = dict.fromkeys(NAMES, 1.0)


def test_values_are_smoothed_by_half_life() -> None:
    metric = Metric(half_life=10.0, lasts=30.0)
    metric.add("a", 1.0, 0.0)
    metric.add("a", 0.0, 10.0)
    assert metric.known(10.0) == {"a": pytest.approx(0.5)}
    metric.add("a", 0.0, 20.0)
    assert metric.known(20.0) == {"a": pytest.approx(0.25)}
    at_once = Metric(half_life=0.0, lasts=30.0)
    at_once.add("a", 1.0, 0.0)
    at_once.add("a", 5.0, 0.1)
    assert at_once.known(0.1) == {"a": 5.0}


def test_an_old_value_is_forgotten_and_smoothing_restarts() -> None:
    metric = Metric(half_life=10.0, lasts=30.0)
    metric.add("a", 8.0, 0.0)
    assert metric.known(30.0) == {"a": 8.0}
    assert metric.known(30.1) == {}
    metric.add("a", 2.0, 40.0)
    assert metric.known(40.0) == {"a": 2.0}, "nothing of the old value"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0])
def test_an_invalid_load_is_refused_and_the_last_value_kept(value: float) -> None:
    metric = Metric(half_life=0.0, lasts=30.0)
    metric.add("a", 1.0, 0.0)
    with pytest.raises(MetricError):
        metric.add("a", value, 1.0)
    with pytest.raises(MetricError):
        metric.add_counter("a", value, 1.0)
    assert metric.known(2.0) == {"a": 1.0}


def test_a_load_above_the_maximum_is_refused() -> None:
    for metric, value in ((Metric(0.0, 30.0), 1e308), (Metric(0.0, 30.0), 1.1e15), (Metric(0.0, 30.0, most=4.0), 4.1)):
        with pytest.raises(MetricError, match=r"is above (1e\+15|4), the most that counts"):
            metric.add("a", value, 0.0)
        assert metric.known(0.0) == {}


def test_values_are_in_the_unit_of_a_full_load() -> None:
    metric = Metric(0.0, 30.0, most=400.0, full=100.0)
    metric.add("a", 50.0, 0.0)
    assert metric.known(0.0) == {"a": 0.5}
    with pytest.raises(MetricError, match=r"^500 is above 400, the most that counts$"):
        metric.add("a", 500.0, 0.0)
    with pytest.raises(MetricError, match=r"^-1 is below 0$"):
        metric.add("a", -1.0, 0.0)


def test_a_counter_may_be_larger_than_a_value() -> None:
    metric = Metric(half_life=0.0, lasts=30.0)
    metric.add_counter("a", 1e20, 0.0)
    metric.add_counter("a", 1e20 + 1e6, 10.0)
    assert metric.known(10.0) == {"a": pytest.approx(1e5, rel=0.2)}


def test_a_single_wrong_value_is_forgotten_and_a_lasting_load_counts() -> None:
    metric = Metric(half_life=10.0, lasts=30.0)
    for name in ("a", "b"):
        metric.add(name, 0.5, 0.0)
    metric.add("a", 1e14, 10.0)
    metric.add("b", 0.5, 10.0)
    assert metric.known(10.0) == {"a": pytest.approx(2.75), "b": 0.5}, "10 times the usual, smoothed"
    for time in (20.0, 30.0, 40.0):
        metric.add("a", 0.5, time)
    assert metric.known(40.0)["a"] < 0.8
    for time in (50.0, 60.0, 70.0, 80.0, 90.0):
        metric.add("a", 900.0, time)
    assert metric.known(90.0)["a"] > 450


def test_values_within_a_full_load_are_taken_at_once() -> None:
    metric = Metric(half_life=0.0, lasts=30.0)
    for value in (0.001, 0.95):
        metric.add("a", value, 1.0)
    assert metric.known(1.0) == {"a": 0.95}
    metric.add("b", 2e9, 1.0)
    assert metric.known(1.0)["b"] == 9.5, "one that begins, too"
    idle = Metric(half_life=0.0, lasts=30.0)
    for value in (0.0, 3e9):
        idle.add("a", value, 1.0)
    assert idle.known(1.0) == {"a": 3e9}, "nothing to compare with"


VALUES = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([0.0, 5e-324, 1e308, 1e15, 1e-13, 0.5, 80.0])
POLICIES: list[dict[str, object]] = [{}, {"policy": "spill", "to": "c", "above": "80%"}, {"half_life": 0}]


@given(st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=40), st.sampled_from(POLICIES))
def test_random_values_never_break_the_decision(told: list[tuple[str, float]], keys: dict[str, object]) -> None:
    metric = Metric(0.0 if "half_life" in keys else 10.0, 30.0)
    given: dict[int, str] = {}
    for time, (name, value) in enumerate(told):
        with suppress(MetricError):
            metric.add(name, value, float(time))
        known = dict(metric.known(float(time)))
        assert all(0 <= each <= 1e15 for each in known.values())
        found = decided(counted("aaabbbcc"), known, given, {}, **keys)
        assert len(found.moved) <= 8


def test_the_rate_of_a_counter() -> None:
    metric = Metric(half_life=0.0, lasts=30.0)
    metric.add_counter("a", 100.0, 0.0)
    assert metric.known(0.0) == {}
    metric.add_counter("a", 150.0, 10.0)
    assert metric.known(10.0) == {"a": 5.0}
    metric.add_counter("a", 3.0, 20.0)
    assert metric.known(20.0) == {"a": 5.0}, "it began anew"
    metric.add_counter("a", 13.0, 30.0)
    assert metric.known(30.0) == {"a": 1.0}
    metric.keep(["b"])
    assert metric.known(30.0) == {}


def test_wanted_load_falls_in_proportion_above_the_mean() -> None:
    load = {"a": 60.0, "b": 30.0, "c": 10.0}
    found = wanted_load(load, {"a": 0.9, "b": 0.5, "c": 0.4}, EVEN, 0.1, 0.1)
    assert found is not None and sum(found.values()) == pytest.approx(100)
    assert found == {"a": pytest.approx(49), "b": pytest.approx(36), "c": pytest.approx(15)}, "what b and c can take"
    found = wanted_load(load, {"a": 0.9, "b": 0.2, "c": 0.1}, EVEN, 0.1, 0.1)
    assert found is not None and found["a"] == pytest.approx(60 * 0.4 / 0.9), "what a should have"
    assert wanted_load(load, {"a": 0.52, "b": 0.5, "c": 0.5}, EVEN, 0.1, 0.1) is None, "within the tolerance"
    assert wanted_load(load, {"a": 0.9}, EVEN, 0.1, 0.1) is None, "nobody to compare with"
    assert wanted_load(load, {"a": 0.0, "b": 0.0}, EVEN, 0.1, 0.1) is None, "nobody has anything to do"


def test_backends_without_a_metric_keep_their_load_and_all_keep_a_minimum() -> None:
    found = wanted_load({"a": 60.0, "b": 30.0, "c": 10.0}, {"a": 9.0, "b": 1.0}, EVEN, 0.1, 0.1)
    assert found is not None and found["c"] == 10.0 and found["a"] + found["b"] == pytest.approx(90)
    found = wanted_load({"a": 100.0, "b": 0.0}, {"a": 0.5, "b": 0.1}, {"a": 1.0, "b": 1.0}, 0.1, 0.2)
    assert found is not None and found["b"] > 9, "one without any load must begin somewhere"
    found = wanted_load({"a": 99.0, "b": 1.0}, {"a": 1.0, "b": 0.0}, {"a": 1.0, "b": 1.0}, 0.1, 0.2)
    assert found is not None and found["b"] <= 51, "at most its share more"


def test_a_backend_gives_and_gets_a_bounded_part_at_once() -> None:
    limits = {"a": 10.0, "b": 10.0, "c": 10.0}
    pace = Pace(limits, limits, {})
    assert pace.can_move(10, "a", "b") and not pace.can_move(11, "a", "b")
    pace.move(6, "a", "b")
    assert pace.can_move(4, "a", "c") and not pace.can_move(5, "a", "c"), "a has given most of it"
    assert pace.can_move(4, "c", "b") and not pace.can_move(5, "c", "b"), "b has got most of it"
    assert pace.waiting("abc") == {"b": 1, "c": 1}, "a gave more than half"
    later = Pace(limits, limits, {"a": 2})
    assert later.can_move(30, "a", "b") and not later.can_move(31, "a", "b") and not later.can_move(11, "c", "b")
    later.move(1, "a", "b")
    assert not later.can_move(11, "a", "c"), "a large slot goes alone"
    assert later.waiting("a") == {"a": 3}


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.none() | st.floats(0, 1e300), st.integers(1, 9)), min_size=2, max_size=6)
)
@example([(0.0, 4.8e-284, 1), (1.4e-58, 5e-324, 1)])
def test_load_is_shared_out_whole(rows: list[tuple[float, float | None, int]]) -> None:
    names = [f"b{n}" for n in range(len(rows))]
    load = {name: row[0] for name, row in zip(names, rows, strict=True)}
    metric = {name: row[1] for name, row in zip(names, rows, strict=True) if row[1] is not None}
    weights = {name: float(row[2]) for name, row in zip(names, rows, strict=True)}
    found = wanted_load(load, metric, weights, 0.1, 0.1)
    if found is None:
        return
    assert sum(found.values()) == pytest.approx(sum(load.values()), rel=1e-6, abs=1e-6)
    assert all(math.isfinite(value) and value >= 0 for value in found.values())


@pytest.mark.parametrize("change", ["10%", "20%", "50%"])
def test_an_overloaded_backend_with_nearly_all_load_gives_it_away(change: str) -> None:
    """What the others have is too little to grow by a part of it."""
    natural, owners, number = "abc" * 10 + "ab", "a" * 30 + "bc", 0
    given = {slot: own for slot, own in enumerate(owners) if own != natural[slot]}
    waited: Mapping[str, int] = {}
    while owners.count("a") > 12 and number < 30:
        metric = {"a": 0.7, "b": 0.05, "c": 0.05}
        found = decided(counted(owners, natural=natural), metric, given, waited, change=change)
        given, waited = dict(found.given), found.waited
        owners, number = "".join(given.get(slot, own) for slot, own in enumerate(natural)), number + 1
    assert owners.count("a") <= 12 and min(owners.count("b"), owners.count("c")) > 5, owners


def counted(owners: str, packets: list[float] | None = None, natural: str = "", out: str = "") -> PoolCounts:
    names = sorted({*owners, *natural} - {*out})
    return PoolCounts(packets or [1.0] * len(owners), owners, natural or owners, dict.fromkeys(names, 1))


def decided(
    found: PoolCounts, metric: dict[str, float], given: Mapping[int, str], waited: Mapping[str, int], **keys: object
) -> Moves:
    balance = Balance.model_validate({"by": "metric", "source": {"push": True}, **keys})
    return rule_of(balance, metric, waited).decide([found], given, 100)


def moves(found: PoolCounts, metric: dict[str, float], given: dict[int, str] | None = None) -> dict[int, str]:
    return dict(decided(found, metric, given or {}, {}, change="50%").given)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("times", [(2, 1, 1, 1), (1, 1, 1, 1)])
def test_no_worker_stays_overloaded_with_zipf_clients(seed: int, times: tuple[int, ...]) -> None:
    """Zipf clients at 80 % of what four workers can do; a busy share says no more than 1 of one that has too much."""
    draw, names = random.Random(seed), "abcd"
    natural = "".join(draw.choices(names, k=256))
    packets = [0.0] * 256
    for rank in range(1, 1025):
        packets[draw.randrange(256)] += 1 / rank
    can = {name: 0.8**-1 * sum(packets) / sum(1 / t for t in times) / t for name, t in zip(names, times, strict=True)}
    given: dict[int, str] = {}
    waited: Mapping[str, int] = {}
    moved: list[int] = []
    for _ in range(60):
        owners = "".join(given.get(slot, own) for slot, own in enumerate(natural))
        has = {n: sum(p for p, own in zip(packets, owners, strict=True) if own == n) for n in names}
        metric = {name: min(has[name] / can[name], 1.0) for name in names}
        found = decided(counted(owners, packets, natural), metric, given, waited, tolerance="5%")
        given, waited = dict(found.given), found.waited
        moved.append(len(found.moved))
    assert max(metric.values()) < 0.9, metric
    assert not any(moved[-20:]), "it comes to rest"


def test_slots_leave_the_backend_with_the_highest_metric() -> None:
    found = moves(counted("aaaabbbb"), {"a": 0.9, "b": 0.3})
    assert set(found) <= {0, 1, 2, 3} and 1 <= len(found) <= 2 and set(found.values()) == {"b"}
    assert moves(counted("aaaabbbb"), {"a": 0.31, "b": 0.3}) == {}
    assert moves(counted("aaaabbbb", [0.0] * 8), {"a": 0.9, "b": 0.3}) != {}, "nobody asks, but it is busy"
    assert moves(counted("aaaabbbb", out="b"), {"a": 0.9, "b": 0.3}) == {}
    assert moves(counted("cccccccc", natural="aaaabbbb", out="c"), {"a": 0.9, "b": 0.3}) == {}, "neither has a slot"


RULES = SpillRules("z", above=0.8, below=0.6, change=0.5)


def spilt(
    found: PoolCounts, metric: dict[str, float], given: dict[int, str] | None = None, most: int = 100
) -> dict[int, str]:
    found = PoolCounts(found.packets, found.owners, found.natural, {**found.weights, "z": 1})
    return dict(decide_spill([found], given or {}, metric, RULES, most).given)


def test_a_busy_backend_spills_and_a_quiet_one_gets_back() -> None:
    found = spilt(counted("aaaabbbb"), {"a": 1.0, "b": 0.7, "z": 0.1})
    assert set(found) == {0} and set(found.values()) == {"z"}, "to the middle of 0.7: 30 % of four slots"
    assert set(spilt(counted("aaaabbbb"), {"a": 9.0, "b": 0.7})) == {0, 1}, "half at most"
    assert spilt(counted("aaaabbbb"), {"a": 9.0, "b": 0.7}, most=1).keys() == {0}
    away = counted("zzaabbbb", natural="aaaabbbb")
    for value, after in ((0.7, {0: "z", 1: "z"}), (0.65, {0: "z", 1: "z"}), (0.59, {0: "z"}), (0.3, {1: "z"})):
        assert spilt(away, {"a": value, "b": 0.7}, {0: "z", 1: "z"}) == after, value
    assert spilt(counted("zaaabbbb", natural="aaaabbbb"), {"a": 0.0, "b": 0.7}, {0: "z"}) == {}


def test_a_backend_never_gives_all_and_a_full_one_gets_no_more() -> None:
    assert spilt(counted("abbb"), {"a": 9.0, "b": 0.7}) == {}
    assert spilt(counted("aaaabbbb"), {"a": 1.0, "b": 0.7, "z": 1.0}) == {}, "it bears as much"
    assert len(spilt(counted("aaaabbbb"), {"a": 1.0, "b": 0.7, "z": 0.9})) == 1, "all are busy, it less so"
    found = spilt(counted("zaaaabbbb", natural="aaaaabbbb"), {"a": 9.0, "b": 0.7, "z": 0.4}, {0: "z"})
    assert len(found) == 2, "one slot makes it half as busy as it may be: there is room for one more"
    away = counted("zzaabbbb", natural="aaaabbbb")
    assert len(spilt(away, {"a": 0.75, "z": 0.9}, {0: "z", 1: "z"})) == 1, "it is busy, and whose slots it has is not"
    assert len(spilt(away, {"a": 0.75, "z": 0.8}, {0: "z", 1: "z"})) == 2, "it is not above the level"
    assert len(spilt(away, {"a": 0.85, "z": 0.88}, {0: "z", 1: "z"})) == 2, "about the same"
    assert spilt(counted("zaaabbbb", natural="aaaabbbb"), {"a": 0.1, "z": 0.9}, {0: "z"}) == {}
    assert spilt(counted("aaaabbbb"), {"b": 0.7}) == {}, "nothing is known of a"
    assert spilt(counted("aaaabbbb", [0.0] * 8), {"a": 1.0}) != {}


def test_the_fewest_sufficient_slots_are_spilled() -> None:
    found = spilt(counted("aaaaa", [50.0, 20.0, 10.0, 10.0, 10.0]), {"a": 1.0})
    assert set(found) == {1, 2}, "30 of 100: the largest that fit"
    found = spilt(counted("aa", [50.0, 50.0]), {"a": 1.0})
    assert len(found) == 1, "one at least"
