# SPDX-License-Identifier: Apache-2.0
"""The reference's own slot assignment gives what the plan's gives, which it shares no code with."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dnsteer.proof.reference import slots as reference
from dnsteer.proof.reference.spec_services import service_ports
from dnsteer.slots.maintenance import DRAINED, Maintenance
from dnsteer.slots.owners import owners
from dnsteer.spec import derived
from dnsteer.spec.loaded import Loaded
from tests.strategies import specs

NAMES = st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=6)
WEIGHTS = st.dictionaries(NAMES, st.one_of(st.integers(0, 8), st.integers(0, 65535)), min_size=1, max_size=12).filter(
    lambda weights: any(weights.values())
)
SIZES = st.integers(1, 9).map(lambda bits: 1 << bits)


def outage(backend: str, gone: int = DRAINED) -> Maintenance:
    return Maintenance("pool", backend, "drain", "", "", gone=gone)


def by_reference(
    weights: dict[str, int], slots: int, down: Sequence[str], outages: Sequence[Maintenance], *, drop: bool = False
) -> tuple[str, ...]:
    if drop and reference.no_backend_in_service(weights, down, outages):
        return ()
    base = reference.reference_table(tuple(weights.items()), slots)
    return reference.table_with_outages(base, weights, down, outages)


@settings(max_examples=300, deadline=None)
@given(weights=WEIGHTS, slots=SIZES, drop=st.booleans(), data=st.data())
def test_the_reference_has_the_owners_of_random_pools(
    weights: dict[str, int], slots: int, drop: bool, data: st.DataObject
) -> None:
    """Whoever is down, drained or on the way out, in any order, and twice."""
    names = sorted(weights)
    down = data.draw(st.lists(st.sampled_from(names), unique=True))
    gone = st.one_of(st.just(DRAINED), st.integers(0, DRAINED))
    outages = data.draw(st.lists(st.builds(outage, st.sampled_from(names), gone), max_size=2 * len(names)))
    assert by_reference(weights, slots, down, outages, drop=drop) == owners(weights, slots, down, outages, drop=drop)


@pytest.mark.parametrize("slots", [256, 4096])
@pytest.mark.parametrize("backends", [3, 40, 300])
def test_the_reference_has_the_owners_of_large_pools(slots: int, backends: int) -> None:
    weights = {f"backend-{n}.example": 1 + n * n % 23 for n in range(backends)}
    names = list(weights)
    outages = [outage(names[1], 250), outage(names[2])]
    for down in ([], [names[0]]):
        assert by_reference(weights, slots, down, []) == owners(weights, slots, down, [], drop=False)
        assert by_reference(weights, slots, down, outages) == owners(weights, slots, down, outages, drop=False)


@settings(max_examples=100, deadline=None)
@given(specs())
def test_the_reference_has_the_default_slot_count(loaded: Loaded) -> None:
    spec = loaded.spec
    for name, pool in spec.pools.items():
        sharing = sum(len(v.addresses) * len(service_ports(v)) for v in spec.vips.values() if v.pool == name)
        assert reference.number_of_slots(spec.switch, pool, sharing) == derived.slot_count(spec, pool)


@settings(max_examples=300, deadline=None)
@given(weights=WEIGHTS, slots=SIZES, data=st.data())
def test_the_reference_has_balanced_slots(weights: dict[str, int], slots: int, data: st.DataObject) -> None:
    """Beside whoever is out or has another weight; also where two have one slot, or one has more than there are."""
    names = sorted(weights)
    entries = list[Maintenance]()
    for name in data.draw(st.lists(st.sampled_from(names), max_size=5, unique=True)):
        gone = data.draw(st.sampled_from([0, 300, 999, DRAINED]))
        weight = data.draw(st.one_of(st.none(), st.integers(0, 9)))
        entries.append(
            Maintenance("pool", name, "drain" if weight is None else "weight", "", "", gone=gone, weight=weight)
        )
    for name in data.draw(st.lists(st.sampled_from(names), max_size=4)):
        given = tuple(sorted(data.draw(st.sets(st.integers(0, slots + 2), min_size=1, max_size=9))))
        entries.append(Maintenance("pool", name, "balance", "", "", slots=given))
    entries = data.draw(st.permutations(entries))
    down = data.draw(st.lists(st.sampled_from(names), unique=True))
    ours = owners(weights, slots, down, entries, drop=False)
    assert reference.table_with_changes(weights, slots, down, entries) == ours
    serving = {
        name for name in names if name not in down and not any(e.takes_out for e in entries if e.backend == name)
    }
    last = {slot: entry.backend for entry in entries for slot in entry.slots}
    weighted = {**weights, **{e.backend: e.weight for e in entries if e.weight is not None}}
    for slot, name in last.items():
        if slot < len(ours) and name in serving and weighted[name]:
            assert ours[slot] == name
