# SPDX-License-Identifier: Apache-2.0
"""What fails in a way that nobody foresaw is said with its place, counted, and tried again; the rest goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from dnsteer.agent import supervise
from dnsteer.agent.event_reporter import EventReporter
from dnsteer.agent.supervise import Retry, Supervisor
from dnsteer.metrics.observer import AgentObserver, Observers
from dnsteer.metrics.tasks import run_together, start_task


class Told(AgentObserver):
    """Keeps the parts that failed."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def defect(self, part: str, said: str = "") -> None:
        self.parts.append(part)


class Case:
    """A supervisor, and what it said."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.told = Told()
        self.supervisor = Supervisor(Observers(self.told, EventReporter(self._say)))

    def _say(self, text: str, event: str, level: str, **fields: object) -> None:
        self.said.append(f"{event}: {text}")


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setattr(supervise, "FIRST_PAUSE", 0.001)
    return Case()


def divide(by: float) -> float:
    return 1 / by


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def test_a_task_that_fails_is_started_again(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that ends by itself, or is cancelled by its own doing. A failure is said once, and counted each time."""
    monkeypatch.setattr(supervise, "STEADY", 0.02)
    began: list[int] = []
    ended: list[str] = []

    async def task() -> None:
        began.append(len(began))
        if len(began) < 3:
            divide(0)
        if len(began) == 3:
            return
        if len(began) == 4:
            raise asyncio.CancelledError
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("in order")

    async def test() -> None:
        case.supervisor.start("the balance", task)
        await until(lambda: "trouble_over: the balance works again" in case.said)
        await case.supervisor.stop()

    asyncio.run(asyncio.wait_for(test(), 20))
    assert (began, ended) == ([0, 1, 2, 3, 4], ["in order"])
    assert case.told.parts == ["the balance"] * 4
    assert len(case.said) == 3
    assert case.said[0].startswith("trouble: a defect in the balance, which is tried again while all else goes on: ")
    assert "ZeroDivisionError: division by zero (unit/test_supervise.py:" in case.said[0]
    assert "in divide: return 1 / by)" in case.said[0]


def test_failures_in_guarded_parts_are_counted_and_pass(case: Case) -> None:
    for by in (0, 0, 1):
        with case.supervisor.guarded("metrics"):
            divide(by)
    with pytest.raises(asyncio.CancelledError), case.supervisor.guarded("metrics"):
        raise asyncio.CancelledError
    assert case.told.parts == ["metrics", "metrics"]
    assert [line.partition(":")[0] for line in case.said] == ["trouble", "trouble_over"]


def test_failures_in_loop_callbacks_are_reported(case: Case) -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        case.supervisor.catch_callbacks(loop)
        loop.call_soon(divide, 0)
        await until(lambda: bool(case.said))

    asyncio.run(asyncio.wait_for(test(), 20))
    assert case.told.parts == ["an event"]
    assert "ZeroDivisionError" in case.said[0]


def test_an_unawaited_task_is_reported_when_it_fails(case: Case) -> None:
    """By its name, and while somebody still has it: asyncio itself would complain once it is forgotten."""

    async def task() -> None:
        divide(0)

    async def test() -> None:
        case.supervisor.catch_callbacks(asyncio.get_running_loop())
        kept = start_task("the prediction", task())
        await until(lambda: bool(case.said))
        assert kept.done()
        await case.supervisor.stop()

    asyncio.run(asyncio.wait_for(test(), 20))
    assert case.told.parts == ["the prediction"]
    assert case.said[0].startswith(
        "trouble: a defect in the prediction, which is tried again while all else goes on: Zero"
    )


def test_a_part_restarts_all_of_its_tasks_when_one_fails(case: Case) -> None:
    """As the monitor and the console are: several tasks that are no use without each other."""
    began: list[str] = []
    ended: list[str] = []

    async def works(name: str) -> None:
        began.append(name)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(name)

    async def part() -> None:
        await run_together({"one": works("one"), "other": works("other")})

    async def test() -> None:
        case.supervisor.start("the monitor", part)
        await until(lambda: len(began) == 2)
        (one,) = [task for task in asyncio.all_tasks() if task.get_name() == "one"]
        one.cancel()  # nobody of us did that
        await until(lambda: len(began) == 4)
        assert sorted(ended) == ["one", "other"]
        await case.supervisor.stop()

    asyncio.run(asyncio.wait_for(test(), 20))
    assert sorted(ended) == ["one", "one", "other", "other"]
    assert case.told.parts == ["the monitor"]
    assert case.said[0].startswith("trouble: a defect in the monitor, which is tried again while all else goes on: ")
    assert "one has ended by itself" in case.said[0]


class FakeLoop:
    """An event loop with a clock that stands still, and what is to be called later."""

    def __init__(self) -> None:
        self.now, self.later = 0.0, list[tuple[float, Callable[[], None]]]()
        self.fail: Callable[[object, dict[str, object]], None] = lambda *_: None

    def time(self) -> float:
        return self.now

    def set_exception_handler(self, handler: Callable[[object, dict[str, object]], None]) -> None:
        self.fail = handler

    def call_later(self, seconds: float, call: Callable[[], None]) -> FakeLoop:
        self.later.append((self.now + seconds, call))
        return self

    def cancel(self) -> None:
        self.later.clear()

    def pass_time(self, until: float) -> None:
        for time, call in [*self.later]:
            if time <= until:
                self.later.clear()
                call()
        self.now = until


def test_the_trouble_with_events_ends_once_none_has_failed_for_a_while(case: Case) -> None:
    """For longer after each, up to a bound: what fails now and then is not said each time."""
    loop, over = FakeLoop(), "trouble_over: no event fails any more"
    case.supervisor.catch_callbacks(loop)  # type: ignore[arg-type]
    for failed, still, ended in ((0.0, 4.0, None), (5.0, 14.9, 15.0), (45.0, 124.9, 125.0), (1000.0, 1299.9, 1300.0)):
        loop.pass_time(failed)
        loop.fail(loop, {"exception": ZeroDivisionError("x")})
        told = len(case.said)
        loop.pass_time(still)
        assert len(case.said) == told and case.said[-1] != over
        if ended is not None:
            loop.pass_time(ended)
            assert case.said[told:] == [over]
    loop.fail(loop, {"exception": ZeroDivisionError("x")})
    asyncio.run(case.supervisor.stop())
    assert not loop.later


class UnprintableError(Exception):
    """An exception whose text fails."""

    def __str__(self) -> str:
        raise ValueError


def test_an_exception_without_a_text(case: Case) -> None:
    with case.supervisor.guarded("metrics"):
        raise UnprintableError
    assert case.said[0].endswith(": UnprintableError")


def test_pauses_double_up_to_a_minute() -> None:
    retry, time, pauses = Retry(), 0.0, []
    assert retry.is_due(time)
    for _ in range(8):
        retry.postpone(time)
        assert not retry.is_due(time)
        pause = next(p for p in range(1, 100) if retry.is_due(time + p))
        pauses.append(pause)
        time += pause
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    retry.reset()
    assert retry.is_due(0.0)
