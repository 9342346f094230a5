# SPDX-License-Identifier: Apache-2.0
"""The console in the agent's event loop, and /metrics with the console's TLS and tokens."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from typing import Any

from dnsteer.console.access import Access
from dnsteer.console.app import SERVER, RequestGuard, console_application
from dnsteer.console.change_log import ConsoleRecorder
from dnsteer.console.live import LivePages
from dnsteer.console.page_content import ConsolePages
from dnsteer.console.prediction import Predict
from dnsteer.console.tls import ServerTls
from dnsteer.console.tokens import TokenFile
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.deploy.verb_request import RunVerb
from dnsteer.metrics.server import RETRY_INTERVAL, LogLine, MetricsPages, metrics_application, serve_application
from dnsteer.metrics.tasks import run_together
from dnsteer.switch.tools import SwitchError


@dataclass(frozen=True)
class Security:
    """The access and transport security of the console: tokens, TLS, and further names that it answers by."""

    tokens: TokenFile | None = None
    tls: ServerTls | None = None
    names: Collection[str] = ()

    @property
    def context(self) -> ssl.SSLContext | None:
        """The context of TLS; None without."""
        return self.tls.context if self.tls is not None else None

    def tasks(self) -> dict[str, Coroutine[Any, Any, None]]:
        """What must run beside the server, by what it is."""
        return {"the watch over the certificate": self.tls.watch()} if self.tls is not None else {}

    def read_again(self) -> None:
        """Read the files again, whether they have changed or not."""
        if self.tokens is not None:
            self.tokens.read_again()
        if self.tls is not None:
            self.tls.read_again()

    @property
    def certificate_end(self) -> datetime | None:
        """When the certificate ends that is in use; None without TLS."""
        return self.tls.end if self.tls is not None else None

    def url(self, host: str, port: int) -> str:
        """Where a browser finds what is served at an address: by a name that was given, or that the certificate has.

        Empty where every address of the machine is served and it has no name.
        """
        of_tls = self.tls.names if self.tls is not None else ()
        named = [
            *self.names,
            *sorted((name for name in of_tls if "*" not in name), key=lambda name: (_is_ip(name), name)),
        ]
        at = f"[{host}]" if ":" in host else host
        if not named and ip_address(host).is_unspecified:
            return ""
        return f"{'http' if self.tls is None else 'https'}://{[*named, at][0]}:{port}/"

    def hosts(self) -> Collection[str]:
        """The names that the console answers by besides the machine's own."""
        return {*self.names, *(self.tls.names if self.tls is not None else ())}


def _is_ip(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


class AwaitedSecurity:
    """The security of a console as soon as its files are right: until then nothing is served, and health checks go on.

    *read* reads the files, and raises SwitchError or OSError; *log* gets what is wrong, once; *what* is to be served.
    """

    def __init__(self, read: Callable[[], Security], log: LogLine, what: str) -> None:
        self._read, self._log, self._what = read, log, what
        self._lock, self._asked = asyncio.Lock(), asyncio.Event()
        self._found: Security | None = None

    def read_again(self) -> None:
        """Read the files again, now rather than at the next try if they were not right yet."""
        if self._found is not None:
            self._found.read_again()
        self._asked.set()

    async def get(self) -> Security:
        """Wait until the files are right."""
        said = ""
        async with self._lock:
            while self._found is None:
                try:
                    self._found = self._read()
                except (SwitchError, OSError) as err:
                    why = f"{err.filename}: {err.strerror}" if isinstance(err, OSError) else str(err)
                    if why != said:
                        said = why
                        self._log(f"no {self._what} yet, tried again every {RETRY_INTERVAL:g} s: {why}")
                    self._asked.clear()
                    with suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(self._asked.wait(), RETRY_INTERVAL)
            return self._found


async def serve_console(
    host: str,
    port: int,
    metrics: MetricsPages,
    recorder: ConsoleRecorder,
    switch: TargetSwitch,
    log: LogLine,
    options: str = "",
    security: Security = Security(),
    run_verb: RunVerb | None = None,
    predict: Predict | None = None,
    on_listening: Callable[[int], None] = lambda _: None,
) -> None:
    """Serve the console, with /metrics, until cancelled.

    *options* are those of the commands on its pages. *on_listening* is called with the port once it can be reached.
    """
    live = LivePages(recorder, metrics, switch, ConsolePages(), options, predict, log)
    # Without tokens nobody can sign in, so there is nobody to change anything.
    verbs = run_verb if security.tokens is not None else None
    access = Access(security.tokens, log, secure=security.tls is not None)
    app = console_application(live, metrics.page, host, access, security.hosts, verbs)
    serving = serve_application(host, port, app, log, "console", "/", security.context, on_listening, **SERVER)
    await run_together({"the pages": live.run(), "the server": serving, **security.tasks()}, live.end)


async def serve_metrics_behind(host: str, port: int, metrics: MetricsPages, log: LogLine, security: Security) -> None:
    """Serve /metrics alone, with the console's TLS and tokens, until cancelled."""
    access = Access(security.tokens, log, secure=security.tls is not None, browsers=False)
    app = RequestGuard(metrics_application(metrics), host, access, security.hosts)
    serving = serve_application(host, port, app, log, "metrics", "/metrics", security.context)
    await run_together({"the server": serving, **security.tasks()})
