"""How often the switch is read for the pages, and how long pages wait for it: they cost little, and come at once."""

from __future__ import annotations

import asyncio
from typing import Any

SHARE = 0.02
"""The part of a core that each of the readings may take: that of counters, and those of the pages Offload and Path."""
WAIT = 0.3
"""Seconds that a page waits for a reading of its own: it is to be painted within a second, and shows it when it comes."""


def next_pause(cost: float, least: float, most: float) -> float:
    """Seconds from one reading to the next, within bounds. *cost* is what one takes, in seconds of a core."""
    return max(least, min(cost / SHARE, most))


async def briefly(reading: asyncio.Future[Any]) -> None:
    """Wait for a reading that is under way, as long as a page may."""
    await asyncio.wait([reading], timeout=WAIT)
