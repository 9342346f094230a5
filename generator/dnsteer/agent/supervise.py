# SPDX-License-Identifier: Apache-2.0
"""Supervise the tasks of the agent: a failure that nobody foresaw is reported with its line, and the task started again.

A defect in one part of the agent must not stop the others, least of all the health checks. Only a cancellation ends a task.
"""

from __future__ import annotations

import asyncio
import os
import socket
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from dnsteer.metrics.observer import AgentObserver

FIRST_PAUSE = 1.0
"""Seconds until a task that failed is started again; each time twice as long."""
LONGEST_PAUSE = 60.0
STEADY = 10.0
"""Seconds without a failure after which a task counts as working again; or twice as long as it worked before, up to:"""
LONGEST_STEADY = 300.0

_EVENT = "an event"
"""What a callback of the event loop is called."""

Run = Callable[[], Coroutine[Any, Any, None]]


def error_location(err: BaseException) -> str:
    """Where an exception was raised: the innermost line of dnsteer's own, or else of a library's."""
    frames = traceback.extract_tb(err.__traceback__)
    own = [frame for frame in frames if "dnsteer" in Path(frame.filename).parts] or frames
    if not own:
        return "nowhere"
    file = Path(own[-1].filename)
    return f"{'/'.join(file.parts[-2:])}:{own[-1].lineno}, in {own[-1].name}: {own[-1].line}"


def describe_error(err: BaseException) -> str:
    """An exception in one line: its kind, its text and its place."""
    with suppress(Exception):  # the text of an exception may be what fails
        return f"{type(err).__name__}: {err} ({error_location(err)})"
    return type(err).__name__


class Supervisor:
    """Keeps tasks running, and reports what fails without a task of its own."""

    def __init__(self, observer: AgentObserver) -> None:
        self._observer = observer
        self._tasks: list[asyncio.Task[None]] = []
        self._reliefs: dict[str, tuple[float, asyncio.TimerHandle]] = {}
        """When parts failed last that nobody starts again, and what ends the trouble with each, unless it fails before."""

    def report_failure(self, part: str, err: BaseException) -> None:
        """Say and count that a *part* of the agent has failed. The same failure is said once."""
        text = f"a defect in {part}, which is tried again while all else goes on: {describe_error(err)}"
        with suppress(Exception):  # an observer may be what fails: the others are told all the same
            self._observer.defect(part, text)

    def report_recovery(self, part: str) -> None:
        """Say that it works again, if it had failed."""
        self._observer.end_trouble(f"the part {part}", f"{part} works again")

    @contextmanager
    def guarded(self, part: str) -> Iterator[None]:
        """Do in this context what nothing else depends on: it may fail."""
        try:
            yield
        except Exception as err:  # noqa: BLE001  whatever it is, the rest goes on
            self.report_failure(part, err)
        else:
            self.report_recovery(part)

    def start(self, part: str, run: Run) -> None:
        """Run a task until `stop`, and again whenever it ends."""
        self._tasks.append(asyncio.get_running_loop().create_task(self.keep(part, run)))

    async def keep(self, part: str, run: Run) -> None:
        """Run a task until cancelled, and again whenever it ends."""
        clock, pause, worked = asyncio.get_running_loop().time, FIRST_PAUSE, 0.0
        while True:
            task, began = asyncio.ensure_future(run()), clock()
            try:
                done, _ = await asyncio.wait([task], timeout=_steady_after(worked))
                if not done:
                    self.report_recovery(part)
                    pause = FIRST_PAUSE
                    await asyncio.wait([task])
            finally:
                await _ended(task)
            worked = clock() - began
            err = None if task.cancelled() else task.exception()
            self.report_failure(part, err or RuntimeError("it has ended by itself"))
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def catch_callbacks(self, loop: asyncio.AbstractEventLoop) -> None:
        """Report what fails in callbacks of the event loop, such as those of sockets and timers, and in tasks that nobody
        waits for (`start_task`)."""

        def failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            err = context.get("exception")
            if err is None or isinstance(err, OSError):  # such as of a connection: what asyncio says of it is logged
                loop.default_exception_handler(context)
            else:
                part = context.get("part", _EVENT)
                self.report_failure(part, err)
                self._relieve_later(part, loop)

        loop.set_exception_handler(failed)

    def _relieve_later(self, part: str, loop: asyncio.AbstractEventLoop) -> None:
        """Count a part as working again after a while in which it has not failed: nothing else says that it does."""
        worked = 0.0
        if part in self._reliefs:
            before, relief = self._reliefs[part]
            relief.cancel()
            worked = loop.time() - before
        said = "no event fails any more" if part == _EVENT else f"{part} works again"
        relieve = partial(self._observer.end_trouble, f"the part {part}", said)
        self._reliefs[part] = loop.time(), loop.call_later(_steady_after(worked), relieve)

    async def stop(self) -> None:
        """End all tasks."""
        for _, relief in self._reliefs.values():
            relief.cancel()
        for task in self._tasks:
            await _ended(task)


def _steady_after(worked: float) -> float:
    """The seconds without a failure after which a part counts as working, which has *worked* so long before the last one."""
    return min(max(STEADY, 2 * worked), LONGEST_STEADY)


async def _ended(task: asyncio.Future[None]) -> None:
    """Cancel a task, and wait until it has ended."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # or asyncio complains that nobody has looked


class Retry:
    """When something that failed is tried again: after a pause that doubles. Times are seconds of one clock."""

    def __init__(self) -> None:
        self._pause, self._due = 0.0, 0.0

    def is_due(self, now: float) -> bool:
        """Whether it is time."""
        return now >= self._due

    def due_in(self, now: float) -> float:
        """The seconds until it is time."""
        return max(self._due - now, 0.0)

    def postpone(self, now: float) -> None:
        """It has failed: try it again after a pause, twice as long as the last one."""
        self._pause = min(2 * self._pause, LONGEST_PAUSE) or FIRST_PAUSE
        self._due = now + self._pause

    def reset(self) -> None:
        """It has worked, or something else is to be tried: begin with a short pause again."""
        self._pause = self._due = 0.0


async def set_within(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait until the event is set, at most so long; return whether it is.

    Not by asyncio.wait_for, which loses a cancellation that comes at the wrong moment.
    """
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([waiting], timeout=seconds)
    finally:
        waiting.cancel()
    return event.is_set()


def notify_systemd(*lines: str) -> None:
    """Send a notification (sd_notify(3)), such as READY=1; nothing where systemd did not start this process."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
        to.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        to.send("\n".join(lines).encode())
