# SPDX-License-Identifier: Apache-2.0
"""Ids of decisions: how they sort, where they are recorded, and that nothing depends on them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest

from dnsteer.agent.health_decision import PoolHealth, PoolRules, decide
from dnsteer.agent.held_switch import SwitchMemory
from dnsteer.console.change_log import MAX_DECISIONS, ChangeLog
from dnsteer.deploy.decision import DECISION, IDS, LENGTH, Ids, deciding, decision_id
from dnsteer.slots.maintenance import NO_OVERLAY, Maintenance, Overlay, decisions_between, is_decided, marker, stamped
from dnsteer.status.agent_knowledge import AgentKnowledge, PoolPanic
from dnsteer.switch.state import DECISIONS_KEY, OVERLAY_KEY, AppliedState, BridgeRecord, Pending, overlay_ids
from dnsteer.view.attention import Reachability, attention
from dnsteer.view.snapshot import StateSnapshot, SwitchSnapshot
from tests.unit.console_cases import known

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
FIRST, SECOND = "d21gepscbjsy", "d21gepy95vq4"


def entry(backend: str, kind: str = "health", decision: str = FIRST, **more: object) -> Maintenance:
    return Maintenance("farm", backend, kind, START.isoformat(), "agent", decision=decision, **more)  # type: ignore[arg-type]


def test_ids_sort_by_time_and_never_repeat_or_go_back() -> None:
    times: Iterator[int] = iter(
        [1_000_000_000_000, 1_000_000_000_000, 1_700_000_000_000, 1_600_000_000_000, 1_700_000_000_001]
    )
    made = Ids(lambda: next(times), lambda bits: (1 << bits) - 1)
    found = [made.next() for _ in range(5)]  # the clock stands still, and is set back
    assert found == sorted(set(found))
    assert all(len(id) == LENGTH and id.isalnum() and not set(id) & set("ilou") for id in found)


def test_ids_of_one_moment_differ_between_processes() -> None:
    a, b = (Ids(lambda: 1_800_000_000_000, lambda bits, n=n: n) for n in (1, 2))
    assert a.next() != b.next()


def test_an_id_tells_its_time() -> None:
    made = Ids(lambda: 1_795_499_584_689).next()
    number = 0
    for c in made:
        number = number << 5 | "0123456789abcdefghjkmnpqrstvwxyz".index(c)
    assert number >> 18 == 1_795_499_584_689


def test_real_ids_of_a_process_grow() -> None:
    assert all(a < b for a, b in pairwise(IDS.next() for _ in range(1000)))


def test_the_decision_that_is_carried_out() -> None:
    with deciding(FIRST):
        assert decision_id() == FIRST
    assert DECISION.get() == ""
    assert decision_id() != decision_id()


def test_nothing_depends_on_the_decision() -> None:
    with_id, without = Overlay((entry("ns1"),)), Overlay((entry("ns1", decision=""),))
    assert with_id == without and hash(with_id) == hash(without)
    assert with_id.to_json() == without.to_json()
    assert marker("digest", with_id) == marker("digest", without)


def test_the_record_keeps_decisions_beside_the_overlay() -> None:
    overlay = Overlay((entry("ns1"), entry("ns2", decision=""), entry("ns3", decision=SECOND)))
    ids = overlay_ids(overlay)
    assert "decision" not in json.loads(ids[OVERLAY_KEY])[0]  # earlier releases refuse what they do not know
    assert [a.decision for a in _record(ids).overlay] == [FIRST, "", SECOND]
    assert overlay_ids(NO_OVERLAY) == {OVERLAY_KEY: "", DECISIONS_KEY: ""}
    assert overlay_ids(Overlay((entry("ns1", decision=""),)))[DECISIONS_KEY] == ""


def test_a_record_without_decisions_and_one_that_an_earlier_release_changed() -> None:
    overlay = Overlay((entry("ns1"), entry("ns2")))
    ids = overlay_ids(overlay)
    assert [a.decision for a in _record({OVERLAY_KEY: ids[OVERLAY_KEY]}).overlay] == ["", ""]
    changed = Overlay((entry("ns3"), entry("ns2"))).to_json()
    assert [a.decision for a in _record({**ids, OVERLAY_KEY: changed}).overlay] == ["", ""]


@pytest.mark.parametrize("text", ["", " ", "x", "00000000 a,b", "\n", "x" * 10_000])
def test_invalid_decisions_are_ignored(text: str) -> None:
    overlay = Overlay((entry("ns1", decision=""),))
    assert [a.decision for a in overlay.with_decisions(text)] == [""]
    digest = entry_digest(overlay)
    assert [a.decision for a in overlay.with_decisions(f"{digest} <b>\x1b[31m")] == [""]


def entry_digest(overlay: Overlay) -> str:
    return Overlay(tuple(replace(a, decision=FIRST) for a in overlay)).decisions().split()[0]


def test_a_pending_change_keeps_its_decisions() -> None:
    pending = Pending(3, "digest", Overlay((entry("ns1"),)))
    found = _record({"dnsteer-pending": pending.to_json()}).pending
    assert found == pending and found is not None
    assert [a.decision for a in found.overlay] == [FIRST]
    old = {k: v for k, v in json.loads(pending.to_json()).items() if k != "decisions"}
    before = _record({"dnsteer-pending": json.dumps(old)}).pending
    assert before == pending and before is not None
    assert [a.decision for a in before.overlay] == [""]


def test_a_state_keeps_its_decision_and_an_old_state_has_none() -> None:
    state = AppliedState("f", "text", "digest", "0.1.0", START.isoformat(), "ann", (), {}, number=1, decision=FIRST)
    assert AppliedState.from_ids(state.to_ids(), "").decision == FIRST
    assert "decision" not in replace(state, decision="").to_ids()  # the record is as it was before there were ids
    assert AppliedState.from_ids(replace(state, decision="").to_ids(), "").decision == ""


def _record(ids: dict[str, str]) -> BridgeRecord:
    return BridgeRecord("u", "v", "br-dns", ids, {}, "s", "", False)


def test_a_life_of_a_backend_has_one_id_for_each_decision() -> None:
    """Out, back over 4 s in steps, failing again on the way, and back."""
    rules, overlay, now = PoolRules("farm", dict.fromkeys(("ns1", "ns2", "ns3"), 1), 0.5, 4.0), NO_OVERLAY, START
    seen: list[tuple[tuple[str, ...], list[str]]] = []

    def step(ill: dict[str, str], id: str, seconds: float = 1.0) -> None:
        nonlocal overlay, now
        now += timedelta(seconds=seconds)
        decision = decide(rules, overlay.of("farm"), PoolHealth(ill), "agent", now)
        after = Overlay(stamped(decision.entries, overlay, id))
        seen.append((decisions_between(overlay, after, id), [a.decision for a in after]))
        overlay = after

    step({"ns1": "late"}, "a")
    step({"ns1": "late"}, "b")  # nothing new
    step({}, "c")
    step({}, "d")  # the next step of c
    step({"ns1": "late again"}, "e")
    step({}, "f")
    for id in "ghijk":
        step({}, id)
    assert seen[:6] == [
        (("a",), ["a"]),
        ((), ["a"]),
        (("c",), ["c"]),
        (("c",), ["c"]),
        (("e",), ["e"]),
        (("f",), ["f"]),
    ]
    last = [found for found in seen[6:] if found[0]]
    assert last[-1] == (("f",), []) and {found[0] for found in last} == {("f",)}


def test_removed_maintenance_ends_by_the_new_decision() -> None:
    before, after = Overlay((entry("ns1"), entry("ns2", "drain", until=START.isoformat()))), NO_OVERLAY
    assert decisions_between(before, after, SECOND) == (SECOND,)
    assert decisions_between(before, after) == ()
    assert decisions_between(NO_OVERLAY, before, SECOND) == (FIRST,)


def test_a_changed_note_or_time_is_a_decision_and_progress_is_not() -> None:
    drain = entry("ns1", "drain", over=60.0, gone=100)
    assert not is_decided(drain, replace(drain, gone=500, paced=START.isoformat()))
    assert is_decided(drain, replace(drain, note="a disk"))
    assert is_decided(None, drain)


def test_the_memory_of_decisions_is_bounded_and_knows_the_last() -> None:
    memory = SwitchMemory()
    for n in range(200):
        memory.note_decision(Overlay((entry(f"ns{n}"),)), f"id{n}")
    memory.note_decision(NO_OVERLAY, "first")
    memory.note_decision(NO_OVERLAY, "last")
    assert memory.decision_of(NO_OVERLAY) == "last"
    assert memory.decision_of(Overlay((entry("ns199"),))) == "id199"
    assert memory.decision_of(Overlay((entry("ns0"),))) == ""


def test_a_change_of_the_console_has_the_decisions_behind_it() -> None:
    log, of = ChangeLog(), known(number=1, decision="applied")
    drain = entry("ns1", "drain", over=60.0, gone=0)
    again = replace(drain, gone=500, decision=SECOND)  # somebody asked for another pace on the way
    ended = StateSnapshot(of, NO_OVERLAY, START, "undrained")
    log.add(
        [
            StateSnapshot(of, NO_OVERLAY, START),
            StateSnapshot(of, Overlay((drain,)), START),
            StateSnapshot(of, Overlay((again,)), START),
            ended,
        ]
    )
    other = known(number=2, decision="another")
    log.add([StateSnapshot(other, NO_OVERLAY, START)])
    assert [change.decisions for change in log.changes] == [("another",), ("undrained",), (FIRST, SECOND)]


def seen_of(*sides: tuple[Overlay, str]) -> ChangeLog:
    """What the console makes of these overlays, each with the decision that led to it."""
    log, of = ChangeLog(), known()
    log.add(
        [
            StateSnapshot(of, NO_OVERLAY, START),
            *(StateSnapshot(of, overlay, START, decision) for overlay, decision in sides),
        ]
    )
    return log


def test_services_that_go_out_and_back_are_changes_of_their_own() -> None:
    udp, tcp = entry("ns1", service="53/udp"), entry("ns1", decision=SECOND, service="853/tcp")
    back = replace(tcp, decision="third", gone=500, over=9.0, returns=START.isoformat())
    log = seen_of(
        (Overlay((udp,)), FIRST),
        (Overlay((udp, tcp)), SECOND),
        (Overlay((udp, back)), "third"),
        (Overlay((udp,)), "third"),
    )
    assert [(change.words, change.decisions) for change in reversed(log.changes)] == [
        (("farm/ns1 is unhealthy (53/udp)",), (FIRST,)),
        (("farm/ns1 is unhealthy (853/tcp)",), (SECOND,)),
        (("farm/ns1 (853/tcp) comes back over 9 s",), ("third",)),
        (("health (853/tcp) of farm/ns1 ends",), ("third",)),
    ]


def test_a_slow_start_ended_by_another_decision_has_both() -> None:
    back = Overlay((entry("ns1", gone=500, over=9.0, returns=START.isoformat()),))
    assert seen_of((back, FIRST), (NO_OVERLAY, FIRST)).changes[0].decisions == (FIRST,)
    assert seen_of((back, FIRST), (NO_OVERLAY, SECOND)).changes[0].decisions == (FIRST, SECOND)


def test_the_decisions_of_a_change_are_bounded() -> None:
    steps = [replace(entry("ns1", "drain", over=999.0), gone=n, decision=f"id{n}") for n in range(2 * MAX_DECISIONS)]
    (change,) = seen_of(*((Overlay((step,)), step.decision) for step in steps)).changes
    assert change.decisions == tuple(f"id{n}" for n in range(MAX_DECISIONS))


def test_items_that_need_attention_name_their_decision() -> None:
    of, panics = known(), (PoolPanic("farm", START, SECOND),)
    overlay = Overlay(
        (entry("ns1"), entry("ns2", "drain"), entry("ns3", returns=START.isoformat(), gone=500, over=9.0))
    )
    seen = SwitchSnapshot(
        START, "br-dns", applied=StateSnapshot(of, overlay, START), agent=AgentKnowledge(panics=panics)
    )
    found = {item.title: item.decision for item in attention(seen, Reachability(True, True), START)}
    assert found == {
        "Pool farm: PANIC": SECOND,
        "farm/ns1 is unhealthy": FIRST,
        "farm/ns2 is drained": FIRST,
        "farm/ns3 is returning to service": FIRST,
        "Pool farm: one backend is left in service": "",
    }
