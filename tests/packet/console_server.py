# SPDX-License-Identifier: Apache-2.0
"""A console with made-up data, served to real browsers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from dnsteer.metrics.server import serve_application
from tests.packet.agents import wait
from tests.unit.console_cases import Console


@contextmanager
def served_console(console: Console) -> Iterator[str]:
    """Serve it in a thread of its own; where it is, without a slash at the end."""
    said: list[str] = []
    loop = asyncio.new_event_loop()
    serving = loop.create_task(_serve(console, said))
    thread = threading.Thread(target=loop.run_until_complete, args=[asyncio.wait([serving])])
    thread.start()
    try:
        wait(lambda: said, lambda: "it does not serve")
        yield said[0].split()[-1].rstrip("/")
    finally:
        loop.call_soon_threadsafe(serving.cancel)
        thread.join()
        loop.close()


async def _serve(console: Console, said: list[str]) -> None:
    running = asyncio.create_task(console.live.run())
    try:
        await serve_application("127.0.0.1", 0, console.app, said.append, "console", "/", read_timeout=None)
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
