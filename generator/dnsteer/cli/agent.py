# SPDX-License-Identifier: Apache-2.0
"""The verb that runs the agent: `agent`."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dnsteer.cli.output import Exit, fail
from dnsteer.cli.running_switch import Bridge, on_switch
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.events.event_log import SOCKET, Journal, Log, is_journal
from dnsteer.events.formats import Format

if TYPE_CHECKING:
    from dnsteer.agent.run import Agent
    from dnsteer.console.serve import Security
    from dnsteer.events.event import EventSink
    from dnsteer.metrics.observer import AgentObserver
    from dnsteer.view.snapshot import SnapshotRecorder

    Serving = Mapping[str, Callable[[Agent], Coroutine[Any, Any, None]]]
    """What serves something, by what that is."""

_MAX_TOLD = 100
"""Refused senders that are reported, each once."""
ListenAddress = tuple[str, int]


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


def _checked(text: str | None) -> str | None:
    _address(text or "")
    return text


def _file_option(option: str, variable: str, text: str) -> typer.models.OptionInfo:
    made: typer.models.OptionInfo = typer.Option(option, metavar="FILE", envvar=variable, help=text)
    return made


TlsCert = Annotated[
    Path | None,
    _file_option(
        "--console-tls-cert",
        "DNSTEER_CONSOLE_TLS_CERT",
        "Serve the console by HTTPS with this certificate, PEM, followed by those of CAs between it and the root.",
    ),
]
TlsKey = Annotated[
    Path | None, _file_option("--console-tls-key", "DNSTEER_CONSOLE_TLS_KEY", "The certificate's private key, PEM.")
]
ClientCa = Annotated[
    Path | None,
    _file_option(
        "--console-client-ca",
        "DNSTEER_CONSOLE_CLIENT_CA",
        "Require client certificates signed by this CA, PEM; in addition to tokens, or instead of them if the console "
        "only reads.",
    ),
]
Tokens = Annotated[
    Path | None,
    _file_option(
        "--console-tokens",
        "DNSTEER_CONSOLE_TOKENS",
        "Ask for a token: a file of mode 0600, each line NAME ROLE SHA256; dnsteer console-token makes them.",
    ),
]
ConsoleNames = Annotated[
    list[str] | None,
    typer.Option(
        "--console-name",
        metavar="NAME",
        envvar="DNSTEER_CONSOLE_NAME",
        help="Another host name of the console; may be repeated. By default those of the certificate.",
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="ADDRESS:PORT",
        envvar="DNSTEER_METRICS",
        callback=_checked,
        help="Serve metrics for Prometheus there, such as 127.0.0.1:9853 or [::1]:9853. The TLS and tokens of the console "
        "are for it too; without them there is no authentication.",
    ),
]
Console = Annotated[
    str | None,
    typer.Option(
        "--console",
        metavar="ADDRESS:PORT",
        envvar="DNSTEER_CONSOLE",
        callback=_checked,
        help="Serve the web console there, with /metrics. It may be the same as that of --metrics. An address that is not a "
        "loopback one needs TLS and tokens.",
    ),
]
Push = Annotated[
    str | None,
    typer.Option(
        "--push",
        metavar="ADDRESS:PORT",
        envvar="DNSTEER_PUSH",
        callback=_checked,
        help="Accept loads of backends there (POST /load/POOL/BACKEND with a number), for pools with source: push. By "
        "plain HTTP, from the addresses that the spec allows.",
    ),
]
LogFormat = Annotated[
    Format,
    typer.Option(
        "--log",
        envvar="DNSTEER_LOG",
        help="How lines on standard error are written: text, or with all fields as logfmt or json. Under systemd "
        "the journal gets the fields in any case.",
    ),
]


@dataclass(frozen=True)
class ConsoleAccess:
    """Who may reach the console and how, by the options of the command line: files, and further host names."""

    certificate: Path | None
    key: Path | None
    client_ca: Path | None
    tokens: Path | None
    names: Sequence[str]

    def check(self, console: ListenAddress | None) -> None:
        """Refuse what does not go together. Raises typer.BadParameter."""
        if (self.certificate is None) != (self.key is None):
            raise typer.BadParameter("give --console-tls-cert and --console-tls-key both, or neither")
        if self.client_ca is not None and self.certificate is None:
            raise typer.BadParameter("--console-client-ca needs --console-tls-cert and --console-tls-key")
        for name in self.names:
            if not name or not name.isascii() or not name.isprintable() or any(c in name for c in "/ @\\"):
                raise typer.BadParameter(f"--console-name: found {name!r}; expected a name such as dpu-1.example.net")
        if console is None or ip_address(console[0]).is_loopback:
            return
        where = f"[{console[0]}]:{console[1]}" if ":" in console[0] else f"{console[0]}:{console[1]}"
        missing = [] if self.certificate else ["TLS (--console-tls-cert, --console-tls-key)"]
        missing += [] if self.tokens or self.client_ca else ["tokens (--console-tokens) or --console-client-ca"]
        if missing:
            raise typer.BadParameter(
                f"--console: found {where!r}; expected a loopback address such as 127.0.0.1:9853, or "
                f"{' and '.join(missing)}. "
                f"From elsewhere without: ssh -L {console[1]}:127.0.0.1:{console[1]} to this machine"
            )

    @property
    def any(self) -> bool:
        """Whether any was given."""
        return any((self.certificate, self.tokens, self.names))

    def security(self, console: ListenAddress | None, say: Callable[[str], None]) -> Security:
        """Read the files. Raises SwitchError that says what is wrong with one and what to do, and OSError."""
        from dnsteer.console.serve import Security
        from dnsteer.console.tls import ServerTls, TlsFiles
        from dnsteer.console.tokens import TokenFile
        from dnsteer.switch.tools import SwitchError

        tls = None
        if self.certificate is not None and self.key is not None:
            client_ca = self.client_ca.absolute() if self.client_ca is not None else None
            tls = ServerTls(TlsFiles(self.certificate.absolute(), self.key.absolute(), client_ca), say)
        tokens = TokenFile(self.tokens, say) if self.tokens is not None else None
        names = [f"[{name}]" if ":" in name and name[:1] != "[" else name.lower() for name in self.names]
        if console is not None and ip_address(console[0]).is_unspecified and not names and not (tls and tls.names):
            raise SwitchError(
                f"--console: {console[0]} is no name to answer by, and the certificate has none (subjectAltName); "
                f"give --console-name NAME, or an address of this machine"
            )
        return Security(tokens, tls, names)


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("agent")(on_switch(agent))


def agent(
    switch: TargetSwitch,
    bridge: Bridge = None,
    metrics: Metrics = None,
    console: Console = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    client_ca: ClientCa = None,
    tokens: Tokens = None,
    names: ConsoleNames = None,
    push: Push = None,
    log: LogFormat = Format.TEXT,
) -> None:
    """Probe the backends of the applied spec, and take those that fail out of service, until stopped."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it never ends the agent, not even while that begins
    access = ConsoleAccess(tls_cert, tls_key, client_ca, tokens, names or ())
    access.check(_address(console or ""))
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
    servers = _prepare_servers(switch, bridge, _address(metrics or ""), _address(console or ""), access, say)
    working = Agent(switch, bridge, say, partial(run_request, say), servers.recorder, servers.observers)
    servers.begin(working)

    async def run() -> None:
        this = asyncio.current_task()
        assert this is not None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, this.cancel)
        loop.add_signal_handler(signal.SIGHUP, servers.read_again)
        serving = {**servers.serving, **_load_servers(_address(push or ""), say)}
        tasks = [
            loop.create_task(working.supervisor.keep(what, partial(serve, working))) for what, serve in serving.items()
        ]
        try:
            await working.run()
        except asyncio.CancelledError:
            say("ends; the switch stays as it is", "ends")
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            servers.close()

    allow_files()
    asyncio.run(run())


@dataclass(frozen=True)
class AgentServers:
    """The servers of the agent, what they show, and further observers.

    *serving* serves it, *begin* tells the agent of it, *read_again* reads its files again, and *close* ends it.
    """

    recorder: SnapshotRecorder | None = None
    observers: Sequence[AgentObserver] = ()
    serving: Serving = field(default_factory=dict)
    begin: Callable[[Agent], None] = lambda _: None
    read_again: Callable[[], None] = lambda: None
    close: Callable[[], None] = lambda: None


def _prepare_servers(
    switch: TargetSwitch,
    bridge: str | None,
    metrics: ListenAddress | None,
    console: ListenAddress | None,
    access: ConsoleAccess,
    say: EventSink,
) -> AgentServers:
    """Prepare what is to be servers. Imported here: no other verb needs it."""
    if metrics is None and console is None:
        return AgentServers()
    try:
        from dnsteer.cli.prediction import predict
        from dnsteer.console.change_log import ConsoleRecorder
        from dnsteer.console.serve import AwaitedSecurity, serve_console, serve_metrics_behind
        from dnsteer.metrics.agent_metrics import AgentMetrics
        from dnsteer.metrics.collect import Collector
        from dnsteer.metrics.server import MetricsPages, serve_metrics
        from dnsteer.view.attention_item import bridge_options
    except ModuleNotFoundError as err:
        if err.name not in ("cryptography", "hypercorn", "prometheus_client", "starlette"):
            raise
        # Health checks matter more: the unit asks for metrics, and a host may lack what they need after an upgrade.
        what = "console and no metrics" if console else "metrics"
        why = f"the package {err.name} is missing; pip install 'dnsteer[agent]'"
        say(f"no {what}: {why}", "not_listening", "warning", reason=why)
        return AgentServers()

    serves = partial(_report_server, say)
    what = "console" if console else "metrics"
    security = AwaitedSecurity(lambda: access.security(console, serves), serves, what)
    recorder, counted = ConsoleRecorder() if console is not None else None, AgentMetrics()
    collector = Collector(switch, counted)
    pages = MetricsPages(collector)

    async def with_console(agent: Agent, address: ListenAddress, shown: ConsoleRecorder) -> None:
        found = await security.get()
        collector.certificate_end = lambda: found.certificate_end

        def listens(port: int) -> None:
            collector.console_url = found.url(address[0], port)

        await serve_console(
            *address,
            pages,
            shown,
            switch,
            serves,
            bridge_options(bridge),
            found,
            agent.verbs.run_verb,
            predict,
            listens,
        )

    async def with_metrics(at: ListenAddress) -> None:
        if not (ip_address(at[0]).is_loopback or (access.certificate and (access.tokens or access.client_ca))):
            how = "ask for a token, which is sent without TLS" if access.tokens else "are for everybody who reaches it"
            say(f"metrics at {at[0]} {how}", "access", "warning")
        if access.any:
            found = await security.get()
            collector.certificate_end = lambda: found.certificate_end
            await serve_metrics_behind(*at, pages, serves, found)
        else:
            await serve_metrics(*at, pages, serves)

    serving: dict[str, Callable[[Agent], Coroutine[Any, Any, None]]] = {}
    if console is not None and recorder is not None:
        serving["console and metrics" if metrics == console else "console"] = partial(
            with_console, address=console, shown=recorder
        )
    if metrics is not None and metrics != console:
        at = metrics
        serving["metrics"] = lambda _: with_metrics(at)

    def read_again() -> None:
        say("asked to read tokens and certificates again (SIGHUP); a spec is read by dnsteer apply alone", "access")
        security.read_again()

    def begin(agent: Agent) -> None:
        pages.on_read = lambda: agent.datapath_read(collector.not_understood)

    return AgentServers(recorder, (counted,), serving, begin, read_again, pages.close)


def _load_servers(at: ListenAddress | None, say: EventSink) -> Serving:
    """What serves the address for loads of backends, if there is one."""
    if at is None:
        return {}
    try:
        from dnsteer.agent.balance.pushed_metric import push_application, serve_push
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
            push_application(agent.balancer.pools_in_force, agent.balancer.add_pushed_metric, refused),
            partial(_report_server, say),
        )

    return {"loads of backends": serve}


def _report_server(say: EventSink, text: str) -> None:
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
