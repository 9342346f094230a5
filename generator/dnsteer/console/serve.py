"""The console in the agent's event loop."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from dnsteer.console.app import SERVER, application
from dnsteer.console.content import Pages
from dnsteer.console.live import Live
from dnsteer.console.prediction import Predict
from dnsteer.console.recorder import ConsoleRecorder
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.metrics.server import Pages as Metrics
from dnsteer.metrics.server import Say, serve_application


async def serve_console(
    host: str, port: int, metrics: Metrics, recorder: ConsoleRecorder, switch: TargetSwitch, say: Say, options: str = "",
    predict: Predict | None = None,
) -> None:  # fmt: skip
    """Serve the console, with /metrics, until cancelled. *options* are those that commands on its pages have."""
    live = Live(recorder, metrics, switch, Pages(), options, predict)
    running = asyncio.create_task(live.run())
    serving = asyncio.create_task(
        serve_application(host, port, application(live, metrics.page, host), say, "console", "/", **SERVER)
    )
    try:
        done, _ = await asyncio.wait([running, serving], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await live.end()
        for task in (running, serving):
            task.cancel()
        for task in (running, serving):
            with suppress(asyncio.CancelledError):
                await task
