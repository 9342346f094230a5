# SPDX-License-Identifier: Apache-2.0
"""Given weights: in the end the slots of a spec with that weight; on the way no slot moves that need not."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dnsteer.deploy import maintenance_text
from dnsteer.proof.reference import slots as reference
from dnsteer.slots.assignment import assign
from dnsteer.slots.maintenance import DRAINED, MAX_WEIGHT, Maintenance, Overlay, marker
from dnsteer.slots.owners import owners
from dnsteer.slots.weights import in_force
from dnsteer.spec.model.spec import Backend

START = datetime(2030, 1, 1, tzinfo=timezone.utc)
MANY = settings(max_examples=200, deadline=None)
NAMES = ["a", "b", "c", "d", "e", "f"]
SLOTS = st.sampled_from([8, 16, 64])
WEIGHTS = st.integers(2, 6).flatmap(
    lambda n: st.fixed_dictionaries({name: st.integers(0, 6) for name in NAMES[:n]}).filter(lambda w: any(w.values()))
)
GONE = st.integers(0, DRAINED)


def give(backend: str, weight: int | None, gone: int = DRAINED, was: int | None = None, **more: object) -> Maintenance:
    return Maintenance("p", backend, "weight", START.isoformat(), "op", gone=gone, weight=weight, was=was, **more)  # type: ignore[arg-type]


def out(backend: str, gone: int = DRAINED) -> Maintenance:
    return Maintenance("p", backend, "drain", START.isoformat(), "op", gone=gone)


def table(weights: Mapping[str, int], slots: int, *entries: Maintenance, down: Sequence[str] = ()) -> tuple[str, ...]:
    return owners(weights, slots, down, entries, drop=False)


def differing(one: Sequence[str], other: Sequence[str]) -> set[int]:
    return {i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b}


@st.composite
def changes(draw: st.DrawFn, weights: Mapping[str, int]) -> list[Maintenance]:
    """Given weights, one for a backend at most, in any order and at any progress."""
    names = draw(st.lists(st.sampled_from(sorted(weights)), unique=True, max_size=4))
    was = st.one_of(st.none(), st.integers(0, 6))
    gone = st.one_of(st.just(DRAINED), GONE)
    found = [give(name, draw(st.integers(0, 6)), draw(gone), draw(was)) for name in names]
    if draw(st.booleans()):  # a backup of several, which come and go together
        far = draw(gone)
        found = [replace(e, kind="backup", gone=far, was=None, weight=e.weight or 1) for e in found[:2]] + found[2:]
    return found


@MANY
@given(WEIGHTS, SLOTS, st.data())
def test_final_weights_make_the_tables_of_such_a_spec(weights: dict[str, int], slots: int, data: st.DataObject) -> None:
    found = [replace(entry, gone=DRAINED) for entry in data.draw(changes(weights))]
    wanted = {**weights, **{entry.backend: entry.weight for entry in found}}
    who = data.draw(st.lists(st.sampled_from(sorted(weights)), unique=True))
    down, drains = who[:1], [out(name) for name in who[1:]]
    if any(wanted.values()):
        mixed = data.draw(st.permutations([*found, *drains]))  # drains in the same order
        ordered = [*(e for e in mixed if e.weight is not None), *drains]
        for drop in (True, False):
            as_spec = owners(wanted, slots, down, drains, drop=drop)
            assert owners(weights, slots, down, ordered, drop=drop) == as_spec
            assert as_spec == () or len(as_spec) == slots
        assert table(weights, slots, *found) == assign(wanted, slots)


@MANY
@given(WEIGHTS, SLOTS, st.sampled_from(NAMES[:2]), st.integers(0, 6), st.lists(GONE, max_size=6))
def test_gradual_weights_move_each_needed_slot_once_in_proportion(
    weights: dict[str, int], slots: int, name: str, weight: int, steps: list[int]
) -> None:
    if not any({**weights, name: weight}.values()):
        return
    before, after = assign(weights, slots), assign({**weights, name: weight}, slots)
    must = differing(before, after)
    way = [0, *sorted(steps), DRAINED]
    tables = [table(weights, slots, give(name, weight, gone)) for gone in way]
    assert (tables[0], tables[-1]) == (before, after)
    for gone, now in zip(way, tables, strict=True):
        moved = differing(before, now)
        assert moved <= must and len(moved) == -(-len(must) * gone // DRAINED)
        assert all(now[slot] == after[slot] for slot in moved)
    for one, later in itertools.pairwise(tables):
        assert differing(before, one) <= differing(before, later)


@MANY
@given(WEIGHTS, SLOTS, st.data())
def test_a_step_of_one_moves_only_slots_of_that_one(weights: dict[str, int], slots: int, data: st.DataObject) -> None:
    found = data.draw(changes(weights))
    if not found or found[0].kind == "backup":
        return
    at = data.draw(st.integers(0, len(found) - 1))
    further = replace(found[at], gone=data.draw(st.integers(found[at].gone, DRAINED)))
    if further.gone == DRAINED and not further.weight:
        return  # it gives up what others held back for it too
    earlier = {**weights, **{e.backend: e.weight for e in found[:at]}}
    before = {**earlier, further.backend: earlier[further.backend] if further.was is None else further.was}
    after = {**earlier, further.backend: further.weight}
    if not (any(before.values()) and any(after.values())):
        return
    own = differing(assign(before, slots), assign(after, slots))
    one, other = (table(weights, slots, *found[:at], e, *found[at + 1 :]) for e in (found[at], further))
    assert differing(one, other) <= own


@MANY
@given(WEIGHTS, SLOTS, st.data())
def test_the_reference_has_the_same(weights: dict[str, int], slots: int, data: st.DataObject) -> None:
    found = data.draw(changes(weights))
    names = st.sampled_from(sorted(weights))
    outages = data.draw(st.lists(st.builds(out, names, st.one_of(st.just(DRAINED), GONE)), max_size=4))
    down = data.draw(st.lists(names, unique=True, max_size=2))
    everything = data.draw(st.permutations([*outages, *found]))
    for drop in (True, False):
        theirs = reference.table_with_changes(weights, slots, down, everything)
        if drop and reference.no_backend_in_service(weights, down, everything):
            theirs = ()
        assert theirs == owners(weights, slots, down, everything, drop=drop)


@MANY
@given(WEIGHTS, SLOTS, st.data())
def test_a_backend_out_of_service_gives_up_only_its_own_slots(
    weights: dict[str, int], slots: int, data: st.DataObject
) -> None:
    found = data.draw(changes(weights))
    name = data.draw(st.sampled_from(sorted(weights)))
    earlier = [out(n) for n in data.draw(st.lists(st.sampled_from(sorted(weights)), unique=True, max_size=2))]
    was, now = table(weights, slots, *found, *earlier), table(weights, slots, *found, *earlier, out(name))
    away = {name, *(e.backend for e in earlier)}
    if was and all(any(w for n, w in each.items() if n not in away) for each in in_force(weights, found)):
        assert not away & set(now)
        if len(found) == 1 or all(e.gone == DRAINED for e in found):
            assert differing(was, now) == {slot for slot, owner in enumerate(was) if owner == name}


@MANY
@given(WEIGHTS, SLOTS, st.sampled_from(NAMES[:2]), st.integers(0, 6), st.lists(GONE, max_size=4), st.data())
def test_gradual_weights_with_a_backend_out_move_each_needed_slot_once(
    weights: dict[str, int], slots: int, name: str, weight: int, steps: list[int], data: st.DataObject
) -> None:
    some = st.lists(st.sampled_from(sorted(weights)), unique=True, max_size=2)
    down, away = data.draw(some), [out(n) for n in data.draw(some)]
    tables = [
        table(weights, slots, *away, give(name, weight, gone), down=down) for gone in (0, *sorted(steps), DRAINED)
    ]
    before, after = table(weights, slots, *away, down=down), table({**weights, name: weight}, slots, *away, down=down)
    here = [n for n, w in weights.items() if w and n not in {*down, *(e.backend for e in away)}]
    if not here or not after:
        return
    assert (tables[0], tables[-1]) == (before, after)
    for one, later in itertools.pairwise(tables):
        assert differing(before, one) <= differing(before, later) <= differing(before, after)


@MANY
@given(WEIGHTS, SLOTS, st.lists(GONE, min_size=1, max_size=5), st.integers(1, 5), st.integers(1, 5))
def test_a_backup_leaves_slot_by_slot_and_each_slot_once(
    weights: dict[str, int], slots: int, steps: list[int], one: int, other: int
) -> None:
    pool = {**weights, "y": 0, "z": 0}
    way = [DRAINED, *sorted(steps, reverse=True), 0]
    tables = [
        table(pool, slots, *(replace(give(n, w, gone), kind="backup") for n, w in (("y", one), ("z", other))))
        for gone in way
    ]
    assert tables[0] == assign({**pool, "y": one, "z": other}, slots)
    assert tables[-1] == assign(pool, slots)
    for earlier, later in itertools.pairwise(tables):
        assert differing(tables[0], earlier) <= differing(tables[0], later) <= differing(tables[0], tables[-1])


def test_all_weights_0_keep_the_slots_or_drop() -> None:
    weights = {"a": 1, "b": 2}
    entries = [give("a", 0), give("b", 0)]
    assert owners(weights, 8, [], entries, drop=False) == ("b",) * 8
    assert owners(weights, 8, [], entries, drop=True) == ()
    assert owners(weights, 8, [], [give("a", 0), give("b", 0, 999)], drop=True) == ("b",) * 8
    assert table(weights, 8, *entries, give("a", 3)) == ("a",) * 8


def test_no_slot_goes_to_a_backend_out_while_another_serves() -> None:
    weights = {"a": 1, "b": 1}
    for drop in (True, False):
        for gone in (0, 500, 999):
            assert owners(weights, 8, ["a"], [give("b", 0, gone)], drop=drop) == ("b",) * 8
    assert owners(weights, 8, ["a"], [give("b", 0)], drop=True) == ()


def test_a_backend_of_weight_0_gets_a_weight() -> None:
    assert owners({"a": 0}, 8, [], [], drop=False) == ()
    assert table({"a": 0}, 8, give("a", 3)) == ("a",) * 8
    assert table({"a": 0}, 8, give("a", 3, 1)) == ("a",) * 8


def test_weight_0_ends_what_was_held_back_for_it() -> None:
    weights = {"a": 1, "b": 1, "c": 1}
    assert "b" in table(weights, 64, give("a", 5, 0))
    assert "b" not in table(weights, 64, give("a", 5, 0), give("b", 0))


def test_a_backend_gaining_weight_takes_over_in_proportion() -> None:
    """A backend that fails meanwhile does not give all of its slots to one that has just begun."""
    weights = {"a": 1, "b": 1, "c": 0}
    begun, half = (table(weights, 64, give("c", 1, gone), out("a")).count("c") for gone in (0, 500))
    assert begun == 0
    assert half == pytest.approx(16, abs=2)
    assert table(weights, 64, give("c", 1), out("a")).count("c") == 32


def test_the_largest_weight_is_the_specs() -> None:
    schema = Backend.model_json_schema()["properties"]["weight"]
    assert (schema["minimum"], schema["maximum"]) == (0, MAX_WEIGHT)


def test_the_overlay_marker_differs_when_the_tables_differ() -> None:
    entries = [give("a", 5), give("a", 6), give("a", 5, 500), give("a", 5, 500, 2), give("a", 5, 500, 0), out("a")]
    assert len({marker("digest", Overlay((e,))) for e in entries}) == len(entries)


def test_markers_of_maintenance_are_unchanged_by_weights() -> None:
    assert Overlay((out("a"),)).tables_key() == '[["p", "a", 1000]]'


@pytest.mark.parametrize(
    "change",
    [
        {"weight": None},
        {"weight": -1},
        {"weight": MAX_WEIGHT + 1},
        {"weight": True},
        {"weight": "1"},
        {"was": -1},
        {"was": 1.5},
        {"kind": "drain"},
        {"was": MAX_WEIGHT + 1},
    ],
)
def test_a_damaged_weight_is_a_value_error(change: dict[str, object]) -> None:
    good = json.loads(Overlay((give("a", 5, 500, 2, over=60),)).to_json())
    assert Overlay.from_json(json.dumps(good)).entries[0] == give("a", 5, 500, 2, over=60)
    with pytest.raises(ValueError, match=r"an entry (of kind|has)"):
        Overlay.from_json(json.dumps([{**good[0], **change}]))


def test_a_gradual_weight_follows_time_and_turns_back_from_its_progress() -> None:
    entry = give("a", 5, 0, over=60)
    at = {s: START + timedelta(seconds=s) for s in range(-60, 200, 5)}
    assert [entry.advanced(at[s]).gone for s in (-10, 0, 15, 30, 60, 150)] == [0, 0, 250, 500, DRAINED, DRAINED]
    back = entry.advanced(at[15]).going_back(120, at[30])
    assert back.gone == 500
    assert [back.advanced(at[s]).gone for s in (0, 30, 60, 90, 150)] == [500, 500, 250, 0, 0]
    assert back.in_the_end == () and entry.in_the_end == (give("a", 5, over=60),)


def words(before: Sequence[Maintenance], after: Sequence[Maintenance]) -> list[str]:
    one, other = Overlay(tuple(before)), Overlay(tuple(after))
    return [*maintenance_text.begun_and_ended(one, other), *maintenance_text.altered(one, other)]


def test_weight_changes_are_described() -> None:
    assert words([], [give("a", 5)]) == ["p/a is at weight 5"]
    assert words([], [give("a", 5, 0)]) == ["p/a is on its way to weight 5"]
    assert words([give("a", 5)], []) == ["weight 5 of p/a ends"]
    assert words([give("a", 5)], [give("a", 7)]) == ["weight of p/a: 5 -> 7"]
    assert words([give("a", 0)], [give("a", 5)]) == ["weight of p/a: 0 -> 5"]
    back = give("a", 5).going_back(60, START)
    assert words([give("a", 5)], [back]) == ["weight 5 of p/a: goes back over 60 s"]
    assert words([back], [replace(back, returns="")]) == ["weight 5 of p/a: does not go back"]
