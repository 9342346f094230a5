# SPDX-License-Identifier: Apache-2.0
"""Several tasks that belong together: the first that ends ends them all, and whoever runs them learns why."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

import dnsteer
from dnsteer.metrics import tasks
from dnsteer.metrics.tasks import run_together


def play(test: Any) -> None:
    asyncio.run(asyncio.wait_for(test, 20))


class Work:
    """Works until cancelled; then it fails, or forgets so often that it was cancelled."""

    def __init__(self, fails: Exception | None = None, forgets: int = 0) -> None:
        self.fails, self.forgets = fails, forgets
        self.begun = asyncio.Event()
        self.ended = False

    async def run(self) -> None:
        self.begun.set()
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if self.forgets:
                    self.forgets -= 1
                    continue
                self.ended = True
                if self.fails is not None:
                    raise self.fails from None
                raise


async def fails() -> None:
    raise ZeroDivisionError("x")


async def ends() -> None:
    pass


async def is_cancelled() -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("work", "err", "said"),
    [
        (fails, ZeroDivisionError, "^x$"),
        (ends, RuntimeError, "^the pages has ended by itself$"),
        (is_cancelled, RuntimeError, "^the pages has ended by itself$"),
    ],
)
def test_the_first_that_ends_ends_them_all(work: Any, err: type[Exception], said: str) -> None:
    async def test() -> None:
        other = Work()
        with pytest.raises(err, match=said):
            await run_together({"the server": other.run(), "the pages": work()})
        assert other.ended

    play(test())


def test_cancellation_calls_the_end_first_and_ends_all_tasks() -> None:
    async def test() -> None:
        works, before = [Work(), Work()], list[bool]()

        async def end() -> None:
            before.extend(work.ended for work in works)

        task = asyncio.ensure_future(run_together({str(n): work.run() for n, work in enumerate(works)}, end))
        for work in works:
            await work.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert before == [False, False] and all(work.ended for work in works)

    play(test())


def test_a_task_that_ignores_cancellation_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_CANCEL_AGAIN", 0.001)

    async def test() -> None:
        other = Work(forgets=2)
        with pytest.raises(ZeroDivisionError):
            await run_together({"the server": other.run(), "the pages": fails()})
        assert other.ended

    play(test())


def test_failures_during_cancellation_are_reported() -> None:
    seen: list[tuple[str, str]] = []

    async def test() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, told: seen.append((told["part"], str(told["exception"]))))
        with pytest.raises(ZeroDivisionError):
            await run_together({"the server": Work(fails=KeyError("y")).run(), "the pages": fails()})

    play(test())
    assert seen == [("the server", "'y'")]


AWAITED = {
    "agent/supervise.py": "keeps them, or awaits it in place",
    "agent/watch.py": "awaits it in place",
    "cli/agent.py": "keeps them by the supervisor",
    "console/live.py": "awaits it in place",
    "console/change_pages.py": "shows how it has ended",
    "metrics/server.py": "awaits it in place",
    "metrics/tasks.py": "is what others use",
}
"""The modules that may begin tasks otherwise than by `run_together`, `start_task` and the supervisor, and why."""


def test_every_task_of_the_tree_is_awaited() -> None:
    root = Path(dnsteer.__file__).parent
    begins = re.compile(r"\b(create_task|ensure_future)\(")
    found = {str(f.relative_to(root)) for f in root.rglob("*.py") if begins.search(f.read_text())}
    assert found == AWAITED.keys(), "use start_task or run_together of metrics/tasks.py, or say here who sees its end"
