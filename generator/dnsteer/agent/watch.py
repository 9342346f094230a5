"""Notice changes of the bridge's flows, ports and groups, by ovs-ofctl. Those of OVSDB come by its replica."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from dnsteer.agent.held_switch import HeldSwitch
from dnsteer.switch.signals import ends_with_parent
from dnsteer.switch.tools import SwitchError, program

_AGAIN = 0.2
"""Seconds until a monitor that ended is started again."""
_ASK = 0.7
"""Seconds between two questions about what is not announced."""
_UNANSWERED = 5.0
"""Seconds after which a question is given up, and asked again."""
_PORTS_TOO = "1"
"""The length of packets to the controller, of which there are none; without it there are no messages about ports either."""
_MOST = 1 << 18


async def watch(switch: HeldSwitch, bridge: str) -> None:
    """Tell the memory about every change, until cancelled. The first notice is that the monitor works."""
    await asyncio.gather(_flows(switch, bridge), _unannounced(switch, bridge))


async def _flows(switch: HeldSwitch, bridge: str) -> None:
    while True:
        with suppress(SwitchError, OSError):
            await _follow(switch, bridge)
        switch.memory.notice()
        await asyncio.sleep(_AGAIN)


async def _unannounced(switch: HeldSwitch, bridge: str) -> None:
    """Ask for what OpenFlow announces no change of: how fragments are handled, and groups, where there should be any."""
    before: dict[str, str] = {}
    while True:
        await asyncio.sleep(_ASK)
        wanted = switch.memory.wanted
        for command in ("get-frags", *(["dump-groups"] if wanted is not None and wanted.groups else [])):
            with suppress(SwitchError, OSError):
                found = await asyncio.to_thread(switch.client(bridge).ofctl, command, timeout=_UNANSWERED)
                if found != before.setdefault(command, found):
                    before[command] = found
                    switch.memory.notice()


async def _follow(switch: HeldSwitch, bridge: str) -> None:
    async with _monitor(switch, bridge) as events:
        while await events.read(_MOST):  # which flows they are, a look at the tables tells
            switch.memory.notice()


@asynccontextmanager
async def _monitor(switch: HeldSwitch, bridge: str) -> AsyncIterator[asyncio.StreamReader]:
    """Run ovs-ofctl monitor for the time of the context. Yields what it prints."""
    process = await asyncio.create_subprocess_exec(
        program("ovs-ofctl"),
        *switch.client(bridge).arguments("monitor", _PORTS_TOO, "watch:!initial"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,  # where it prints its events, at once
        preexec_fn=ends_with_parent(signal.SIGKILL),
    )
    try:
        assert process.stdout is not None
        yield process.stdout
    except BaseException:
        with suppress(ProcessLookupError):
            process.kill()
        raise
    finally:
        await process.wait()
