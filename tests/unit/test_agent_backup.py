# SPDX-License-Identifier: Apache-2.0
"""Backups by simulated time: a pool is never without backends while some work, and backups leave when enough are back."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dnsteer.agent.effect import with_decisions
from dnsteer.agent.health_decision import Decision, PoolHealth, PoolRules, decide_with_backup
from dnsteer.slots.maintenance import DRAINED, NO_OVERLAY, Maintenance, Overlay
from dnsteer.slots.owners import owners
from dnsteer.status.pools import backups_in_use

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
OWN = ("a", "b", "c")
STANDBY = {"s": 1, "t": 2}


class Pool:
    """A pool with a backup whose overlay follows the decisions, one a second."""

    def __init__(self, below: int = 1, slow_start: float = 0.0, panic: float = 0.5, *entries: Maintenance) -> None:
        self.rules = PoolRules("p", dict.fromkeys(OWN, 1), panic, slow_start, STANDBY, below)
        self.overlay, self.now = Overlay(entries), BEGIN
        self.decision = Decision(())

    def step(self, unhealthy: str = "", seconds: float = 1) -> Counter[str]:
        """Let time pass, decide, and return how many of 64 slots each backend has."""
        self.now += timedelta(seconds=seconds)
        health = PoolHealth({name: f"{name} is ill" for name in unhealthy})
        self.decision = decide_with_backup(self.rules, self.overlay.of("p"), health, "agent", self.now)
        self.overlay = with_decisions(self.overlay, {"p": self.decision})
        if not self.decision.is_unfinished:  # then nobody decides again until a check turns
            later = decide_with_backup(self.rules, self.overlay.of("p"), health, "agent", self.now + timedelta(hours=1))
            assert later.entries == self.decision.entries
        return self.slots()

    def slots(self) -> Counter[str]:
        weights = {**dict.fromkeys(OWN, 1), **dict.fromkeys(STANDBY, 0)}
        return Counter(owners(weights, 64, [], self.overlay.of("p"), drop=True))

    def backups(self) -> set[str]:
        return {e.backend for e in self.overlay if e.kind == "backup"}


def people(backend: str, kind: str = "drain", weight: int | None = None) -> Maintenance:
    return Maintenance("p", backend, kind, BEGIN.isoformat(), "somebody@host", weight=weight)  # type: ignore[arg-type]


def test_backups_join_at_once_by_weight_when_none_is_left_without_panic() -> None:
    pool = Pool()
    assert set(pool.step("ab")) == {"c"}
    held = pool.step("abc")
    assert (set(held), pool.decision.panics) == ({"s", "t"}, False)
    assert held["t"] == pytest.approx(2 * held["s"], abs=2)
    assert [(e.backend, e.weight, e.note, e.by) for e in pool.overlay if e.kind == "backup"] == [
        ("s", 1, "0 of 3 backends in service", "agent"),
        ("t", 2, "0 of 3 backends in service", "agent"),
    ]


def test_below_a_number_backups_share_with_the_remaining_backends() -> None:
    pool = Pool(below=2)
    assert set(pool.step("a")) == {"b", "c"}
    assert set(pool.step("ab")) == {"c", "s", "t"}


def test_backups_leave_over_the_slow_start_when_enough_have_all_their_slots() -> None:
    pool = Pool(below=1, slow_start=10)
    pool.step("abc")
    seen = []
    for _ in range(60):
        held = pool.step()
        assert sum(held.values()) == 64
        seen.append(held["s"] + held["t"])
        if "c" not in held and "b" not in held and any(e.backend == "a" for e in pool.overlay):
            assert pool.backups() == {"s", "t"} and not any(e.returns for e in pool.overlay if e.kind == "backup")
    left = [n for n in seen if n < seen[0]]
    assert len(set(seen)) > 5 and seen[-1] == 0 and left == sorted(left, reverse=True)
    assert pool.overlay == NO_OVERLAY


def test_a_leaving_backup_returns_at_once_when_needed() -> None:
    pool = Pool(below=3, slow_start=30)
    pool.step("a")
    for _ in range(40):
        pool.step()
    assert 0 < pool.overlay.entries[0].gone < DRAINED and pool.overlay.entries[0].returns
    before = pool.now
    pool.step("b")
    found = [e for e in pool.overlay if e.kind == "backup"]
    assert all(e.gone == DRAINED and not e.returns for e in found) and len(found) == 2
    assert all(datetime.fromisoformat(e.since) > before for e in found)


def test_a_backup_that_fails_leaves_at_once_and_the_last_one_stays() -> None:
    pool = Pool()
    pool.step("abc")
    assert set(pool.step("abct")) == {"s"}
    held = pool.step("abcst")
    assert (set(held), pool.decision.panics) == ({"s"}, True)
    assert set(pool.step("abcs")) == {"t"}


def test_all_backends_and_backups_failing_at_once_is_a_panic() -> None:
    pool = Pool()
    assert (set(pool.step("abcst")), pool.decision.panics) == (set(OWN), True)


def test_a_failing_backup_stays_while_operators_have_all_others_out() -> None:
    pool = Pool(1, 0.0, 0.5, *(people(name) for name in OWN))
    assert set(pool.step()) == {"s", "t"}
    assert (set(pool.step("st")), pool.decision.panics) == ({"s", "t"}, True)


def test_a_weighted_passing_backup_prevents_a_panic() -> None:
    pool = Pool(1, 0.0, 0.5, people("s", "weight", 5), people("t"))
    assert set(pool.step("abc")) == {"s"}
    assert not pool.decision.panics


def test_the_backup_counts_for_the_load() -> None:
    pool = Pool(below=2)
    pool.rules = replace(pool.rules, keep_at_least=2)
    assert set(pool.step("ab")) == {"c", "s", "t"}
    assert set(pool.step("abt")) == {"c", "s"}
    assert set(pool.step("abcs")) == {"t", "c"}, "one and one that fails"
    assert pool.decision.kept == ("c",)


@pytest.mark.parametrize("entry", [people("a"), people("a", "down"), people("a", "weight", 0)])
def test_backends_taken_out_by_operators_do_not_count_as_in_service(entry: Maintenance) -> None:
    pool = Pool(3, 0.0, 0.5, entry)
    assert set(pool.step()) == {"b", "c", "s", "t"}
    pool.overlay = pool.overlay.without([entry])
    assert set(pool.step()) == set(OWN)


def test_backups_with_operator_entries_are_left_alone() -> None:
    for entry in (people("s"), people("s", "down"), people("s", "weight", 5)):
        pool = Pool(1, 0.0, 0.5, entry)
        pool.step("abc")
        assert pool.backups() == {"t"}
        assert entry in pool.overlay.entries


def test_a_changed_backup_weight_in_the_spec_is_applied() -> None:
    pool = Pool()
    pool.step("abc")
    pool.rules = PoolRules("p", dict.fromkeys(OWN, 1), 0.5, 0.0, {"s": 7}, 1)
    assert set(pool.step("abc")) == {"s"}
    assert [(e.backend, e.weight) for e in pool.overlay if e.kind == "backup"] == [("s", 7)]


def test_the_status_says_since_when_and_why() -> None:
    pool = Pool(below=2)
    pool.step("ab")
    said = backups_in_use(pool.overlay)
    assert said == ["pool p: its backup is in use since 2026-01-01 00:00 UTC (1 of 3 backends in service): s, t"]
    assert backups_in_use(NO_OVERLAY) == []


@settings(max_examples=150, deadline=None)
@given(
    ill=st.lists(st.sets(st.sampled_from([*OWN, *STANDBY])), min_size=1, max_size=25),
    below=st.integers(1, 3),
    slow_start=st.sampled_from([0.0, 3.0, 12.0]),
    panic=st.sampled_from([0.0, 0.5, 1.0]),
    drained=st.sets(st.sampled_from(OWN), max_size=3),
    seconds=st.lists(st.sampled_from([0.0, 0.3, 1.0, 5.0, -4.0]), min_size=25, max_size=25),
)
def test_a_pool_is_never_empty_while_a_backend_passes(
    ill: list[set[str]], below: int, slow_start: float, panic: float, drained: set[str], seconds: list[float]
) -> None:
    by_people = [people(name) for name in sorted(drained)]
    pool = Pool(below, slow_start, panic, *by_people)
    for unhealthy, passed in zip(ill, seconds, strict=False):
        held = pool.step("".join(sorted(unhealthy)), passed)
        works = set(STANDBY) - unhealthy
        assert [e for e in pool.overlay if e.kind == "drain"] == by_people
        assert pool.decision.panics or not pool.backups() & unhealthy
        if works:
            assert held and not drained & set(held), "somebody serves, and nobody who is out"
            assert not set(held) & unhealthy, "nobody who is ill serves while somebody works"
            if len(set(OWN) - unhealthy - drained) < below:
                assert works <= set(held)
        elif panic < 1 and (set(OWN) - drained or pool.backups()):
            assert held, "somebody serves whatever the checks say"
    for _ in range(int(3 * (slow_start + 2) + slow_start) + 4):
        held = pool.step()
    assert [e for e in pool.overlay if e.kind == "health"] == []
    if len(OWN) - len(drained) >= below:
        assert (pool.backups(), set(held)) == (set(), set(OWN) - drained)
    else:
        assert set(held) == {*OWN, *STANDBY} - drained
