"""Wait for an event, for a while. Not by asyncio.wait_for, which loses a cancellation that comes at the wrong moment."""

from __future__ import annotations

import asyncio


async def set_within(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait until the event is set, at most so long; return whether it is."""
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([waiting], timeout=seconds)
    finally:
        waiting.cancel()
    return event.is_set()
