# SPDX-License-Identifier: Apache-2.0
"""What the agent decides, by simulated time: whatever the observations, no pool is emptied and nobody stays out for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest

from dnsteer.agent.effect import with_decisions
from dnsteer.agent.health_decision import IN_MOTION, STEPS, Decision, PoolHealth, PoolRules, decide
from dnsteer.slots.maintenance import DRAINED, NO_OVERLAY, Maintenance, Overlay
from dnsteer.slots.owners import owners

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
NAMES = ("a", "b", "c", "d", "e")


def rules(panic: float = 0.5, slow_start: float = 0.0, names: tuple[str, ...] = NAMES, keep: int = 0) -> PoolRules:
    return PoolRules("p", dict.fromkeys(names, 1), panic, slow_start, keep_at_least=keep)


class Pool:
    """A pool whose overlay follows the decisions, one a second."""

    def __init__(self, of: PoolRules, overlay: Overlay = NO_OVERLAY) -> None:
        self.rules, self.overlay, self.now = of, overlay, BEGIN
        self.decision = Decision(())

    def step(
        self, *unhealthy: str, seconds: float = 1, recovering: str = "", unproven: str = "", unknown: str = ""
    ) -> set[str]:
        """Let time pass, decide, and return who is fully out for its health. Who is named first failed first."""
        self.now += timedelta(seconds=seconds)
        why = {name: f"{name} is ill" for name in unhealthy}
        health = PoolHealth(why, {*recovering}, {*unproven}, {*unknown})
        self.decision = decide(self.rules, self.overlay.of("p"), health, "agent", self.now)
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


def test_backends_come_back_one_at_a_time() -> None:
    pool = Pool(rules())
    pool.step("a", "c")
    assert pool.step() == {"c"}
    assert pool.decision.waiting == ("c",)
    assert pool.step() == set()


def test_no_backend_comes_back_while_another_fails() -> None:
    pool = Pool(rules())
    pool.step("a")
    assert pool.step("b") == {"a", "b"}
    assert pool.step("b") == {"b"}


def test_waiting_backends_come_back_when_others_fail() -> None:
    """Else more would be out than may be, although those that are healthy are enough."""
    pool = Pool(rules(slow_start=30))
    pool.step("a", "b")
    assert pool.step("c", "d") == {"c", "d"}
    assert pool.gone().keys() == {"c", "d"}


def test_failing_backends_stay_out_when_others_fail() -> None:
    """Two are killed, and out; then a third, and at last the fourth, which stays: no other passes."""
    pool = Pool(rules(names=("a", "b", "c", "d")))
    assert pool.step("a", "b") == {"a", "b"}
    assert pool.step("a", "b", "c", seconds=60) == {"a", "b", "c"}
    assert not pool.decision.panics
    assert pool.step("a", "b", "c", "d", seconds=60) == {"a", "b", "c"}
    assert (pool.decision.panics, pool.decision.spared) == (True, ("d",))
    assert pool.step("a", "c", "d") == {"a", "c"} | {"d"}, "b passes, so d is dead indeed"
    assert not pool.decision.panics


def test_a_backend_not_proven_to_fail_stays_in_service() -> None:
    """An interruption of the switch ends before all backends are unhealthy."""
    pool = Pool(rules())
    assert pool.step("a", "b", unproven="ab") == set()
    assert (pool.decision.panics, pool.decision.spared) == (False, ("a", "b"))
    assert pool.step("a", "b", unproven="b") == {"a"}
    pool = Pool(rules(panic=1.0))
    assert pool.step("a", unproven="a") == {"a"}, "with 100% the checks are trusted"


@pytest.mark.parametrize(("panic", "out"), [(0.0, 4), (0.5, 4), (0.99, 4), (1.0, 5)])
def test_all_backends_may_be_out_only_at_100_percent(panic: float, out: int) -> None:
    pool = Pool(rules(panic))
    for count in range(len(NAMES)):
        assert len(pool.step(*NAMES[: count + 1], seconds=60)) == min(count + 1, out)
    assert pool.decision.panics == (panic < 1)


def test_all_backends_failing_at_once_is_a_panic_and_moves_nothing() -> None:
    pool = Pool(rules())
    assert pool.step(*NAMES) == set()
    assert pool.decision.panics


def test_after_a_panic_a_recovering_backend_stays() -> None:
    """Of four that fail together and recover together, none moves."""
    pool = Pool(rules())
    pool.step(*NAMES)
    assert pool.step(*NAMES, recovering="abcd") == set()
    assert pool.step("a", "b", "c", "e", recovering="abc") == {"e"}, "d passes, so e is dead indeed"
    assert pool.decision.spared == ("a", "b", "c")
    assert pool.step("b", "c", "e", recovering="c") == {"b", "e"}, "b has failed again"
    assert pool.step("b", "e") == {"b", "e"}


def test_no_backend_goes_out_before_another_is_known_to_pass() -> None:
    pool = Pool(rules(names=("a", "b", "c")))
    assert pool.step("a", unknown="bc") == set()
    assert (pool.decision.panics, pool.decision.spared) == (False, ("a",))
    assert pool.step("a", unknown="b") == {"a"}


def test_keep_at_least_keeps_the_backends_that_failed_last() -> None:
    pool = Pool(rules(keep=3))
    assert pool.step("b", "a", "d") == {"b", "a"}
    assert (pool.decision.kept, pool.decision.spared) == (("d",), ("d",))
    assert pool.step("b", "a", "d", "e", seconds=60) == {"b", "a"}
    assert pool.decision.kept == ("d", "e")
    assert pool.step("b", "d", "e") == {"b", "d"}, "a is healthy again and back, so the first of them goes out"
    assert (set(pool.gone()), pool.decision.kept) == ({"b", "d"}, ("e",))


def test_below_keep_at_least_only_healthy_backends_come_back_at_once() -> None:
    pool = Pool(rules(slow_start=30, keep=4))
    pool.step("a")
    assert pool.step() == set() and pool.gone() == {"a": 953}
    assert pool.step("b") == {"b"}
    assert pool.gone() == {"b": DRAINED}, "a has all its slots at once"
    drained = Overlay((*pool.overlay, people("c")))
    pool.overlay = drained
    assert pool.step("b") == {"b"}, "too few, but by people"
    assert pool.step() == set()
    assert pool.gone() == {}, "no slow start while too few are left"


def test_the_last_failing_backend_is_replaced_by_a_recovered_one() -> None:
    pool = Pool(rules(names=("a", "b"), slow_start=30))
    pool.step("a")
    assert pool.step("b") == {"b"}
    assert pool.gone() == {"b": DRAINED}


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


def test_the_next_backend_waits_for_the_slow_start_of_the_first() -> None:
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
def test_setting_the_clock_does_not_change_the_slow_start(days: int) -> None:
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
    weight = 0 if kind == "weight" else None
    return Maintenance("p", backend, kind, BEGIN.isoformat(), "somebody@host", weight=weight)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["drain", "down", "weight"])
def test_operator_entries_stay_and_do_not_count(kind: str) -> None:
    pool = Pool(rules(), Overlay((people("a", kind), people("b", "down"))))
    assert pool.step("c") == {"c"}
    assert pool.step("c", "d") == {"c", "d"}
    assert pool.step("c", "d", "e") == {"c", "d"}, "a and b pass, but people have them out"
    assert (pool.decision.panics, pool.decision.idle) == (True, ("a", "b"))
    assert [e.kind for e in pool.overlay][:2] == [kind, "down"]


def test_a_backend_returning_gradually_counts_as_in_service() -> None:
    back = replace(people("a"), returns=BEGIN.isoformat(), over=60, gone=500)
    pool = Pool(rules(names=("a", "b")), Overlay((back,)))
    assert pool.step("b") == {"b"}
    assert not pool.decision.panics


def test_a_backend_with_an_operator_weight_counts() -> None:
    """By the spec its weight is 0, so it is nobody's business until people give it one."""
    given = replace(people("b", "weight"), weight=5)
    of = PoolRules("p", {"a": 1, "b": 0}, 0.5, 0.0)
    assert Pool(of).step("b") == set()
    assert Pool(of).step("a") == set()
    pool = Pool(of, Overlay((given,)))
    assert pool.step("b") == {"b"}
    pool.overlay = pool.overlay.without([given])
    assert pool.step("b") == set()


def test_several_backends_return_together_while_few_slots_move() -> None:
    names = tuple(f"b{n}" for n in range(20))
    pool = Pool(rules(names=names, slow_start=5))
    pool.step(*names[:4])
    pool.step(*names[:2])
    assert len(pool.decision.waiting) == 1, "one of 17"
    for _ in range(20):
        pool.step()
    assert pool.gone() == {}
    pool.step(names[0], names[1])
    pool.step()
    assert pool.decision.waiting == () and len(pool.gone()) == 2, "two of 20"


def test_100_of_200_are_back_in_minutes() -> None:
    """The figure in docs/agent.md. One by one it is 52 minutes."""
    names = tuple(f"b{n}" for n in range(200))
    pool = Pool(rules(names=names, slow_start=30))
    pool.step(*names[:100])
    seconds = most = 0
    while pool.overlay:
        pool.step()
        seconds += 1
        moving = [e for e in pool.overlay if e.returns]
        serving = len(names) - len(pool.overlay.entries)
        most = max(most, len(moving))
        assert len(moving) <= IN_MOTION * (serving + len(moving)) + 1e-9
    assert (seconds, most) == (217, 18)


def test_an_undrained_failing_backend_stays_out() -> None:
    pool = Pool(rules(), Overlay((people("a", "down"),)))
    pool.step("a")
    pool.overlay = pool.overlay.without([people("a", "down")])
    assert pool.out() == {"a"}


def test_backends_of_other_pools_and_without_weight_are_left_alone() -> None:
    other = Maintenance("q", "a", "health", BEGIN.isoformat(), "agent")
    pool = Pool(rules(names=("a", "b", "c")), Overlay((other,)))
    assert pool.step("a", "z") == {"a"}
    assert other in pool.overlay


def test_entries_of_backends_without_checks_are_removed() -> None:
    left = Maintenance("p", "gone", "health", BEGIN.isoformat(), "agent")
    pool = Pool(rules(), Overlay((left,)))
    assert pool.step() == set()


def test_a_service_counts_backends_out_of_the_pool_as_out() -> None:
    of_pool = Maintenance("p", "a", "health", BEGIN.isoformat(), "agent")
    given = replace(people("c", "weight"), weight=5)
    of = PoolRules("p", dict.fromkeys(("a", "b", "c"), 1), 0.5, 0.0, service="853/tcp")
    entries = (of_pool, given)
    first = decide(of, entries, PoolHealth({"b": "refused"}), "agent", BEGIN)
    assert [(e.backend, e.service) for e in first.entries] == [("b", "853/tcp")]
    second = decide(
        of,
        (*entries, *first.entries),
        PoolHealth({"b": "refused", "c": "refused"}),
        "agent",
        BEGIN + timedelta(seconds=60),
    )
    assert second.entries == first.entries and second.panics, "c alone is left"


@pytest.mark.parametrize(
    ("dead", "alone", "kept", "lost"),
    [(2, 1.25, 1.25, 0), (4, 1.67, 1.67, 0), (5, 2, 1.67, 17), (7, 3.33, 1.67, 50), (9, 10, 1.67, 83)],
)
def test_the_figures_of_keep_at_least(dead: int, alone: float, kept: float, lost: int) -> None:
    """Those in docs/agent.md: of ten backends, how much the others get, and what is lost."""
    names = tuple(f"b{n}" for n in range(10))
    for keep, load, share in ((0, alone, 0), (6, kept, lost)):
        pool = Pool(rules(names=names, keep=keep))
        for count in range(dead):
            pool.step(*names[: count + 1], seconds=60)
        held = Counter(owners(dict.fromkeys(names, 1), 1024, [], pool.overlay.of("p"), drop=True))
        assert 100 * sum(held[name] for name in names[:dead]) / 1024 == pytest.approx(share, abs=1)
        assert held[names[-1]] / 102.4 == pytest.approx(load, rel=0.02)


@pytest.mark.parametrize("unproven", ["", "abcde"])
def test_successive_drains_in_a_panic_take_no_other_backend_out(unproven: str) -> None:
    """All fail, and all serve: whom people drain and undrain in turn is in service again."""
    pool = Pool(rules())
    pool.step(*NAMES, unproven=unproven)
    for name in NAMES:
        pool.overlay = pool.overlay.put(people(name))
        assert pool.step(*NAMES, unproven=unproven) == set()
        pool.overlay = Overlay([e for e in pool.overlay if e.kind != "drain"])
        assert pool.step(*NAMES, unproven=unproven) == set()
