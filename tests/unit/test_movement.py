"""What part of a pool's clients moves, counted and not guessed; the slots themselves are tests/unit/test_slots.py's."""

from __future__ import annotations

from collections import Counter

import pytest

from dnsteer.deploy.movement import Assignment, moves, reasons_to_ask
from dnsteer.slots.maintenance import NO_OVERLAY
from dnsteer.slots.membership import Member, Membership
from dnsteer.slots.owners import owners_of

PORTS = 1 << 16


def pool(slots: int, *weights: int, selection: str = "source-port", down: bool = False, title: str = "") -> Membership:
    members = tuple(Member(f"ns{n}", n, weight, down) for n, weight in enumerate(weights))
    return Membership("farm", title or "pool farm", 1, selection, slots, "drop", members)


def assignment(*pools: Membership) -> Assignment:
    return Assignment(pools, NO_OVERLAY)


def by_port(members: Membership) -> list[str]:
    """The backend of each source port: what a client sees."""
    owners = owners_of(members, ()) or ("no backend",)
    return [owners[(port >> 1) % len(owners)] for port in range(PORTS)]


@pytest.mark.parametrize("selection", ["source-port", "dp-hash", "client", "spray"])
@pytest.mark.parametrize(("was", "becomes"), [(4, 8), (8, 4), (64, 128), (128, 64), (64, 1024), (4, 4096), (4096, 4)])
def test_another_number_of_slots_moves_the_hash_values_whose_backend_changes(
    was: int, becomes: int, selection: str
) -> None:
    old, new = pool(was, 1, 2, 3, selection=selection), pool(becomes, 1, 2, 3, selection=selection)
    [move] = moves(assignment(old), assignment(new))
    pairs = Counter((a, b) for a, b in zip(by_port(old), by_port(new), strict=True) if a != b)
    assert {way: n * (PORTS // move.slots) for way, n in move.transfers.items()} == pairs
    assert move.share == sum(pairs.values()) / PORTS
    assert (move.resized, move.slots) == ((was, becomes), max(was, becomes))
    assert f"pool farm has {becomes} slots instead of {was}: " in move.text()


def test_another_number_of_slots_and_another_weight_at_once() -> None:
    old, new = pool(64, 1, 1), pool(128, 1, 3)
    [move] = moves(assignment(old), assignment(new))
    differ = sum(a != b for a, b in zip(by_port(old), by_port(new), strict=True))
    assert move.share == differ / PORTS


def test_another_number_of_slots_of_one_backend_moves_nothing() -> None:
    assert moves(assignment(pool(64, 1)), assignment(pool(128, 1))) == []


@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True)])
def test_a_pool_without_backends_before_or_after(before: bool, after: bool) -> None:
    [move] = moves(assignment(pool(64, 1, 1, down=before)), assignment(pool(128, 1, 1, down=after)))
    assert move.share == 1
    assert all((way[0] == "no backend") == before and (way[1] == "no backend") == after for way in move.transfers)


@pytest.mark.parametrize(
    ("was", "becomes", "most"),
    [((1,), (1,), None), ((1, 1), (1, 1), 1.0), ((3, 1), (3, 1), 0.5), ((1,), (3, 1), 0.25), ((3, 1), (1, 3), 1.0)],
)
@pytest.mark.parametrize("rehashed", [False, True])
def test_other_slots_for_all_move_no_more_than_backends_can_lose(
    was: tuple[int, ...], becomes: tuple[int, ...], most: float | None, rehashed: bool
) -> None:
    old = pool(64, *was, selection="client")
    new = pool(64, *becomes, selection="client" if rehashed else "dp-hash")
    found = moves(assignment(old), assignment(new), ["farm"] if rehashed else ())
    assert [move.share for move in found] == ([] if most is None else [most])
    part = "all" if most == 1 else f"up to {100 * (most or 0):g} %"
    why = "its hash_fields change" if rehashed else "its selection changes"
    assert [move.text() for move in found] == [f"pool farm: {why}: {part} of its clients may move"] * len(found)


def test_more_than_half_is_asked_about_and_less_is_not() -> None:
    asked = {}
    for backends in (2, 8):
        before, after = (assignment(pool(slots, *[1] * backends)) for slots in (64, 128))
        found = moves(before, after)
        asked[backends] = reasons_to_ask(found, before, after)
        assert (found[0].share > 0.5) == bool(asked[backends])
    assert asked == {2: [], 8: ["pool farm: 51.6 % of its clients would move"]}
