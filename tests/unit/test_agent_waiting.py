# SPDX-License-Identifier: Apache-2.0
"""Waiting for an event, for a while: a cancellation is never lost."""

from __future__ import annotations

import asyncio

import pytest

from dnsteer.agent.supervise import set_within


@pytest.mark.parametrize("turns", range(6))
def test_a_cancellation_beside_the_event_is_not_lost(turns: int) -> None:
    async def run() -> None:
        event = asyncio.Event()

        async def waits() -> None:
            while True:
                await set_within(event, 10)
                event.clear()

        waiting = asyncio.create_task(waits())
        for _ in range(5):
            await asyncio.sleep(0)
        event.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting.cancel()
        done, _ = await asyncio.wait([waiting], timeout=1)
        assert done and waiting.cancelled()

    asyncio.run(run())


def test_the_wait_returns_whether_the_event_was_set() -> None:
    async def run() -> None:
        event = asyncio.Event()
        assert not await set_within(event, 0.01)
        event.set()
        assert await set_within(event, 10)

    asyncio.run(run())
