"""The verb that runs the agent: `agent`."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import shlex
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dnsteer.cli.console_options import At, ClientCa, Given, Names, TlsCert, TlsKey, Tokens
from dnsteer.cli.output import Exit, fail
from dnsteer.cli.running_switch import Bridge, on_switch
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.events.event_log import SOCKET, Journal, Log, is_journal
from dnsteer.events.formats import Format

if TYPE_CHECKING:
    from dnsteer.agent.run import Agent
    from dnsteer.events.event import EventSink
    from dnsteer.metrics.observer import AgentObserver
    from dnsteer.view.snapshot import SnapshotRecorder

    Serving = Mapping[str, Callable[[Agent], Coroutine[Any, Any, None]]]
    """What serves something, by what that is."""


_MAX_TOLD = 100
"""Refused senders that are told of, each once."""


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
        help="Serve metrics for Prometheus there, such as 127.0.0.1:9853 or [::1]:9853. The TLS and tokens of the console "
        "are for it too; without them there is no authentication.",
    ),
]  # fmt: skip
Console = Annotated[
    str | None,
    typer.Option(
        "--console", metavar="ADDRESS:PORT", envvar="DNSTEER_CONSOLE", callback=_checked,
        help="Serve the web console there, with /metrics. It may be the same as that of --metrics. An address that is not a "
        "loopback one needs TLS and tokens.",
    ),
]  # fmt: skip
Push = Annotated[
    str | None,
    typer.Option(
        "--push", metavar="ADDRESS:PORT", envvar="DNSTEER_PUSH", callback=_checked,
        help="Take in there what backends bear (POST /load/POOL/BACKEND with a number), for pools with source: push. By "
        "plain HTTP, from the addresses that the spec allows.",
    ),
]  # fmt: skip
LogFormat = Annotated[
    Format,
    typer.Option(
        "--log", envvar="DNSTEER_LOG",
        help="How lines on standard error are written: text, or with all fields as logfmt or json. Under systemd "
        "the journal gets the fields in any case.",
    ),
]  # fmt: skip


def agent(
    switch: TargetSwitch, bridge: Bridge = None, metrics: Metrics = None, console: Console = None, tls_cert: TlsCert = None,
    tls_key: TlsKey = None, client_ca: ClientCa = None, tokens: Tokens = None, names: Names = None, push: Push = None,
    log: LogFormat = Format.TEXT,
) -> None:  # fmt: skip
    """Probe the backends of the applied spec, and take those that fail out of service, until stopped."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it never ends the agent, not even while that begins
    given = Given(tls_cert, tls_key, client_ca, tokens, names or ())
    given.check(_address(console or ""))
    try:
        from dnsteer.agent.run import Agent
        from dnsteer.cli.agent_verbs import run_request
    except ModuleNotFoundError as err:
        if err.name != "dns":
            raise
        fail("the agent needs dnspython: pip install 'dnsteer[agent]'", Exit.UNAVAILABLE)
    journal = Journal(os.environ.get("DNSTEER_JOURNAL") or SOCKET) if is_journal(sys.stderr) else None
    lines = Log(sys.stderr, log, journal)
    lines.take_over(logging.getLogger())
    say = lines.say
    served = _served(switch, bridge, _address(metrics or ""), _address(console or ""), given, say)
    working = Agent(switch, bridge, say, partial(run_request, say), served.seen, served.observers)
    served.begin(working)

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        loop.add_signal_handler(signal.SIGHUP, served.read_again)
        serving = {**served.serving, **_takes_loads(_address(push or ""), say)}
        servers = [
            loop.create_task(working.supervisor.keep(what, partial(serve, working))) for what, serve in serving.items()
        ]
        try:
            await working.run()
        except asyncio.CancelledError:
            say("ends; the switch stays as it is", "ends")
        finally:
            for server in servers:
                server.cancel()
            if servers:
                await asyncio.wait(servers)
            served.close()

    allow_files()
    asyncio.run(run())


@dataclass(frozen=True)
class Served:
    """What keeps what the agent knows, where more is to be kept than for its control socket, and who else observes it.

    *serving* serves it, *begin* tells the agent of it, *read_again* reads its files again, and *close* ends it.
    """

    seen: SnapshotRecorder | None = None
    observers: Sequence[AgentObserver] = ()
    serving: Serving = field(default_factory=dict)
    begin: Callable[[Agent], None] = lambda _: None
    read_again: Callable[[], None] = lambda: None
    close: Callable[[], None] = lambda: None


def _served(
    switch: TargetSwitch, bridge: str | None, metrics: At | None, console: At | None, given: Given, say: EventSink
) -> Served:
    """Prepare what is to be served. Imported here: no other verb needs it."""
    if metrics is None and console is None:
        return Served()
    try:
        from dnsteer.cli.prediction import predict
        from dnsteer.console.change_log import ConsoleRecorder
        from dnsteer.console.serve import AwaitedSecurity, serve_console, serve_metrics_behind
        from dnsteer.metrics.agent_metrics import AgentMetrics
        from dnsteer.metrics.collect import Collector
        from dnsteer.metrics.server import MetricsPages, serve_metrics
    except ModuleNotFoundError as err:
        if err.name not in ("cryptography", "hypercorn", "prometheus_client", "starlette"):
            raise
        # Health checks matter more: the unit asks for metrics, and a host may lack what they need after an upgrade.
        what = "console and no metrics" if console else "metrics"
        why = f"the package {err.name} is missing; pip install 'dnsteer[agent]'"
        say(f"no {what}: {why}", "not_listening", "warning", reason=why)
        return Served()

    serves = partial(_said_of_server, say)
    what = "console" if console else "metrics"
    security = AwaitedSecurity(lambda: given.security(console, serves), serves, what)
    seen, counted = ConsoleRecorder() if console is not None else None, AgentMetrics()
    collector = Collector(switch, counted)
    pages = MetricsPages(collector)
    options = shlex.join(["--bridge", bridge]) if bridge is not None else ""

    async def with_console(agent: Agent, at: At, of: ConsoleRecorder) -> None:
        found = await security.get()
        collector.certificate_end = lambda: found.certificate_end

        def listens(port: int) -> None:
            collector.console_url = found.url(at[0], port)

        await serve_console(*at, pages, of, switch, serves, options, found, agent.verbs.run_verb, predict, listens)

    async def with_metrics(at: At) -> None:
        if not (ip_address(at[0]).is_loopback or (given.certificate and (given.tokens or given.client_ca))):
            how = "ask for a token, which is sent without TLS" if given.tokens else "are for everybody who reaches it"
            say(f"metrics at {at[0]} {how}", "access", "warning")
        if given.any:
            found = await security.get()
            collector.certificate_end = lambda: found.certificate_end
            await serve_metrics_behind(*at, pages, serves, found)
        else:
            await serve_metrics(*at, pages, serves)

    serving: dict[str, Callable[[Agent], Coroutine[Any, Any, None]]] = {}
    if console is not None and seen is not None:
        serving["console and metrics" if metrics == console else "console"] = partial(with_console, at=console, of=seen)
    if metrics is not None and metrics != console:
        at = metrics
        serving["metrics"] = lambda _: with_metrics(at)

    def read_again() -> None:
        say("asked to read tokens and certificates again (SIGHUP); a spec is read by dnsteer apply alone", "access")
        security.read_again()

    def begin(agent: Agent) -> None:
        pages.on_read = lambda: agent.datapath_read(collector.not_understood)

    return Served(seen, (counted,), serving, begin, read_again, pages.close)


def _takes_loads(at: At | None, say: EventSink) -> Serving:
    """What serves the address for loads of backends, if there is one."""
    if at is None:
        return {}
    try:
        from dnsteer.agent.balance.push import push_application, serve_push
    except ModuleNotFoundError as err:
        why = f"the package {err.name} is missing; pip install 'dnsteer[agent]'"
        say(f"no loads of backends: {why}", "not_listening", "warning", reason=why)
        return {}
    told = set[str]()

    def refused(text: str) -> None:
        if text not in told and len(told) < _MAX_TOLD:
            told.add(text)
            say(text, "access", "warning")

    def serve(agent: Agent) -> Coroutine[Any, Any, None]:
        return serve_push(
            *at,
            push_application(agent.balancer.pools_in_force, agent.balancer.bears, refused),
            partial(_said_of_server, say),
        )

    return {"loads of backends": serve}


def _said_of_server(say: EventSink, text: str) -> None:
    """Say where something is served, or why it is not yet; and what the console says of tokens and certificates."""
    if text.startswith("no "):
        say(text, "not_listening", "warning", reason=text.partition(": ")[2])
    elif text.startswith("console: "):
        say(text, "access", "info" if "signed in" in text or "read again" in text else "warning")
    else:
        say(text, "listens", address=text.rpartition(" ")[2])


def allow_files() -> None:
    """Let this process open as many files as it may: most probes by UDP keep a socket, and the usual limit is 1024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
