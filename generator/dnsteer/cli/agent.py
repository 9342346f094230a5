"""The verb that runs the agent: `agent`."""

from __future__ import annotations

import asyncio
import resource
import signal
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dnsteer.cli.output import Exit, fail
from dnsteer.cli.running_switch import Bridge, on_switch
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.spec.errors import escape

if TYPE_CHECKING:
    from dnsteer.metrics.recorder import Recorder


def _address(text: str) -> tuple[str, int] | None:
    """Read ADDRESS:PORT; None for nothing. Raises typer.BadParameter."""
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        address = ip_address(bare)
    except ValueError:
        address = None
    wrapped = address is not None and (address.version == 6) == (bare != host)
    if not (colon and wrapped and port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 1 << 16):
        raise typer.BadParameter(
            f"found {text!r}; expected an IP address and a port, such as 127.0.0.1:9853 or [::1]:9853"
        )
    return bare, int(port)


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("agent")(on_switch(agent))


def _checked(text: str | None) -> str | None:
    _address(text or "")
    return text


Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics", metavar="ADDRESS:PORT", envvar="DNSTEER_METRICS", callback=_checked,
        help="Serve metrics for Prometheus there, such as 127.0.0.1:9853 or [::1]:9853. There is no authentication.",
    ),
]  # fmt: skip


def agent(switch: TargetSwitch, bridge: Bridge = None, metrics: Metrics = None) -> None:
    """Probe the backends of the applied spec, and take those that fail out of service, until stopped."""
    try:
        from dnsteer.agent.run import Agent
        from dnsteer.cli.agent_verbs import carry_out
    except ModuleNotFoundError as err:
        if err.name != "dns":
            raise
        fail("the agent needs dnspython: pip install 'dnsteer[agent]'", Exit.UNAVAILABLE)
    at = _address(metrics or "")
    recorder, serving = _metrics(switch, *at) if at is not None else (None, None)

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        server = loop.create_task(serving()) if serving is not None else None
        if server is not None:
            server.add_done_callback(_said_if_failed)
        try:
            await Agent(switch, bridge, _say, carry_out, recorder).run()
        except asyncio.CancelledError:
            _say("ends; the switch stays as it is")
        finally:
            if server is not None:
                server.cancel()
                await asyncio.wait([server])

    allow_files()
    asyncio.run(run())


def _metrics(switch: TargetSwitch, host: str, port: int) -> tuple[Recorder, Callable[[], Coroutine[Any, Any, None]]]:
    """What the agent tells of its work, and what serves it. Imported here: no other verb needs it."""
    try:
        from dnsteer.metrics.agent import AgentMetrics
        from dnsteer.metrics.collect import Collector
        from dnsteer.metrics.server import serve_metrics
    except ModuleNotFoundError as err:
        if err.name not in ("hypercorn", "prometheus_client", "starlette"):
            raise
        fail(f"--metrics needs {err.name}: pip install 'dnsteer[agent]'", Exit.UNAVAILABLE)
    recorder = AgentMetrics()
    return recorder, partial(serve_metrics, host, port, Collector(switch, recorder), _say)


def _said_if_failed(server: asyncio.Task[None]) -> None:
    """Say that metrics are gone: health checks go on without."""
    if not server.cancelled() and (error := server.exception()) is not None:
        _say(f"metrics are not served any more: {error!r}")


def allow_files() -> None:
    """Let this process open as many files as it may: most probes by UDP keep a socket, and the usual limit is 1024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _say(line: str) -> None:
    sys.stderr.write(f"{escape(line)}\n")
    sys.stderr.flush()
