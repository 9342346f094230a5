# SPDX-License-Identifier: Apache-2.0
"""The part of the agent that balances load, without a switch."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dnsteer.agent.balance import balancer, pool_metric
from dnsteer.agent.balance.balancer import Balancer
from dnsteer.agent.effect import Effect
from dnsteer.checks.load import check_document
from dnsteer.metrics.observer import AgentObserver
from dnsteer.plan.build import build_plan
from dnsteer.slots.maintenance import NO_OVERLAY, Maintenance, Overlay
from dnsteer.slots.owners import owners_of
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.read import parse_document
from dnsteer.status import extension_view
from dnsteer.switch.tools import SwitchError

EXAMPLES = Path(__file__).parents[2] / "examples"
BALANCE = "    balance: {by: slots, interval: 2s, moves: 3, tolerance: 0%}\n    slots: "


def spec(name: str, *, used: bool = True) -> Loaded:
    text = (EXAMPLES / f"{name}.yaml").read_text()
    assert "    slots: " in text
    text = text.replace("    slots: ", BALANCE, 1)
    unused = "  unused:\n    balance: {by: slots}\n    backends:\n" + "".join(
        f"      - {{name: u{n}, ipv4: 192.0.2.20{n}, mac: '02:00:00:00:09:0{n}'}}\n" for n in (1, 2)
    )
    return check_document(
        parse_document("spec.yaml", text if used else text.replace("pools:\n", f"pools:\n{unused}", 1))
    )


def following(loaded: Loaded, number: int = 1) -> Any:
    members = tuple(build_plan(loaded).members)
    state = SimpleNamespace(members=members, elsewhere=(), extended=())
    return SimpleNamespace(bridge="br-dns", number=number, spec=loaded.spec, state=state)


@pytest.fixture
def counters(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """What the switch counts, by slot."""
    found: dict[int, int] = {}
    monkeypatch.setattr(balancer, "read_slots", lambda *_: dict(found))
    return found


def made(observer: AgentObserver | None = None) -> Balancer:
    return Balancer(SimpleNamespace(client=lambda _: None), observer or AgentObserver())  # type: ignore[arg-type]


def test_a_pool_without_vips_moves_no_slot(counters: Mapping[int, int]) -> None:
    one = made()
    one.adopt(following(spec("client-hash", used=False)), 0.0)
    assert set(one.pools) == {"unused", "resolvers"} and one.due_in(0.0) == 0
    assert asyncio.run(one.look(0.0, NO_OVERLAY)) == {}
    asyncio.run(one.close())


def test_balancing_is_due_at_the_interval_within_the_move_limit(counters: dict[int, int]) -> None:
    one, loaded = made(), spec("client-hash")
    assert one.due_in(0.0) > 60, "nothing is balanced"
    one.adopt(following(loaded), 0.0)
    asyncio.run(one.look(0.0, NO_OVERLAY))
    assert one.due_in(0.5) == 1.5
    counters.update({slot: 100_000 * (slot % 7) for slot in range(64)})
    (moves,) = asyncio.run(one.look(2.0, NO_OVERLAY)).values()
    assert 1 <= len(moves.moved) <= 3
    pool = one.pools["resolvers"]
    pool.moved.append((2.0, 2))
    assert pool.room(3.0) == 1 and pool.room(61.9) == 1 and pool.room(62.0) == 3
    asyncio.run(one.close())


def test_moves_within_a_minute_are_limited(counters: dict[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it looks: what has moved is counted."""
    one, overlay, moved = made(), NO_OVERLAY, list[int]()

    def edit_overlay(_switch: Any, _bridge: str, edit: Any, id: str) -> Effect:
        nonlocal overlay
        overlay = edit(overlay, SimpleNamespace(number=1), None)
        assert all(entry.decision for entry in overlay)
        return Effect(None, {}, id=id)

    monkeypatch.setattr(balancer, "edit_overlay", edit_overlay)
    followed = following(spec("client-hash"))
    hot = [name == "r1" for name in owners_of(followed.state.members[0], ())]
    one.adopt(followed, 0.0)
    for time in (0.0, 2.0, 4.0, 6.0, 63.0):
        asyncio.run(one.look(time, overlay))
        counters.update({slot: counters.get(slot, 0) + (100_000 if hot[slot] else 1000) for slot in range(64)})
        one.move("resolvers", time)
        moved.append(sum(len(entry.slots) for entry in overlay))
    assert moved == [0, 3, 3, 3, 6]
    assert one.move("nobody", 63.0).outdated
    asyncio.run(one.close())


def test_a_slot_with_more_than_may_move_at_once_waits(
    counters: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each slot of r1 is a quarter of its load, of which it gives a tenth in an interval."""
    text = spec("client-hash").document.text.replace("by: slots", "by: metric, source: {push: true}")
    followed = following(check_document(parse_document("spec.yaml", text)))
    owners = owners_of(followed.state.members[0], ())
    of_r1 = [slot for slot, name in enumerate(owners) if name == "r1"][:4]
    one, moved, time = made(), list[int](), 0.0
    monkeypatch.setattr(pool_metric, "_now", lambda: time)
    one.adopt(followed, time)
    for _ in range(5):
        for backend in one.pools_in_force()["resolvers"].backends:
            one.add_pushed_metric("resolvers", backend.name, 0.9 if backend.name == "r1" else 0.3)
        found = asyncio.run(one.look(time, NO_OVERLAY))
        moved.append(sum(len(moves.moved) for moves in found.values()))
        counters.update({s: counters.get(s, 0) + (0 if owners[s] == "r1" else 1000) for s in range(64)})
        counters.update({slot: counters[slot] + 10_000 for slot in of_r1})
        time += 2.0
    assert moved == [1, 0, 0, 1, 0], "slots are alike as long as nobody asks; then one goes after two intervals"
    asyncio.run(one.close())


def test_counts_are_kept_while_the_slots_are_unchanged(counters: dict[int, int]) -> None:
    one, loaded = made(), spec("client-hash")
    one.adopt(following(loaded), 0.0)
    before = one.pools["resolvers"]
    one.adopt(following(loaded, 2), 1.0)
    assert one.pools["resolvers"] is before
    text = loaded.document.text.replace("slots: 64", "slots: 128")
    one.adopt(following(check_document(parse_document("spec.yaml", text)), 3), 2.0)
    assert one.pools["resolvers"] is not before
    one.adopt(
        following(check_document(parse_document("spec.yaml", (EXAMPLES / "client-hash.yaml").read_text())), 4), 3.0
    )
    assert one.pools == {}
    asyncio.run(one.close())


@pytest.mark.parametrize(
    "answer",
    [{}, {"vips": 3}, {"vips": [{}]}, {"vips": [{"name": 3}]}, {"vips": [{"name": "resolver/192.0.2.53/udp/53"}]}],
)
def test_a_malformed_answer_of_the_extension_is_an_error(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]
) -> None:
    program = SimpleNamespace(name="the extension at x", slots=lambda: answer)
    monkeypatch.setattr(extension_view, "extension_client", lambda *_: program)
    loaded = spec("client-hash")
    with pytest.raises(SwitchError, match="the extension at x: found no packets by slot"):
        extension_view.take_extension_slots(SimpleNamespace(), loaded.spec, build_plan(loaded).members)  # type: ignore[arg-type]


def test_a_decision_is_dropped_if_the_overlay_changed(
    counters: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deciding about many slots takes long, and failover waits for the lock."""
    one, decided = made(), list[object]()
    decide = one._decide
    monkeypatch.setattr(
        one, "_decide", lambda pool, overlay, time: (decided.append(overlay), decide(pool, overlay, time))[1]
    )

    def edit_overlay(_switch: Any, _bridge: str, edit: Any, id: str) -> Effect:
        for overlay in (NO_OVERLAY, other):
            edit(overlay, SimpleNamespace(number=1), None)
        return Effect(None, {}, id=id)

    other = Overlay((Maintenance("resolvers", "r1", "drain", "2026-01-02T03:04:05+00:00", "x"),))
    monkeypatch.setattr(balancer, "edit_overlay", edit_overlay)
    one.adopt(following(spec("client-hash")), 0.0)
    asyncio.run(one.look(0.0, NO_OVERLAY))
    one.move("resolvers", 0.0)
    assert decided == [NO_OVERLAY, other]
    asyncio.run(one.close())
