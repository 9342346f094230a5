# SPDX-License-Identifier: Apache-2.0
"""Rate limits against guessing of tokens: token buckets by caller, and answers that are delayed.

A request with a right token is never limited. All is in bounded memory.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Any

from starlette.responses import Response

MAX_KEYS = 4096
"""Callers that are remembered; the one that tried nothing for longest is forgotten first."""


@dataclass
class _Bucket:
    left: float
    at: float


@dataclass(frozen=True)
class AllowedRate:
    """*burst* at once, and *each* more a minute after that."""

    burst: int
    each: float


class RateLimit:
    """How often each caller, and all together, may do something."""

    def __init__(self, each: AllowedRate, all_: AllowedRate, clock: Callable[[], float] = time.monotonic) -> None:
        self._each, self._all, self._clock = each, all_, clock
        self._callers: OrderedDict[str, _Bucket] = OrderedDict()
        self._total = _Bucket(all_.burst, clock())

    def wait(self, caller: str) -> float:
        """Seconds until *caller* may do it again; 0 if now."""
        own = self._callers.get(caller)
        of_all = self._fill(self._total, self._all)
        return max(of_all, self._fill(own, self._each)) if own is not None else of_all

    def count(self, caller: str) -> None:
        """Count that *caller* has done it."""
        own = self._callers.setdefault(caller, _Bucket(self._each.burst, self._clock()))
        self._callers.move_to_end(caller)
        while len(self._callers) > MAX_KEYS:
            self._callers.popitem(last=False)
        for bucket, rate in ((own, self._each), (self._total, self._all)):
            self._fill(bucket, rate)
            bucket.left = max(0.0, bucket.left - 1)

    def _fill(self, bucket: _Bucket, rate: AllowedRate) -> float:
        """Fill a bucket up to now; seconds until there is one in it."""
        now = self._clock()
        bucket.left = min(float(rate.burst), bucket.left + (now - bucket.at) * rate.each / 60)
        bucket.at = now
        return 0.0 if bucket.left >= 1 else (1 - bucket.left) * 60 / rate.each


def caller_of(address: str) -> str:
    """The key of a client: its IPv4 address, or the /64 of its IPv6 address, since one host can have all of that."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        return str(found.ipv4_mapped or IPv6Address(int(found) >> 64 << 64))
    return str(found)


DELAY = 2.0
"""Seconds by which an answer is late."""
MAX_DELAYED, MAX_DELAYED_OF_CALLER = 32, 4
"""Late answers at once: of all callers, and of one. Further ones are sent at once: each holds a request and a connection."""


class DelayedAnswers:
    """Delays answers, a bounded number at once."""

    def __init__(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        self._sleep = sleep
        self._waiting: Counter[str] = Counter()

    def delay(self, caller: str, answer: Response) -> Response:
        """An answer for a caller that is sent after DELAY."""
        return _DelayedAnswer(self, caller, answer)

    async def wait(self, caller: str) -> None:
        """Wait, unless too many do."""
        if self._waiting[caller] < MAX_DELAYED_OF_CALLER and sum(self._waiting.values()) < MAX_DELAYED:
            self._waiting[caller] += 1
            try:
                await self._sleep(DELAY)
            finally:
                self._waiting[caller] -= 1
        if not self._waiting[caller]:
            del self._waiting[caller]


class _DelayedAnswer(Response):
    def __init__(self, delay: DelayedAnswers, caller: str, answer: Response) -> None:
        super().__init__(status_code=answer.status_code)
        self._delayed, self._caller, self._answer = delay, caller, answer

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Wait, and send the answer."""
        await self._delayed.wait(self._caller)
        await self._answer(scope, receive, send)
