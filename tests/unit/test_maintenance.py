# SPDX-License-Identifier: Apache-2.0
"""Maintenance: each entry moves the slots of its own backend and no others, and back in is exactly back."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dnsteer.deploy.times import expire
from dnsteer.slots.assignment import assign
from dnsteer.slots.maintenance import DRAINED, NO_OVERLAY, Maintenance, Overlay, marker
from dnsteer.slots.owners import owners

NAMES = [f"b{i}" for i in range(8)]
START = datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
MANY = settings(max_examples=80, deadline=None)


def out(backend: str, gone: int = DRAINED, kind: str = "down", **more: object) -> Maintenance:
    """Maintenance of a backend of pool `p`."""
    return Maintenance("p", backend, kind, START.isoformat(), "op@host", gone=gone, **more)  # type: ignore[arg-type]


class Pool:
    """A random pool: weights, slots, members that the spec has down, and the order in which backends are taken out."""

    def __init__(self, weights: dict[str, int], slots: int, down: list[str], order: list[str]) -> None:
        self.weights, self.slots, self.down, self.order = weights, slots, down, order

    def __repr__(self) -> str:
        return f"Pool({self.weights}, {self.slots}, {self.down}, {self.order})"

    def table(self, maintenance: Sequence[Maintenance], *, drop: bool = False) -> tuple[str, ...]:
        """Who has each slot."""
        return owners(self.weights, self.slots, self.down, maintenance, drop=drop)

    def takers(self, away: Sequence[str]) -> list[str]:
        """Who can take slots over while *away* are out."""
        return [n for n, w in self.weights.items() if w and n not in away and n not in self.down]


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    names = NAMES[: draw(st.integers(1, 8))]
    weights = {n: draw(st.integers(0, 6)) for n in names}
    weights[names[0]] = max(1, weights[names[0]])
    down = [n for n in names if draw(st.integers(0, 5)) == 0]
    return Pool(weights, draw(st.sampled_from([8, 16, 64])), down, draw(st.permutations(names)))


def differing(one: Sequence[str], other: Sequence[str]) -> set[int]:
    return {i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b}


@MANY
@given(pools(), st.integers(0, 7))
def test_taking_one_more_out_moves_only_its_own_share(pool: Pool, before: int) -> None:
    *earlier, last = pool.order[: before + 1]
    was = pool.table([out(n) for n in earlier])
    now = pool.table([out(n) for n in (*earlier, last)])
    own = {i for i, name in enumerate(was) if name == last}
    takers = pool.takers([*earlier, last])
    if takers:
        assert differing(was, now) == own
        assert {now[i] for i in own} <= set(takers)
    else:
        assert now == was


@MANY
@given(pools())
def test_returning_all_in_any_order_restores_the_base(pool: Pool) -> None:
    first = pool.table([])
    overlay = Overlay()
    for name in pool.order:
        overlay = overlay.put(out(name))
        pool.table(overlay.of("p"))
    for name in sorted(pool.order, reverse=True):
        found = overlay.find("p", name, "down")
        assert found is not None
        overlay = overlay.without([found])
    assert not overlay
    assert pool.table(overlay.of("p")) == first
    if not pool.down:
        assert first == assign(pool.weights, pool.slots)


@MANY
@given(pools(), st.integers(1, 8))
def test_a_backend_that_is_out_has_no_slots_and_shares_are_by_weight(pool: Pool, number: int) -> None:
    away = pool.order[:number]
    takers = pool.takers(away)
    if not takers:
        return
    held = Counter(pool.table([out(n) for n in away]))
    assert not set(held) & set(away)
    assert not set(held) & set(pool.down)
    total = sum(pool.weights[n] for n in takers)
    due = {n: pool.slots * pool.weights[n] / total for n in takers}
    # A slot that somebody who is up has never moves, so rounding of before may stay: a slot for each time of rounding.
    above = max(held[n] - due[n] for n in takers)
    assert above < 1 + 1e-9 or above <= _rounding(pool, away)


def _rounding(pool: Pool, away: Sequence[str]) -> float:
    """How much above its share a member was already before the last backend left: that stays."""
    if not away:
        return 1
    takers = pool.takers(away)
    before = Counter(pool.table([out(n) for n in away[:-1]]))
    total = sum(pool.weights[n] for n in takers)
    return max(before[n] - pool.slots * pool.weights[n] / total for n in takers)


@pytest.mark.parametrize("weights", [{"a": 1, "b": 1, "c": 2}, {"a": 3, "b": 2, "c": 1, "d": 4}, {"a": 1, "b": 5}])
def test_one_backend_out_leaves_shares_within_one_slot(weights: dict[str, int]) -> None:
    for name in weights:
        held = Counter(owners(weights, 128, [], [out(name)], drop=False))
        rest = {n: w for n, w in weights.items() if n != name}
        for n, w in rest.items():
            assert abs(held[n] - 128 * w / sum(rest.values())) < 1


@MANY
@given(pools(), st.integers(0, 7), st.lists(st.integers(0, DRAINED), min_size=2, max_size=6))
def test_a_gradual_drain_moves_each_slot_once_and_ends_as_at_once(pool: Pool, before: int, steps: list[int]) -> None:
    *earlier, last = pool.order[: before + 1]
    start = [out(n) for n in earlier]
    tables = [pool.table(start)]
    tables += [pool.table([*start, out(last, gone, "drain")]) for gone in (0, *sorted(steps), DRAINED)]
    assert tables[0] == tables[1]
    assert tables[-1] == pool.table([*start, out(last)])
    for slot in range(pool.slots):
        owner = [t[slot] for t in tables]
        assert sum(a != b for a, b in itertools.pairwise(owner)) <= 1
    own = tables[0].count(last)
    if pool.takers([*earlier, last]):
        for gone, table in zip(sorted(steps), tables[2:-1], strict=True):
            assert own - table.count(last) == -(-own * gone // DRAINED)


def test_a_gradual_drain_moves_only_its_own_slots_also_when_others_went_after_it() -> None:
    """While a drain goes on, another backend fails: the slots that this one left must not move about with each step."""
    weights = {"a": 3, "b": 2, "c": 4, "d": 1, "e": 2}
    tables = [owners(weights, 128, [], [out("a", gone, "drain"), out("b")], drop=False) for gone in range(0, 1001, 100)]
    own = {i for i, name in enumerate(tables[0]) if name == "a"}
    for one, next_one in itertools.pairwise(tables):
        assert differing(one, next_one) <= own


@MANY
@given(pools())
def test_with_all_out_keep_keeps_the_slots_and_drop_empties_them(pool: Pool) -> None:
    tables = [pool.table([out(n) for n in pool.order[:number]]) for number in range(len(pool.order) + 1)]
    all_down = next((i for i in range(len(tables)) if not pool.takers(pool.order[:i])), None)
    assert all_down is not None
    assert all(t == tables[max(0, all_down - 1)] for t in tables[max(0, all_down - 1) + (all_down > 0) :])
    for number in range(len(pool.order) + 1):
        dropped = pool.table([out(n) for n in pool.order[:number]], drop=True)
        assert dropped == (() if number >= all_down else tables[number])


def test_a_gradual_drain_leaves_the_pool_serving() -> None:
    for drop in (True, False):
        assert owners({"a": 1}, 8, [], [out("a", 999, "drain")], drop=drop) == ("a",) * 8
    assert owners({"a": 1}, 8, [], [out("a", DRAINED, "drain")], drop=True) == ()


@MANY
@given(pools(), st.integers(0, 8))
def test_maintenance_of_an_unknown_backend_changes_nothing(pool: Pool, number: int) -> None:
    known = [out(n) for n in pool.order[:number]]
    for drop in (True, False):
        table = pool.table(known, drop=drop)
        assert pool.table([out("nobody"), *known], drop=drop) == table
        assert pool.table([*known, out("nobody", 500, "drain")], drop=drop) == table


@MANY
@given(pools(), st.integers(1, 8), st.integers(0, DRAINED))
def test_drain_and_down_of_one_backend_are_as_down_alone(pool: Pool, number: int, gone: int) -> None:
    away = pool.order[:number]
    earlier = [out(n) for n in away]
    assert pool.table([*earlier, out(away[-1], gone, "drain")]) == pool.table(earlier)


@MANY
@given(
    pools(),
    st.lists(st.tuples(st.integers(0, 7), st.sampled_from(["drain", "down"]), st.integers(0, DRAINED)), max_size=5),
)
def test_no_backend_out_of_service_has_a_slot_while_another_serves(
    pool: Pool, found: list[tuple[int, str, int]]
) -> None:
    maintenance: dict[tuple[str, str], Maintenance] = {}
    for number, kind, gone in found:
        name = pool.order[number % len(pool.order)]
        maintenance.setdefault((name, kind), out(name, DRAINED if kind == "down" else gone, kind))
    away = {*pool.down, *(a.backend for a in maintenance.values() if a.gone == DRAINED)}
    table = pool.table(list(maintenance.values()))
    if pool.takers(list(away)):
        assert not away & set(table)


def test_a_backend_that_fails_while_it_is_drained_is_out_at_once() -> None:
    weights = {"a": 1, "b": 1, "c": 1}
    drain = out("a", 100, "drain")
    assert "a" in owners(weights, 16, [], [drain], drop=False)
    assert owners(weights, 16, [], [drain, out("a")], drop=False) == owners(weights, 16, [], [out("a")], drop=False)


def test_the_last_but_one_takes_over_while_it_is_drained() -> None:
    assert owners({"a": 1, "b": 1}, 8, [], [out("a", 0, "drain"), out("b")], drop=False) == ("a",) * 8


@MANY
@given(pools(), st.integers(1, 8), st.integers(0, 7), st.integers(0, DRAINED))
def test_the_overlay_marker_differs_when_the_tables_differ(pool: Pool, number: int, which: int, gone: int) -> None:
    maintenance = [out(n) for n in pool.order[:number]]
    one = maintenance[which % len(maintenance)]
    other = [a for a in maintenance if a is not one]
    slower = [replace(one, kind="drain", gone=gone) if a is one else a for a in maintenance]
    for changed in (other, slower):
        if pool.table(changed) != pool.table(maintenance):
            assert marker("digest", Overlay(tuple(changed))) != marker("digest", Overlay(tuple(maintenance)))


def test_a_drain_that_has_just_begun_is_in_the_marker() -> None:
    begun, later = out("a", 0, "drain"), out("b")
    weights = {"a": 1, "b": 1, "c": 1}
    assert owners(weights, 16, [], [begun, later], drop=False) != owners(weights, 16, [], [later], drop=False)
    assert marker("digest", Overlay((begun, later))) != marker("digest", Overlay((later,)))


TIMES = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1), timezones=st.just(timezone.utc)).map(str)
MAINTENANCE = st.builds(
    Maintenance,
    st.text(min_size=1, max_size=5),
    st.text(min_size=1, max_size=5),
    st.sampled_from(["drain", "down"]),
    TIMES,
    st.text(),
    st.text(),
    st.one_of(st.just(""), TIMES),
    st.one_of(st.integers(0, 10**6), st.floats(0, 10**6)),
    st.integers(0, DRAINED),
)


@MANY
@given(st.lists(MAINTENANCE, max_size=4))
def test_an_overlay_reads_back_as_it_was_written(maintenance: list[Maintenance]) -> None:
    overlay = Overlay(tuple(maintenance))
    again = Overlay.from_json(overlay.to_json())
    assert again == overlay
    assert marker("x", again) == marker("x", overlay)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "1",
        '"x"',
        "{}",
        "[1]",
        "[null]",
        "[[]]",
        "[{}]",
        "NaN",
        "[NaN]",
        '[{"pool":"p"}]',
        *(
            json.dumps([{**json.loads(Overlay((out("a"),)).to_json())[0], **change}])
            for change in (
                {"kind": "gone"},
                {"gone": -1},
                {"gone": 1001},
                {"gone": 1.5},
                {"gone": True},
                {"gone": "x"},
                {"over": -1},
                {"over": float("nan")},
                {"over": float("inf")},
                {"since": "now"},
                {"since": "2030-01-01"},
                {"until": "x"},
                {"until": 3},
                {"pool": None},
                {"backend": []},
                {"more": 1},
                {"by": {}},
                {"slots": [1]},
                {"kind": "balance"},
                {"kind": "balance", "slots": []},
                {"kind": "balance", "slots": "12"},
                *(
                    {"kind": "balance", "slots": found}
                    for found in ([2, 1], [1, 1], [-1], [65536], [True], [1.0], ["1"])
                ),
                {"kind": "balance", "slots": [1], "weight": 2},
                {"since": "2030-01-01T00:00:00"},
                {"until": "0001-01-01T00:00:00+14:00"},
            )
        ),
    ],
)
def test_a_damaged_overlay_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Overlay.from_json(text)


def test_maintenance_without_a_time_is_a_value_error() -> None:
    text = Overlay((replace(out("a", 500, "drain"), since=""),)).to_json()
    with pytest.raises(ValueError, match=r"."):
        Overlay.from_json(text)


def test_an_overlay_of_brackets_is_a_value_error() -> None:
    with pytest.raises(ValueError, match=r"."):
        Overlay.from_json("[" * 100_000)


def test_a_drain_at_once_that_another_clock_has_in_the_future_is_done() -> None:
    assert out("a", 5, "drain").advanced(START - timedelta(hours=1)).gone == DRAINED


@pytest.mark.parametrize(("seconds", "over"), [(-1, False), (0, True), (1, True), (10**8, True)])
def test_maintenance_ends_at_its_time(seconds: int, over: bool) -> None:
    entry = out("a", until=(START + timedelta(hours=2)).isoformat())
    moment = START + timedelta(hours=2, seconds=seconds)
    assert entry.expired(moment) is over
    keeps = out("b")
    left = expire(Overlay((entry, keeps)), moment)
    assert left == (Overlay((keeps,)) if over else Overlay((entry, keeps)))
    east = moment.astimezone(timezone(timedelta(hours=9)))
    assert expire(Overlay((entry, keeps)), east) == left


def test_maintenance_without_an_end_stays() -> None:
    assert not out("a").expired(datetime.max.replace(tzinfo=timezone.utc))


def test_a_gradual_drain_comes_as_far_as_the_time_that_passed() -> None:
    drain = out("a", 0, "drain", over=60)
    shares = [drain.advanced(START + timedelta(seconds=s)).gone for s in (-10, 0, 15, 30, 59, 60, 600)]
    assert shares == [0, 0, 250, 500, 983, DRAINED, DRAINED]
    half = replace(drain, gone=500)
    assert half.advanced(START).gone == 500  # a clock that went back takes nothing back


def test_maintenance_keep_their_place() -> None:
    overlay = NO_OVERLAY.put(out("a")).put(out("b", 0, "drain")).put(out("a", note="again")).put(out("b"))
    assert [(a.backend, a.kind) for a in overlay] == [("a", "down"), ("b", "drain"), ("b", "down")]
    assert overlay.find("p", "a", "down") == out("a", note="again")
    assert overlay.find("p", "a", "drain") is None
    assert overlay.of("other") == ()


def test_slots_that_balance_load_are_recorded() -> None:
    overlay = Overlay((out("a", kind="balance", slots=(3, 17)), out("b")))
    assert Overlay.from_json(overlay.to_json()) == overlay
    assert overlay.tables_key() != Overlay((out("a", kind="balance", slots=(3, 18)), out("b"))).tables_key()
    assert not overlay.entries[0].takes_out and overlay.entries[1].takes_out
