# SPDX-License-Identifier: Apache-2.0
"""What the agent does next, and until when it waits, by what it knows of its own work."""

from __future__ import annotations

from copy import deepcopy
from math import inf
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dnsteer.agent.next_work import PAUSE, TICK, AgentState, AgentStep, LookTimes, NextWork, next_work

NOW = 1000.0
ALWAYS = [AgentStep.RECORD_KEPT, AgentStep.KEEP_PROBE_PORT, AgentStep.RECORD_FAILURES]


def looked(due_in: float) -> LookTimes:
    """Look times of which the next one is due so soon."""
    looks = LookTimes()
    looks.done(0, NOW, NOW, differed=False)
    looks.notice(0, NOW)
    looks._regular = NOW + due_in
    return looks


def working(**more: Any) -> AgentState:
    """An agent that follows a state, acts, and has read the record just now; nothing is due."""
    return AgentState(
        **{
            "is_following": True,
            "has_claim": True,
            "tasks_started": True,
            "read_at": NOW,
            "looks": looked(30.0),
            **more,
        }
    )


def turn(
    state: AgentState, now: float = NOW, fails: tuple[AgentStep, ...] = (), *, away: bool = False
) -> list[AgentStep]:
    """The steps of a turn; those that are *fails* fail."""
    state.begin_turn(now)
    steps = list[AgentStep]()
    while (step := next_work(state, now).step) is not None:
        steps.append(step)
        state.done = step
        if step in fails:
            state.failed(step, away=away)
    return steps


@pytest.mark.parametrize(
    ("state", "steps"),
    [
        (AgentState(), [AgentStep.READ_RECORD]),
        (working(), [AgentStep.READ_RECORD, *ALWAYS]),
        (working(due={"farm"}), [AgentStep.DECIDE, *ALWAYS]),
        (working(due={"farm"}, read_first=True), [AgentStep.READ_RECORD, AgentStep.DECIDE, *ALWAYS]),
        (working(due={"farm"}, read_at=NOW - TICK), [AgentStep.READ_RECORD, AgentStep.DECIDE, *ALWAYS]),
        (working(due={"farm"}, has_claim=False, is_standing_by=True), [AgentStep.READ_RECORD]),
        (working(due={"farm"}, is_standing_by=True), [AgentStep.READ_RECORD]),
        (working(due={"farm"}, is_following=False), [AgentStep.READ_RECORD]),
        (working(tasks_started=False), [AgentStep.READ_RECORD, AgentStep.START_TASKS, *ALWAYS]),
        (working(timed=True), [AgentStep.READ_RECORD, AgentStep.ADVANCE, *ALWAYS]),
        (working(timed=True, stepped=NOW - TICK), [AgentStep.READ_RECORD, AgentStep.ADVANCE, *ALWAYS]),
        (working(timed=True, stepped=NOW - 0.9), [AgentStep.READ_RECORD, *ALWAYS]),
        (working(looks=looked(0.0)), [AgentStep.READ_RECORD, AgentStep.LOOK, *ALWAYS]),
        (working(looks=looked(0.1)), [AgentStep.READ_RECORD, *ALWAYS]),
        (working(captured=True), [AgentStep.READ_RECORD, AgentStep.REMOVE_MIRRORS, *ALWAYS]),
        (working(under_way={"farm"}), [AgentStep.DECIDE, *ALWAYS]),
        (working(under_way={"farm"}, ticked=NOW - 0.9), [AgentStep.READ_RECORD, *ALWAYS]),
    ],
)
def test_a_turn_has_the_steps_of_its_state(state: AgentState, steps: list[AgentStep]) -> None:
    assert turn(state) == sorted(steps)


@pytest.mark.parametrize(
    ("state", "wait"),
    [
        (working(), NextWork(None, NOW + TICK)),
        (working(looks=looked(0.3)), NextWork(None, NOW + 0.3)),
        (working(looks=looked(-0.3)), NextWork(None, NOW)),
        (working(looks=looked(0.3), is_standing_by=True), NextWork(None, NOW + TICK)),
        (working(looks=looked(0.3), is_following=False), NextWork(None, NOW + TICK)),
        (working(looks=looked(0.0), paused_until=NOW + PAUSE), NextWork(None, NOW + PAUSE, can_wake=False)),
        (working(looks=looked(0.3), paused_until=NOW), NextWork(None, NOW + 0.3)),
    ],
)
def test_the_wait_after_a_turn_ends_at_the_next_due_time(state: AgentState, wait: NextWork) -> None:
    state.done = max(AgentStep)
    assert next_work(state, NOW) == wait


def test_an_unreadable_record_ends_the_turn() -> None:
    state = working(read_at=NOW - TICK, due={"farm"})
    assert turn(state, fails=(AgentStep.READ_RECORD,)) == [AgentStep.READ_RECORD]
    state.read_at = NOW
    assert turn(state) == [AgentStep.DECIDE, *ALWAYS], "the next turn decides, with the state that was followed before"


def test_an_unreachable_switch_is_only_checked() -> None:
    state = working(due={"farm"}, timed=True, captured=True, looks=looked(0.0))
    assert turn(state, fails=(AgentStep.DECIDE,), away=True) == [
        AgentStep.DECIDE,
        AgentStep.LOOK,
        AgentStep.KEEP_PROBE_PORT,
    ]
    assert AgentStep.ADVANCE in turn(state, fails=(AgentStep.DECIDE,)), "any other failure stops no step"


def test_work_put_back_waits_for_the_next_turn() -> None:
    """Else a turn would not end where an effect fails each time."""
    state = working(due={"farm"})
    state.begin_turn(NOW)
    assert next_work(state, NOW).step is AgentStep.DECIDE
    due, decision = state.take_due()
    state.put_back(due, decision)
    state.read_first, state.done = True, AgentStep.DECIDE
    assert next_work(state, NOW).step is AgentStep.RECORD_KEPT
    assert turn(state) == [AgentStep.READ_RECORD, AgentStep.DECIDE, *ALWAYS]


def test_every_wakeup_reads_the_record_and_decides() -> None:
    """A panic goes on for days, and something wakes the agent all the time: each second both happen."""
    state, reads, decided = working(under_way={"farm"}, read_at=0.0), 0, 0
    for n in range(20):
        now = NOW + n * 0.25
        steps = turn(state, now)
        if AgentStep.READ_RECORD in steps:
            reads, state.read_at = reads + 1, now
        if AgentStep.DECIDE in steps:
            state.take_due()
            decided += 1
    assert (reads >= 5, decided) == (True, 5)
    state.due, reads = {"farm"}, 0  # it stays due
    for n in range(20):
        now = NOW + 5 + n * 0.25
        if AgentStep.READ_RECORD in turn(state, now):
            reads, state.read_at = reads + 1, now
    assert reads == 5


def test_a_check_that_turns_joins_the_decision_that_is_due() -> None:
    state, ids = AgentState(), iter("abc")
    state.turn_due(("farm",), 1.0, ill=True, new_id=lambda: next(ids))
    state.turn_due(("spare",), 2.0, ill=True, new_id=lambda: next(ids))
    assert (state.due, state.changed, state.decision) == ({"farm", "spare"}, 1.0, "a")
    assert state.take_due() == ({"farm", "spare"}, "a")
    state.turn_due(("farm",), 3.0, ill=True, new_id=lambda: next(ids))
    assert state.take_due()[1] == "a", "nothing came of the first one yet"
    state.turn_due(("farm",), 4.0, ill=False, new_id=lambda: next(ids))
    assert state.take_due()[1] == "b", "that it is healthy again is another one"


def test_due_work_has_the_decision_of_its_waiting_checks() -> None:
    state = AgentState(due={"farm"}, turned={"farm": "a"})
    assert state.take_due() == ({"farm"}, "a") and not state.due
    state.turn_due(("farm",), 1.0, ill=False, new_id=lambda: "b")
    state.put_back({"spare"}, "a")
    assert state.take_due() == ({"farm", "spare"}, "b"), "the one that turned meanwhile counts"


TIMES = st.one_of(st.just(-inf), st.floats(NOW - 100, NOW + 100))
SLOTS = st.sets(st.sampled_from(["farm", "spare", "farm (853/tcp)"]))


@st.composite
def states(draw: st.DrawFn) -> AgentState:
    """Any state that an agent may be in."""
    state = draw(
        st.builds(
            AgentState,
            is_following=st.booleans(),
            has_claim=st.booleans(),
            is_standing_by=st.booleans(),
            tasks_started=st.booleans(),
            done=st.none() | st.sampled_from(AgentStep),
            unread=st.booleans(),
            away=st.booleans(),
            paused_until=TIMES,
            ticked=TIMES,
            read_first=st.booleans(),
            read_at=TIMES,
            captured=st.booleans(),
            timed=st.booleans(),
            stepped=TIMES,
            due=SLOTS,
            under_way=SLOTS,
        )
    )
    events = 0
    for what, time in draw(st.lists(st.tuples(st.sampled_from(["event", "done", "failed"]), st.floats(-100, 1)))):
        if what == "done":
            state.looks.done(events, NOW + time, NOW + time, differed=draw(st.booleans()))
        elif what == "failed":
            state.looks.failed(NOW + time)
        events += what == "event"
        state.looks.notice(events, NOW + time)
    return state


@given(states())
def test_next_work_changes_no_state(state: AgentState) -> None:
    before = deepcopy(vars(state))
    looks = vars(before.pop("looks"))
    assert next_work(state, NOW) == next_work(state, NOW)
    after = dict(vars(state))
    assert (vars(after.pop("looks")), after) == (looks, before)


@given(states())
def test_the_wait_is_at_most_a_tick_and_pauses_follow_failures(state: AgentState) -> None:
    state.done = max(AgentStep)
    wait = next_work(state, NOW)
    assert wait.step is None
    if wait.can_wake:
        assert NOW <= wait.until <= NOW + TICK and state.paused_until <= NOW
    else:
        assert wait.until == state.paused_until > NOW


@example(
    AgentState(is_following=True, has_claim=True, read_at=NOW, due={"farm"}), {AgentStep.START_TASKS}, True, False
).via("the switch is found away before the decision")
@given(states(), st.sets(st.sampled_from(AgentStep)), st.booleans(), st.booleans())
def test_a_turn_runs_its_steps_once_in_order(
    state: AgentState, fails: set[AgentStep], away: bool, noticed: bool
) -> None:
    """Whatever fails, and whatever else becomes due meanwhile. Who does not act only reads the record."""
    state.begin_turn(NOW)
    steps = list[AgentStep]()
    while (step := next_work(state, NOW).step) is not None:
        assert not steps or step > steps[-1]
        assert not state.away or step in (AgentStep.LOOK, AgentStep.KEEP_PROBE_PORT)
        assert step is AgentStep.READ_RECORD or (state.is_following and state.is_acting and not state.unread)
        steps.append(step)
        state.done = step
        state.due |= {"more"}
        if step in fails:
            state.failed(step, away=away)
        elif step is AgentStep.READ_RECORD and noticed:
            state.looks.notice(1 << 20, NOW)
    assert steps[:1] == [AgentStep.READ_RECORD] or AgentStep.DECIDE in steps or state.away


@given(states(), st.lists(st.floats(0.001, 1.0), min_size=10, max_size=40))
def test_each_second_reads_the_record_and_does_due_checks(state: AgentState, wakes: list[float]) -> None:
    """However soon something wakes the agent: it is woken after these seconds, or when its wait ends."""
    state.is_following = state.has_claim = True
    state.is_standing_by = False
    state.paused_until, state.read_at = -inf, min(state.read_at, NOW)
    now = read = NOW
    for wake in wakes:
        steps = turn(state, now)
        if AgentStep.READ_RECORD in steps:
            read = state.read_at = now
            state.read_first = False
        assert now - read <= TICK + 1e-6
        assert (AgentStep.LOOK in steps) == (state.looks.due <= now)
        if AgentStep.LOOK in steps:
            state.looks.done(state.looks._events, now, now, differed=False)
        now = min(now + wake, next_work(state, now).until)
