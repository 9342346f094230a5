"""Answers that are sent late, so that whoever guesses tokens waits for each; those who have a right one never do."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.responses import Response

LATE = 2.0
"""Seconds by which an answer is late."""
MAX_LATE, MAX_LATE_OF_CALLER = 32, 4
"""Late answers at once: of all callers, and of one. Further ones are sent at once: each holds a request and a connection."""


class LateAnswers:
    """Sends answers late, in bounded numbers."""

    def __init__(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        self._sleep = sleep
        self._waiting: Counter[str] = Counter()

    def late(self, caller: str, answer: Response) -> Response:
        """An answer for a caller, to be sent late."""
        return _LateAnswer(self, caller, answer)

    async def wait(self, caller: str) -> None:
        """Wait, unless too many do."""
        if self._waiting[caller] < MAX_LATE_OF_CALLER and sum(self._waiting.values()) < MAX_LATE:
            self._waiting[caller] += 1
            try:
                await self._sleep(LATE)
            finally:
                self._waiting[caller] -= 1
        if not self._waiting[caller]:
            del self._waiting[caller]


class _LateAnswer(Response):
    def __init__(self, late: LateAnswers, caller: str, answer: Response) -> None:
        super().__init__(status_code=answer.status_code)
        self._late, self._caller, self._answer = late, caller, answer

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Wait, and send the answer."""
        await self._late.wait(self._caller)
        await self._answer(scope, receive, send)
