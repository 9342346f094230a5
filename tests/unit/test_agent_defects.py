# SPDX-License-Identifier: Apache-2.0
"""No text in the record or a spec, and no defect, ends the agent: it goes on with what it followed before, and says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dnsteer.agent import next_work, probe_port, run, state_follower
from dnsteer.agent.effect import Effect
from dnsteer.agent.held_switch import HeldSwitch
from dnsteer.agent.probes import stream
from dnsteer.agent.probes.question import Question
from dnsteer.agent.run import Agent
from dnsteer.checks.load import check_document
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.metrics.observer import AgentObserver, SwitchInspection
from dnsteer.plan.build import build_plan
from dnsteer.spec.announced import routes_of
from dnsteer.spec.errors import SpecError
from dnsteer.spec.read import parse_document
from dnsteer.switch.state import DIGEST_KEY, OVERLAY_KEY, PENDING_KEY, STATE_KEY, AppliedState, BridgeRecord
from dnsteer.switch.tools import SwitchError
from tests.packet.command import FARM

T = TypeVar("T")
CHECK = "    health: {interval: 3600s, timeout: 1s}\n"
SPEC = FARM.replace("  farm:\n", f"  farm:\n{CHECK}").replace("  spare:\n", f"  spare:\n{CHECK}")
assert SPEC.count(CHECK) == 2
DEFECTS = [
    ZeroDivisionError("x"),
    KeyError("x"),
    RecursionError(),
    UnicodeError(),
    OverflowError(),
    SwitchError("x\ny"),
]


def state_of(text: str, number: int) -> AppliedState:
    try:
        loaded = check_document(parse_document("spec.yaml", text))
        members, vips = build_plan(loaded).members, {"dns": "farm"}
    except (SpecError, ValueError, RecursionError):
        members, vips = (), {}
    return AppliedState("spec.yaml", text, "d", "0", "t", "b", tuple(members), vips, number=number)


def record_of(number: object, **ids: str) -> BridgeRecord:
    every = {STATE_KEY: str(number), DIGEST_KEY: "d", **ids}
    return BridgeRecord("uuid", "v", "br-dns", every, {}, "s", "", False)


class Source:
    """The record and the state as an agent's claim reads them."""

    def __init__(self) -> None:
        self.now, self.applied, self.held = record_of(1), state_of(SPEC, 1), True

    def record(self) -> BridgeRecord:
        return self.now

    def session(self) -> Source:
        return self

    def state(self, _record: BridgeRecord, number: int) -> AppliedState:
        return replace(self.applied, number=number)


async def work(do: Callable[[], T]) -> T:
    return do()


class Case:
    """An agent on a switch that is as recorded, and what it said."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.looks, self.found = 0, SwitchInspection()
        self.source = Source()
        self.agent = Agent(TargetSwitch("unix:/nowhere"), "br-dns", self._say, lambda *_: 0)
        self.agent._claim = self.source  # type: ignore[assignment]
        self.agent._state_follower._claim = self.source  # type: ignore[assignment]
        self.agent._state.tasks_started = self.agent._state.taken_over = True
        self.decided: list[set[str]] = []
        self.fails: dict[str, Exception] = {}

    def _say(self, text: str, event: str, level: str, **fields: object) -> None:
        self.said.append(text)

    def decide(self, _switch: object, _bridge: str, number: int, rules: Any, *_: object) -> Effect:
        if "decide" in self.fails:
            raise self.fails["decide"]
        if number != self.source.now.number:
            return Effect(None, {}, outdated=True)
        self.decided.append({one.pool for one in rules})
        return Effect(None, {})

    def look(self, *_: object, **__: object) -> SwitchInspection:
        self.looks += 1
        if "look" in self.fails:
            raise self.fails["look"]
        return self.found

    @contextmanager
    def at_work(self) -> Iterator[None]:
        with pytest.MonkeyPatch().context() as patch:
            patch.setattr(run, "decide_and_change", self.decide)
            patch.setattr(run, "inspect_switch", self.look)
            patch.setattr(HeldSwitch, "take_over", lambda *_: None)
            yield

    async def turn(self) -> None:
        await self.agent._turn(work, asyncio.get_running_loop())  # type: ignore[arg-type]

    def look_due_in(self) -> float:
        """The seconds until the next look."""
        return self.agent._state.looks.due_in(self.agent._memory.events, asyncio.get_running_loop().time())

    def end(self) -> None:
        self.agent._state_follower.stop()


TEXTS = st.one_of(
    st.text(max_size=200), st.sampled_from(["", "null", "[]", "{}", "a: &a [*a]", "[" * 5000, "\0", SPEC[:-200]])
)


@settings(max_examples=60, deadline=None)
@given(
    spec=TEXTS,
    number=TEXTS,
    overlay=TEXTS,
    pending=TEXTS,
    at=st.sampled_from(["decide", "look", ""]),
    defect=st.sampled_from(DEFECTS),
)
def test_the_agent_survives_any_record_and_any_failure(
    spec: str, number: str, overlay: str, pending: str, at: str, defect: Exception
) -> None:
    """Whatever stands in the record, and whatever fails: once both are right again, it follows the state that is applied."""

    async def test() -> None:
        case = Case()
        with case.at_work():
            await case.turn()
            followed = case.agent._followed
            assert followed is not None and followed.number == 1
            case.fails = {at: defect}
            for record in (
                record_of(number),
                record_of(2, **{OVERLAY_KEY: overlay, PENDING_KEY: pending}),
                record_of(2),
            ):
                case.source.now, case.source.applied = record, state_of(spec, 2)
                case.agent._state.due.add("farm")
                await case.turn()
                assert case.agent._followed is not None
            case.source.now, case.source.applied, case.fails = record_of(3), state_of(SPEC, 3), {}
            for _ in range(3):
                await case.turn()
            assert case.agent._followed.number == 3
            assert not case.agent._state.due
            case.end()

    asyncio.run(test())


def test_unchanged_pools_are_checked_while_a_state_cannot_be_adopted(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a state cannot be followed: of the one before, what holds for it too. It is tried again, not at each turn."""
    other = SPEC.replace(f"  spare:\n{CHECK}", "  spare:\n    health: {interval: 1800s, timeout: 1s}\n")
    tried: list[int] = []

    def fails(_query: object) -> Question:
        tried.append(1)
        raise UnicodeError("no such name")

    async def test() -> None:
        case = Case()
        with case.at_work():
            await case.turn()
            assert case.decided.pop() == {"farm", "spare"}
            case.source.now, case.source.applied = record_of(2), state_of(other, 2)
            with monkeypatch.context() as patch:
                patch.setattr("dnsteer.agent.probes.schedule.Question", fails)
                for _ in range(5):
                    await case.turn()
            assert case.decided == [{"farm"}]
            assert len(tried) == 1
            case.agent._state.due.add("farm")
            await case.turn()
            assert case.decided[1:] == [{"farm"}]
            (said,) = [text for text in case.said if "cannot be followed" in text]
            assert said.startswith("state 2 cannot be followed, and is tried again: UnicodeError: no such name (")
            assert said.endswith("the checks of the state before go on for farm, and all others stay as they are")
            case.agent._state_follower._retry.reset()
            await case.turn()
            await case.turn()
            assert case.decided[2:] == [{"farm", "spare"}]
            assert case.said[-1] == "state 2 is followed now"
            case.end()

    asyncio.run(test())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mac: 02:00:00:00:00:53", "mac: 02:00:00:00:00:54"),
        ("weight: 2", "weight: 3"),
        ("addresses: [192.0.2.53", "addresses: [192.0.2.55"),
    ],
)
def test_a_changed_pool_waits_until_its_state_is_adopted(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its backends, its VIPs, or the switch that it is asked through."""
    assert old in SPEC

    async def test() -> None:
        case = Case()
        with case.at_work(), monkeypatch.context() as patch:
            await case.turn()
            case.source.now, case.source.applied = record_of(2), state_of(SPEC.replace(old, new), 2)
            patch.setattr(state_follower, "read_followed_state", lambda *_: 1 / 0)
            await case.turn()
            assert case.agent._followed is not None
            assert "farm" not in case.agent._followed.rules
            case.end()

    asyncio.run(test())


def test_of_several_adopted_states_the_last_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool goes on that is as it was followed last, whatever a state between them had; addresses that are gone go."""
    announcing = SPEC.replace("  uplinks:\n", "  announce: {via: bird}\n  uplinks:\n")
    other = announcing.replace(f"  spare:\n{CHECK}", "  spare:\n    health: {interval: 1800s, timeout: 1s}\n")
    last = announcing.replace("weight: 2", "weight: 3").replace("192.0.2.53, ", "")
    assert len({announcing, other, last}) == 3

    async def test() -> None:
        case = Case()
        case.source.applied = state_of(announcing, 1)
        with case.at_work(), monkeypatch.context() as patch:
            await case.turn()
            patch.setattr(state_follower, "read_followed_state", lambda *_: 1 / 0)
            seen = []
            for number, text in enumerate((other, last, SPEC), 2):
                case.source.now, case.source.applied = record_of(number), state_of(text, number)
                await case.turn()
                followed = case.agent._followed
                assert followed is not None and followed.number == number
                routes = routes_of(followed.spec, dict.fromkeys(followed.spec.vips, True))
                seen.append(({rules.pool for rules in followed.rules.values()}, {str(address) for address in routes}))
            case.end()
        (first, before), (second, after), nothing = seen
        assert (first, second) == ({"farm"}, {"spare"})
        assert before - after == {"192.0.2.53/32"} and after < before
        assert nothing == (set(), set())

    asyncio.run(test())


@pytest.fixture
def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look is due as soon as there is a reason for it."""
    monkeypatch.setattr(next_work, "_QUIET", 0.0)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: type(defect).__name__)
def test_a_failed_step_does_not_postpone_the_check_of_the_switch(defect: Exception, looks_at_once: None) -> None:
    async def test() -> None:
        case = Case()
        with case.at_work():
            case.fails = {"decide": defect}
            await case.turn()
            said = "the switch stays as it is" if isinstance(defect, SwitchError) else "a defect in the main loop"
            assert said in case.said[-1] and case.agent._state.due
            assert case.looks == 1
            assert case.look_due_in() > 20, "not a regular one"
            case.end()

    asyncio.run(test())


@pytest.mark.parametrize(("step", "err"), [("look", SwitchError("x")), ("look", KeyError("x"))])
def test_a_failed_check_of_the_switch_is_tried_again_after_a_pause(
    step: str, err: Exception, looks_at_once: None
) -> None:
    """The look itself has failed, or the switch cannot be reached, so that no further step was tried."""

    async def test() -> None:
        case = Case()
        with case.at_work():
            case.fails = {step: err}
            await case.turn()
            assert 0 < case.look_due_in() < 1
            case.end()

    asyncio.run(test())


def test_the_check_of_the_switch_does_not_wait_for_the_probe_port(
    looks_at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the port is gone, it is the look that puts it back."""
    there: list[bool] = []

    def set_up(_spec: object) -> None:
        if not there:
            raise SwitchError("ip link set dev probe0 up: no such device")

    async def test() -> None:
        case = Case()
        with case.at_work():
            await case.turn()
            monkeypatch.setattr(probe_port, "set_up_probe_port", set_up)
            for text in ("cannot be set up: ip link set dev probe0 up: no such device", "is set up"):
                case.agent._state.looks = next_work.LookTimes()
                await case.turn()
                assert case.said[-1] == f"the port of probes {text}"
                assert case.look_due_in() > 20, "the look was not done"
                there.append(True)
            assert case.looks == 3
            case.end()

    asyncio.run(test())


def test_a_library_that_is_missing_keeps_the_state_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failover goes on with it."""

    async def test() -> None:
        case = Case()
        with case.at_work():
            await case.turn()
            case.decided.clear()
            other = SPEC.replace(f"  spare:\n{CHECK}", "  spare:\n    health: {check: https}\n")
            case.source.now, case.source.applied = record_of(2), state_of(other, 2)
            monkeypatch.setattr(stream.importlib.util, "find_spec", lambda name: None)
            case.agent._state.due.add("farm")
            await case.turn()
            await case.turn()
            assert case.decided == [{"farm"}]
            (said,) = [text for text in case.said if "cannot be followed" in text]
            assert "check: https needs h2: pip install 'dnsteer[agent]'; the checks of the state before go on" in said
            case.end()

    asyncio.run(test())


def test_a_starting_agent_leaves_out_checks_it_cannot_make(monkeypatch: pytest.MonkeyPatch) -> None:
    """All else goes on, and the state is followed as a whole once that can be."""
    partly = SPEC.replace(f"  spare:\n{CHECK}", "  spare:\n    health: {check: https}\n")

    async def test() -> None:
        case = Case()
        case.source.applied = state_of(partly, 1)
        with case.at_work():
            with monkeypatch.context() as patch:
                patch.setattr(stream.importlib.util, "find_spec", lambda name: None)
                for _ in range(3):
                    await case.turn()
            assert case.decided == [{"farm"}]
            (said,) = [text for text in case.said if "cannot be asked" in text]
            assert said.startswith(
                "state 1 is followed without checks of spare that cannot be asked, and are tried again: "
            )
            assert said.endswith("check: https needs h2: pip install 'dnsteer[agent]'")
            case.agent._state_follower._retry.reset()
            await case.turn()
            await case.turn()
            assert case.decided[1:] == [{"farm", "spare"}] and case.said[-1] == "state 1 is followed now"
            case.source.now = record_of(2)
            monkeypatch.setattr(state_follower, "read_followed_state", lambda *_: 1 / 0)
            await case.turn()
            assert case.agent._followed is not None and case.agent._followed.number == 2
            case.end()

    asyncio.run(test())


def test_troubles_end_with_their_cause_in_status(looks_at_once: None) -> None:
    """Tables of another version that are applied anew; and what a state that is followed no longer may have."""

    async def test() -> None:
        case = Case()

        def troubles() -> list[str]:
            return [one["about"] for one in case.agent._seen.knowledge_of("br-dns")["troubles"]]

        with case.at_work():
            case.found = SwitchInspection(other_version="99.0")
            await case.turn()
            assert troubles() == ["version"]
            case.found, case.agent._state.looks = SwitchInspection(), next_work.LookTimes()
            await case.turn()
            assert (troubles(), case.said[-1]) == ([], "the tables are watched")
            case.agent._observer.report_trouble("the metric of farm/ns1", "what farm/ns1 bears is not known")
            case.agent.supervisor.report_failure("deciding about farm", KeyError("x"))
            assert troubles() == ["metric of farm/ns1", "part deciding about farm"]
            case.source.now = record_of(2)
            await case.turn()
            assert troubles() == []
            case.end()

    asyncio.run(test())


def test_a_failing_observer_does_not_lose_a_check_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Metrics, the balance or the log: the backend is out all the same."""

    async def test() -> None:
        case = Case()
        with case.at_work():
            await case.turn()
            followed = case.agent._followed
            assert followed is not None
            for name in ("checked", "turned"):
                monkeypatch.setattr(case.agent._observer, name, lambda *_, **__: 1 / 0)
            target = next(t for t in followed.targets if t.pool == "farm")
            for time in (1.0, 2.0):
                case.agent._add(target, run.Result(time, "no answer"))
            assert case.agent._state.due == {"farm"}
            await case.turn()
            assert not case.agent._state.due
            case.end()

    asyncio.run(test())


def test_checks_failing_at_adoption_are_known_and_not_reported_again() -> None:
    async def test() -> None:
        case = Case()
        with case.at_work():
            await case.turn()
            followed = case.agent._state_follower.followed
            assert followed is not None
            target = next(t for t in followed.targets if t.pool == "farm")
            for time in (1.0, 2.0):
                case.agent._add(target, run.Result(time, "no answer"))
            case.source.now = record_of(2)
            said = len(case.said)
            await case.turn()  # decides
            await case.turn()
            (failing,) = case.agent._seen.knowledge_of("br-dns")["failing"]
            assert (failing["backend"], failing["why"]) == (target.backend, "no answer")
            assert not any("unhealthy" in text for text in case.said[said:])
            assert any("state 2," in text for text in case.said[said:])
            case.end()

    asyncio.run(test())


@pytest.mark.parametrize("broken", ["set_within", "next_work"])
def test_a_defect_between_turns_does_not_end_the_main_loop(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would start it again, and health checks would go on without anybody who decides."""
    original, turns = getattr(run, broken), list[int]()

    async def until(condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0.001)

    async def test() -> None:
        case = Case()
        monkeypatch.setattr(case.source, "close", lambda: case.said.append("closed"), raising=False)
        monkeypatch.setattr(run, "PAUSE", 0.001)
        read = case.source.record
        monkeypatch.setattr(case.source, "record", lambda: turns.append(1) or read())
        with case.at_work():
            monkeypatch.setattr(run, broken, lambda *_: 1 / 0)
            running = asyncio.ensure_future(case.agent.run())
            name = (
                "a defect in the turns of the main loop, which is tried again while all else goes on: ZeroDivisionError"
            )
            await until(lambda: any(text.startswith(name) for text in case.said))
            monkeypatch.setattr(run, broken, original)
            before = len(turns)
            await until(lambda: len(turns) > before and "the turns of the main loop works again" in case.said)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        assert case.said[-1] == "closed"

    asyncio.run(asyncio.wait_for(test(), 20))


def test_an_observer_that_fails_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it where it fails to take a defect: the log says it."""

    turns: list[str] = []

    class Fails(AgentObserver):
        def failed(self, why: str) -> None:
            turns.append(why)
            raise ZeroDivisionError

        def defect(self, part: str, said: str = "") -> None:
            raise KeyError

    async def test() -> None:
        case = Case()
        case.agent = Agent(TargetSwitch("unix:/nowhere"), "br-dns", case._say, lambda *_: 0, observers=[Fails()])
        monkeypatch.setattr(run, "PAUSE", 0.001)
        with case.at_work():
            running = asyncio.ensure_future(case.agent.run())
            while len(turns) < 3 and not running.done():
                await asyncio.sleep(0.001)
            assert len(turns) == 3
            running.cancel()
            await asyncio.wait([running])
        assert any("a defect in the turns of the main loop" in text for text in case.said)
        assert case.said[0].startswith("the switch stays as it is: ")

    asyncio.run(asyncio.wait_for(test(), 20))
