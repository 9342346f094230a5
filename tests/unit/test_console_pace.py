# SPDX-License-Identifier: Apache-2.0
"""Readings for the console's pages: what they cost, how often there is one, and that they end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import pytest

from dnsteer.console.live import _cpu
from dnsteer.console.page_reading import next_pause
from tests.unit.console_cases import Console


@pytest.mark.parametrize(("cost", "seconds"), [(0.0, 2.0), (0.04, 2.0), (0.1, 5.0), (0.3, 15.0), (9.0, 15.0)])
def test_a_reading_that_costs_much_is_rarer(cost: float, seconds: float) -> None:
    assert next_pause(cost, 2.0, 15.0) == pytest.approx(seconds)


def test_programs_that_a_reading_runs_count() -> None:
    own, both = time.process_time(), _cpu()
    subprocess.run([sys.executable, "-c", "sum(range(1_000_000))"], check=True)
    assert _cpu() - both > time.process_time() - own + 0.005


@pytest.mark.parametrize("steps", range(6))
def test_cancellation_is_kept_when_a_browser_connects(steps: int) -> None:
    """Until 3.11 asyncio.wait_for loses a cancellation that comes when what it waits for is done."""

    async def ends() -> bool:
        live = Console().live
        running = asyncio.create_task(live.run())
        await asyncio.sleep(0.05)
        live._looked.set()
        for _ in range(steps):
            await asyncio.sleep(0)
        running.cancel()
        done, _ = await asyncio.wait([running], timeout=2)
        return bool(done)

    assert asyncio.run(ends())
