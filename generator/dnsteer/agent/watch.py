# SPDX-License-Identifier: Apache-2.0
"""Notice changes of the bridge's flows, ports and groups, by ovs-ofctl. Those of OVSDB come by its replica."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from dnsteer.agent.held_switch import HeldSwitch
from dnsteer.agent.supervise import set_within
from dnsteer.deploy.wanted_switch import WantedSwitch
from dnsteer.metrics.tasks import run_together
from dnsteer.switch.signals import ends_with_parent
from dnsteer.switch.silent_bridge import read_silent_bridge
from dnsteer.switch.tools import SwitchError, UnavailableError, find_program

_AGAIN = 0.2
"""Seconds until a monitor that ended is started again."""
_TRIES = 10
"""Times in a row that the monitor failed, after which it is said. A switch that is started again takes a second or two."""
_ASK = 0.7
"""Seconds between two questions about what is not announced."""
_UNANSWERED = 5.0
"""Seconds after which a question is given up, and asked again."""
_SLOW = 0.2
"""Seconds after which an answer is late, and it is asked what forwards meanwhile."""
_NOTICED = 0.05
"""Seconds until ovs-vswitchd has noticed as well that its database has ended."""
_PORTS_TOO = "1"
"""The length of packets to the controller, of which there are none; without it there are no messages about ports either."""
_MAX = 1 << 18
_EVENT = re.compile(r"\w+_FLOW_MONITOR reply|OFPT_ECHO_REQUEST | event=(?:ADDED|MODIFIED) (.*)")
"""Where a message begins, one of a quiet minute, or a flow that was added or got other actions."""


async def watch(switch: HeldSwitch, bridge: str, failing: Callable[[str], None]) -> None:
    """Tell the memory about every change, until cancelled. The first notice is that the monitor works.

    *failing* gets why it does not, empty once it does.
    """
    ended = asyncio.Event()
    await run_together(
        {
            "the monitor of flows": _flows(switch, bridge, failing, ended),
            "the questions about groups and fragments": _unannounced(switch, bridge, ended),
            "the watch over the database": _database(switch, ended),
        }
    )


async def _flows(switch: HeldSwitch, bridge: str, failing: Callable[[str], None], ended: asyncio.Event) -> None:
    """Follow the monitor. *ended* is set whenever it has ended: the switch may be gone."""
    tries = 0
    while True:
        why = ""
        try:
            why = await _follow(switch, bridge, failing)
        except (SwitchError, OSError) as err:
            why = str(err)
        tries = tries + 1 if why else 0
        if tries >= _TRIES:
            failing(why)
        switch.memory.notice()
        ended.set()
        await asyncio.sleep(_AGAIN)


async def _unannounced(switch: HeldSwitch, bridge: str, ended: asyncio.Event) -> None:
    """Ask for what OpenFlow announces no change of: how fragments are handled, and groups and meters, where there
    should be any.

    Whether it answers at all tells whether it is there. It is asked now and then, and when the monitor or OVSDB has *ended*.
    """
    before: dict[str, str] = {}
    while True:
        await set_within(ended, _ASK)
        ended.clear()
        wanted = switch.memory.wanted
        for command in ("get-frags", *_unannounced_parts(wanted)):
            try:
                found = await _ask(switch, bridge, command)
            except (SwitchError, OSError):
                continue
            if found is None:
                break
            if found != before.setdefault(command, found):
                before[command] = found
                switch.memory.notice()


def _unannounced_parts(wanted: WantedSwitch | None) -> list[str]:
    """The questions about what the tables should have besides flows."""
    if wanted is None:
        return []
    return [*(["dump-groups"] if wanted.groups else []), *(["dump-meters"] if wanted.meters else [])]


async def _ask(switch: HeldSwitch, bridge: str, command: str) -> str | None:
    """The answer to a question. None: there is none, of which the memory is told. Raises SwitchError."""
    memory, silent = switch.memory, None
    asking = asyncio.create_task(asyncio.to_thread(switch.client(bridge).ofctl, command, timeout=_UNANSWERED))
    try:
        if not (await asyncio.wait([asking], timeout=_SLOW))[0]:
            silent = await asyncio.to_thread(read_silent_bridge, switch.remote, bridge, _UNANSWERED - _SLOW)
            if not asking.done():
                memory.note_slow_answer(silent)
        answer = await asking
    except UnavailableError as err:
        if silent is None:
            silent = await asyncio.to_thread(read_silent_bridge, switch.remote, bridge, _UNANSWERED)
        memory.note_silence(str(err), silent)
        return None
    finally:
        asking.cancel()
    memory.note_answer()
    return answer


async def _database(switch: HeldSwitch, ended: asyncio.Event) -> None:
    """Notice the end of a database on this machine: its ovs-vswitchd may let its bridges rest from now on."""
    kind, _, path = switch.remote.partition(":")
    while kind == "unix":
        with suppress(OSError):
            reader, writer = await asyncio.open_unix_connection(path)
            switch.memory.database_lost = False
            try:
                await reader.read()  # it says nothing by itself
            finally:
                writer.close()
            switch.memory.database_lost = True
            await asyncio.sleep(_NOTICED)
            ended.set()
        await asyncio.sleep(_ASK)


async def _follow(switch: HeldSwitch, bridge: str, failing: Callable[[str], None]) -> str:
    """Follow the monitor until it ends. Return what it said instead of events, if it did."""
    memory, rest = switch.memory, b""
    async with _monitor(switch, bridge) as events:
        first = (await events.readline()).decode(errors="replace")
        if not _EVENT.match(first):
            return (first + (await events.read(_MAX)).decode(errors="replace")).strip() or "it printed nothing"
        failing("")
        memory.notice()
        while read := await events.read(_MAX):
            *lines, rest = (rest + read).split(b"\n")
            if not all(_is_sent(line.decode(errors="replace"), memory.sent) for line in lines):
                memory.notice()  # what it is, a look at the tables tells
    return ""


def _is_sent(line: str, sent: frozenset[str]) -> bool:
    """Whether a line of the monitor tells no more than what the agent itself has changed last."""
    event = _EVENT.match(line)
    return event is not None and (event[1] is None or event[1] in sent)


@asynccontextmanager
async def _monitor(switch: HeldSwitch, bridge: str) -> AsyncIterator[asyncio.StreamReader]:
    """Run ovs-ofctl monitor for the time of the context. Yields what it prints."""
    process = await asyncio.create_subprocess_exec(
        find_program("ovs-ofctl"),
        # It needs no control socket, and may not be able to make one: where there is no /run/openvswitch, it would end.
        *switch.client(bridge).arguments("monitor", _PORTS_TOO, "watch:!initial", options=["--unixctl=none"]),
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
