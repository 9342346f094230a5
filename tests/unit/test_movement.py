# SPDX-License-Identifier: Apache-2.0
"""What part of a pool's clients moves, counted and not guessed; the slots themselves are tests/unit/test_slots.py's."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from dnsteer.deploy.movement import Assignment, last_backends_left, moves, reasons_to_ask
from dnsteer.slots.maintenance import NO_OVERLAY, Maintenance, Overlay
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
def test_another_slot_count_moves_the_ports_whose_backend_changes(was: int, becomes: int, selection: str) -> None:
    old, new = pool(was, 1, 2, 3, selection=selection), pool(becomes, 1, 2, 3, selection=selection)
    [move] = moves(assignment(old), assignment(new))
    pairs = Counter((a, b) for a, b in zip(by_port(old), by_port(new), strict=True) if a != b)
    assert {way: n * (PORTS // move.slots) for way, n in move.transfers.items()} == pairs
    assert move.share == sum(pairs.values()) / PORTS
    assert (move.resized, move.slots) == ((was, becomes), max(was, becomes))
    assert f"pool farm has {becomes} slots instead of {was}: " in move.text()


def test_another_slot_count_and_weight_move_their_exact_share() -> None:
    old, new = pool(64, 1, 1), pool(128, 1, 3)
    [move] = moves(assignment(old), assignment(new))
    differ = sum(a != b for a, b in zip(by_port(old), by_port(new), strict=True))
    assert move.share == differ / PORTS


def test_another_slot_count_of_a_single_backend_moves_nothing() -> None:
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
def test_another_hash_moves_at_most_what_backends_can_lose(
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


def out(backend: str, kind: str = "drain", *, service: str = "", gone: int = 1000, weight: int | None = None) -> Any:
    return Maintenance(
        "farm", backend, kind, "2026-01-02T03:04:05+00:00", "me", gone=gone, weight=weight, service=service
    )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change", [out("ns0"), out("ns0", "down"), out("ns0", "weight", weight=0)], ids=["drain", "down", "weight 0"]
)
def test_a_change_that_leaves_one_backend_is_warned_of_also_below_half(change: Maintenance) -> None:
    members = pool(64, 1, 3)
    before, after = (Assignment([members], Overlay(entries)) for entries in ((), (change,)))
    found = moves(before, after)
    assert found[0].share < 0.5 and reasons_to_ask(found, before, after) == []
    assert last_backends_left(before, after) == [
        "pool farm: ns1 would be the last backend in service; if it fails, none of the pool's own is left"
    ]
    (helped,) = after.with_one_backend({"farm": "spare"})
    assert "; without it its backup serves, pool spare, or without an agent its queries are dropped (" in helped.text
    assert last_backends_left(after, after) == last_backends_left(after, before) == []
    (last,) = after.with_one_backend({})
    assert last.planned and last.text == (
        "pool farm: ns1 is the last of 2 backends in service; without it its queries are dropped (on_all_down: drop)"
    )


def test_the_last_backend_is_that_of_a_family_or_service() -> None:
    four, six = pool(64, 1, 1, 1, title="pool farm IPv4"), pool(64, 1, 1, title="pool farm IPv6")
    tls = pool(64, 1, 1, 1, title="pool farm 853/tcp")._replace(service="853/tcp")
    before = Assignment([four, six, tls], Overlay((out("ns2", "health", service="853/tcp"),)))
    after = Assignment(before.pools, Overlay((*before.overlay, out("ns0"))))
    said = last_backends_left(before, after)
    assert [text.partition(":")[0] for text in said] == ["pool farm IPv6", "pool farm 853/tcp"]
    last = after.with_one_backend({})
    assert [each.members.title for each in last] == ["pool farm IPv6", "pool farm 853/tcp"]
    assert [each.planned for each in last] == [True, False], "people have ns0 out; that ns2 fails on 853 is not planned"


def test_a_single_backend_by_spec_or_two_in_service_give_no_warning() -> None:
    for members, entries in ((pool(64, 1), ()), (pool(64, 1, 0), ()), (pool(64, 1, 1, 1), (out("ns0"),))):
        now = Assignment([members], Overlay(entries))
        assert now.with_one_backend({}) == [] and last_backends_left(now, now) == []
    returning = Assignment([pool(64, 1, 1)], Overlay((out("ns0", gone=700),)))
    assert returning.with_one_backend({}) == [], "some of its slots are there still"


def test_a_spec_with_fewer_backends_leaves_the_last_one() -> None:
    said = last_backends_left(assignment(pool(64, 1, 1, 1)), assignment(pool(64, 1)))
    assert said == ["pool farm: ns0 would be the last backend in service; if it fails, none of the pool's own is left"]


def test_a_backend_out_for_one_service_serves_the_others() -> None:
    rest, tls = pool(64, 1, 1), pool(64, 1, 1, title="pool farm 853/tcp")._replace(service="853/tcp")
    ill = [out(name, "health", service="853/tcp") for name in ("ns0", "ns1")]
    assert Assignment([rest, tls], Overlay(tuple(ill))).without_backends() == [tls]
