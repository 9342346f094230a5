# SPDX-License-Identifier: Apache-2.0
"""Supervised asyncio tasks: none ends, or fails, unnoticed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
_CANCEL_AGAIN = 1.0
"""Seconds until a task is cancelled again that has not ended: asyncio.wait_for of Python 3.11 may forget that it was."""


async def run_together(
    works: Mapping[str, Coroutine[Any, Any, None]], end: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Run several works, by what they are, until cancelled or until one of them ends; the others end with it.

    Whoever supervises this sees why: it raises the exception, or RuntimeError for one that ended by itself. *end* is
    awaited before the others are cancelled.
    """
    tasks = {asyncio.create_task(work, name=name): name for name, work in works.items()}
    first: asyncio.Task[None] | None = None
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        first = next(task for task in tasks if task in ended)
    finally:
        if end is not None:
            await end()
        left = {task for task in tasks if not task.done()}
        while left:
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=_CANCEL_AGAIN)
        for task in tasks:
            if task is not first:
                _report(task)
    err = None if first.cancelled() else first.exception()
    raise err or RuntimeError(f"{tasks[first]} has ended by itself")


def start_task(name: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start what nobody waits for. The event loop's handler is told of an exception at once, with the *name*."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_report)
    return task


def _report(task: asyncio.Task[Any]) -> None:
    err = None if task.cancelled() else task.exception()
    if err is not None:
        told = {"message": f"{task.get_name()} has failed", "exception": err, "part": task.get_name()}
        task.get_loop().call_exception_handler(told)
