"""The verb that runs the agent: `agent`."""

from __future__ import annotations

import asyncio
import resource
import signal
import sys

import typer

from dnsteer.cli.output import Exit, fail
from dnsteer.cli.running_switch import Bridge, on_switch
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.spec.errors import escape


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("agent")(on_switch(agent))


def agent(switch: TargetSwitch, bridge: Bridge = None) -> None:
    """Probe the backends of the applied spec, and take those that fail out of service, until stopped."""
    try:
        from dnsteer.agent.run import Agent
        from dnsteer.cli.agent_verbs import carry_out
    except ModuleNotFoundError as err:
        if err.name != "dns":
            raise
        fail("the agent needs dnspython: pip install 'dnsteer[agent]'", Exit.UNAVAILABLE)

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        try:
            await Agent(switch, bridge, _say, carry_out).run()
        except asyncio.CancelledError:
            _say("ends; the switch stays as it is")

    allow_files()
    asyncio.run(run())


def allow_files() -> None:
    """Let this process open as many files as it may: most probes by UDP keep a socket, and the usual limit is 1024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _say(line: str) -> None:
    sys.stderr.write(f"{escape(line)}\n")
    sys.stderr.flush()
