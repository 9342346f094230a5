"""What the agent decides, by simulated time: whatever the observations, no pool is emptied and nobody stays out for ever."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dnsteer.agent.decide import STEPS, Decision, PoolRules, decide
from dnsteer.agent.effect import with_decisions
from dnsteer.slots.maintenance import DRAINED, NO_OVERLAY, Maintenance, Overlay

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
NAMES = ("a", "b", "c", "d", "e")


def rules(panic: float = 0.5, slow_start: float = 0.0, names: tuple[str, ...] = NAMES) -> PoolRules:
    return PoolRules("p", names, panic, slow_start)


class Pool:
    """A pool whose overlay follows the decisions, one a second."""

    def __init__(self, of: PoolRules, overlay: Overlay = NO_OVERLAY) -> None:
        self.rules, self.overlay, self.now = of, overlay, BEGIN
        self.decision = Decision(())

    def step(self, *unhealthy: str, seconds: float = 1) -> set[str]:
        """Let time pass, decide, and return who is fully out for its health."""
        self.now += timedelta(seconds=seconds)
        why = {name: f"{name} is ill" for name in unhealthy}
        self.decision = decide(self.rules, self.overlay.of("p"), why, "agent", self.now)
        self.overlay = with_decisions(self.overlay, {"p": self.decision})
        return self.out()

    def out(self) -> set[str]:
        return {e.backend for e in self.overlay if e.kind == "health" and e.gone == DRAINED}

    def gone(self) -> Mapping[str, int]:
        return {e.backend: e.gone for e in self.overlay if e.kind == "health"}


def test_failures_count_at_once_and_say_why() -> None:
    pool = Pool(rules())
    assert pool.step("a", "c") == {"a", "c"}
    assert [(e.backend, e.note, e.by) for e in pool.overlay] == [("a", "a is ill", "agent"), ("c", "c is ill", "agent")]


def test_one_comes_back_at_a_time() -> None:
    pool = Pool(rules())
    pool.step("a", "c")
    assert pool.step() == {"c"}
    assert pool.decision.waiting == ("c",)
    assert pool.step() == set()


def test_nobody_comes_back_in_the_moment_of_a_failure() -> None:
    pool = Pool(rules())
    pool.step("a")
    assert pool.step("b") == {"a", "b"}
    assert pool.step("b") == {"b"}


def test_those_who_wait_come_back_when_others_fail() -> None:
    """Else more would be out than may be, although those that are healthy are enough."""
    pool = Pool(rules(slow_start=30))
    pool.step("a", "b")
    assert pool.step("c", "d") == {"c", "d"}
    assert pool.gone().keys() == {"c", "d"}


def test_panic_brings_all_back_at_once() -> None:
    pool = Pool(rules())
    pool.step("a", "b")
    assert pool.step("a", "b", "c") == set()
    assert pool.decision.panics
    assert pool.step("a", "b") == {"a", "b"}, "the panic is over"


@pytest.mark.parametrize(("panic", "most"), [(0.0, 0), (0.5, 2), (0.8, 4), (1.0, 5)])
def test_the_threshold_is_the_most_that_may_be_out(panic: float, most: int) -> None:
    for count in range(len(NAMES) + 1):
        assert len(Pool(rules(panic)).step(*NAMES[:count])) == (count if count <= most else 0)


def test_a_pool_of_one_backend_keeps_it() -> None:
    assert Pool(rules(names=("a",))).step("a") == set()


def test_slow_start_gives_slots_back_in_steps() -> None:
    pool = Pool(rules(slow_start=10))
    pool.step("a")
    gone = []
    for _ in range(12):
        pool.step()
        gone.append(pool.gone().get("a", 0))
    assert gone[0] < DRAINED and gone[-1] == 0
    assert all(a > b for a, b in pairwise(gone[:11])), gone
    assert len(set(gone)) <= STEPS + 1


def test_a_failure_during_slow_start_takes_it_all_away_again() -> None:
    pool = Pool(rules(slow_start=10))
    pool.step("a")
    pool.step()
    pool.step(seconds=4)
    assert 0 < pool.gone()["a"] < DRAINED
    assert pool.step("a") == {"a"}
    (entry,) = pool.overlay
    assert (entry.returns, entry.over, entry.note) == ("", 0, "a is ill")


def test_the_next_one_waits_for_the_slow_start_of_the_first() -> None:
    pool = Pool(rules(slow_start=5))
    pool.step("a", "b")
    for _ in range(5):
        pool.step()
        assert pool.gone()["b"] == DRAINED
    pool.step()
    assert "a" not in pool.gone()
    pool.step()
    assert pool.gone()["b"] < DRAINED


@pytest.mark.parametrize("days", [1, -1])
def test_a_clock_that_is_set_neither_hurries_nor_takes_back(days: int) -> None:
    pool = Pool(rules(slow_start=10))
    pool.step("a")
    for _ in range(4):
        pool.step()
    before = pool.gone()["a"]
    pool.now += timedelta(days=days)
    pool.step()
    assert 0 < before - pool.gone()["a"] <= -(-DRAINED // 11)
    for _ in range(7):
        pool.step()
    assert pool.gone() == {}


def people(backend: str, kind: str = "drain") -> Maintenance:
    return Maintenance("p", backend, kind, BEGIN.isoformat(), "somebody@host")  # type: ignore[arg-type]


def test_what_people_did_stays_and_does_not_count() -> None:
    pool = Pool(rules(), Overlay((people("a"), people("b", "down"))))
    assert pool.step("c") == {"c"}, "one of three"
    assert pool.step("c", "d") == set(), "two of three"
    assert pool.decision.panics
    assert [e.kind for e in pool.overlay] == ["drain", "down"]


def test_one_that_people_have_out_does_not_come_back_ill() -> None:
    pool = Pool(rules(), Overlay((people("a", "down"),)))
    pool.step("a")
    pool.overlay = pool.overlay.without([people("a", "down")])
    assert pool.out() == {"a"}


def test_backends_of_other_pools_and_without_weight_are_left_alone() -> None:
    other = Maintenance("q", "a", "health", BEGIN.isoformat(), "agent")
    pool = Pool(rules(names=("a", "b", "c")), Overlay((other,)))
    assert pool.step("a", "z") == {"a"}
    assert other in pool.overlay


def test_an_entry_of_a_backend_that_the_spec_no_longer_probes_goes() -> None:
    left = Maintenance("p", "gone", "health", BEGIN.isoformat(), "agent")
    pool = Pool(rules(), Overlay((left,)))
    assert pool.step() == set()


ILL = st.lists(st.sets(st.sampled_from(NAMES)), min_size=1, max_size=40)


@given(
    ill=ILL,
    panic=st.sampled_from([0.0, 0.2, 0.5, 0.79, 1.0]),
    slow_start=st.sampled_from([0.0, 0.5, 3.0, 30.0]),
    drained=st.sets(st.sampled_from(NAMES), max_size=3),
    seconds=st.lists(st.sampled_from([0.0, 0.1, 1.0, 7.0, -5.0]), min_size=40, max_size=40),
)
def test_whatever_is_observed(
    ill: list[set[str]], panic: float, slow_start: float, drained: set[str], seconds: list[float]
) -> None:
    by_people = tuple(people(name) for name in sorted(drained))
    pool = Pool(rules(panic, slow_start), Overlay(by_people))
    counted = set(NAMES) - drained
    for unhealthy, passed in zip(ill, seconds, strict=False):
        before, out_before = pool.gone(), pool.out()
        out = pool.step(*sorted(unhealthy), seconds=passed)
        after = pool.gone()
        too_many = len(unhealthy & counted) > panic * len(counted)
        assert pool.decision.panics == too_many
        assert tuple(e for e in pool.overlay if e.kind != "health") == by_people
        if too_many:
            assert not after
            continue
        assert unhealthy <= out, "who fails is out at once"
        back = [name for name in before if after.get(name, 0) < before[name]]
        fails = bool(unhealthy - out_before)
        assert len(set(after) & counted) <= panic * len(counted), "never more than may be"
        if len((set(before) | unhealthy) & counted) <= panic * len(counted):
            assert len(back) <= (0 if fails else 1), "one at a time, and none in the moment of a failure"
    for _ in range(int(len(NAMES) * (slow_start + 2)) + 2):
        pool.step()
    assert pool.gone() == {}, "who is healthy long enough is back"
