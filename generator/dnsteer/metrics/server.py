# SPDX-License-Identifier: Apache-2.0
"""/metrics over HTTP, inside the agent's event loop; the switch is read in a thread of its own.

Ten scrapers cost as much as one: a reading that is less than a second old, or under way, is shared. That of a large spec is
shared for longer, so that readings take a small share of the time however often somebody scrapes.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import sys
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from hypercorn.asyncio import run as hypercorn_run
from hypercorn.asyncio import serve
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.config import Config, Sockets
from hypercorn.events import Event, Updated
from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from dnsteer.metrics.exposition import Exposition
from dnsteer.spec.errors import DefinitionError

SHARED, LONGEST = 1.0, 10.0
"""Seconds for which a reading is shared, at least and at most: Prometheus scrapes every 15 s, where nothing else is set."""
SHARE = 0.05
"""Share of the time that readings may take, within these bounds."""
RETRY_INTERVAL = 5.0
"""Seconds until an address that is in use is tried again."""
MAX_CONNECTIONS = 512
"""Connections of a listener at once."""
_SWITCH_INTERVAL = 0.0005
"""Seconds after which Python's threads take turns: its usual 5 ms would delay a decision by many times that."""
TEXT = """dnsteer agent

/metrics  counters and states of the switch and of this agent, for Prometheus
"""
LogLine = Callable[[str], None]


class MetricsSource(Protocol):
    """Reads all metrics."""

    def collect(self) -> list[Metric]:
        """All metrics now."""


@dataclass
class _Reading:
    """A reading of all metrics, with the pages that were made of it by content type."""

    metrics: asyncio.Future[list[Metric]]
    until: float | None = None
    """Until when it is shared; None while it is under way."""
    ended: float = 0.0
    """When it was done, in seconds on the clock of *until*."""
    pages: dict[str, asyncio.Future[bytes]] = field(default_factory=dict)


class MetricsPages:
    """The pages of /metrics. *source* is read in the one thread that this has, until `close`."""

    def __init__(self, source: MetricsSource, clock: Callable[[], float] = time.monotonic) -> None:
        self._source, self._clock = source, clock
        self._thread = ThreadPoolExecutor(1, "metrics")
        self._reading: _Reading | None = None
        self._expositions: dict[str, Exposition] = {}
        """By content type."""
        self.on_read: Callable[[], None] = lambda: None
        """Called on the event loop after each reading."""

    def _shared(self) -> _Reading:
        """The reading that is less than SHARED old, or under way, or else one that begins now."""
        reading = self._reading
        if reading is None or (reading.until is not None and self._clock() >= reading.until):
            began = self._clock()
            loop = asyncio.get_running_loop()
            reading = self._reading = _Reading(loop.run_in_executor(self._thread, self._source.collect))
            reading.metrics.add_done_callback(partial(self._done, reading, began))
        return reading

    async def reading(self) -> tuple[list[Metric], float]:
        """All metrics, as `page` has them, and when they were read, in seconds on the clock."""
        reading = self._shared()
        metrics = await asyncio.shield(reading.metrics)
        return metrics, reading.ended

    async def page(self, accept: str) -> tuple[bytes, str]:
        """The page in the format that is asked for, and its content type."""
        encode, kind = _format(accept)
        loop = asyncio.get_running_loop()
        reading = self._shared()
        metrics_now = await asyncio.shield(reading.metrics)
        made = reading.pages.get(kind)
        if made is None:
            exposition = self._expositions.setdefault(kind, Exposition(kind))
            made = reading.pages[kind] = loop.run_in_executor(self._thread, exposition.page, encode, metrics_now)
        return await asyncio.shield(made), kind

    def _done(self, reading: _Reading, began: float, _: object) -> None:
        reading.ended = now = self._clock()
        reading.until = now + min(max(SHARED, (now - began) / SHARE), LONGEST)
        self.on_read()

    def close(self) -> None:
        """End the thread, once it is done with what it reads."""
        self._thread.shutdown(wait=False, cancel_futures=True)


_OPENMETRICS, _TEXT = "application/openmetrics-text; version=1.0.0", "text/plain; version=1.0.0"


def _format(accept: str) -> tuple[Callable[[Any], bytes], str]:
    """One of three formats, as a page of each is kept: the library has one for every version that is asked for.

    Names here need no escaping, so that a page is the same whichever escaping is asked for.
    """
    asked = choose_encoder(accept)[1]
    if asked.startswith("application/"):
        return choose_encoder(_OPENMETRICS)
    return choose_encoder("" if asked.startswith("text/plain; version=0.0.4") else _TEXT)


def metrics_application(pages: MetricsPages) -> Starlette:
    """The application: `/` and `/metrics`, GET and HEAD only."""

    async def metrics(request: Request) -> Response:
        try:
            body, kind = await pages.page(",".join(request.headers.getlist("accept")))
        except DefinitionError as err:
            return PlainTextResponse(f"{err}\n", 500, headers=_HEADERS)
        return Response(body, media_type=None, headers={"content-type": kind, **_HEADERS})

    async def index(_: Request) -> Response:
        return PlainTextResponse(TEXT, headers=_HEADERS)

    app = Starlette(routes=[Route("/metrics", metrics), Route("/", index)])
    app.router.redirect_slashes = False  # what is not there is 404
    return app


_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class Listener(socket.socket):
    """A listening socket that knows its connections: more than MAX_CONNECTIONS are closed at once."""

    def __init__(self, family: socket.AddressFamily, kind: socket.SocketKind) -> None:
        super().__init__(family, kind)
        self._connections: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection. Raises BlockingIOError where there is none, and ConnectionAbortedError for one too many."""
        connection, address = super().accept()
        if sum(other.fileno() >= 0 for other in self._connections) >= MAX_CONNECTIONS:
            connection.close()
            raise ConnectionAbortedError
        self._connections.add(connection)
        return connection, address

    def cut_off(self) -> None:
        """End the connections. By TLS each would wait up to 30 s for its client to agree."""
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def listen_at(host: str, port: int) -> Listener:
    """A socket that listens at the address: who connects before it is served waits. Raises OSError."""
    sock = Listener(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(MAX_CONNECTIONS)
        return sock
    except BaseException:
        sock.close()
        raise


async def serve_metrics(host: str, port: int, pages: MetricsPages, log: LogLine) -> None:
    """Serve /metrics until cancelled, as `serve_application` does."""
    await serve_application(host, port, metrics_application(pages), log, "metrics", "/metrics")


async def serve_application(
    host: str,
    port: int,
    app: Any,
    log: LogLine,
    what: str,
    path: str,
    context: ssl.SSLContext | None = None,
    on_listening: Callable[[int], None] = lambda _: None,
    **settings: Any,
) -> None:
    """Serve until cancelled. An address that cannot be had is said once, and tried again: health checks matter more.

    *what* is at *path*; with a *context* by TLS. *on_listening* is called with the port once it can be reached.
    *settings* are Hypercorn's, where they differ from those of metrics.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL)
    at = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    said = ""
    while True:
        try:
            sock = listen_at(host, port)
            break
        except OSError as err:
            why = f"no {what} at {at} yet, tried again every {RETRY_INTERVAL:g} s: {err.strerror}"
            if why != said:
                said = why
                log(why)
            await asyncio.sleep(RETRY_INTERVAL)
    number = sock.getsockname()[1]
    on_listening(number)
    log(f"{what} at {'http' if context is None else 'https'}://{at.rpartition(':')[0]}:{number}{path}")
    ending = asyncio.Event()
    config = _config(sock, context)
    for name, value in settings.items():
        setattr(config, name, value)
    serving = asyncio.create_task(serve(app, config, shutdown_trigger=ending.wait))
    try:
        await asyncio.shield(serving)
    finally:
        ending.set()
        await asyncio.wait([serving], timeout=config.graceful_timeout)
        sock.cut_off()
        with suppress(asyncio.CancelledError, Exception):
            await serving


class _Connection(TCPServer):
    """Hypercorn's connection, which ends with its client: that of Hypercorn 0.18 stays open until its idle time is over."""

    _ended = False

    async def _read_data(self) -> None:
        await super()._read_data()
        self._ended = True
        await self.idle_task.stop()

    async def protocol_send(self, event: Event) -> None:
        """Send what the protocol has, or follow its state."""
        if not (self._ended and isinstance(event, Updated)):
            await super().protocol_send(event)


setattr(hypercorn_run, "TCPServer", _Connection)  # noqa: B010 - there is no setting for it


class _Config(Config):
    """Hypercorn's settings, with a context of TLS that is made and kept up to date elsewhere, and a socket of our own."""

    def __init__(self, listener: Listener, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self.listener, self.context = listener, context

    def create_sockets(self) -> Sockets:
        """The socket."""
        self.listener.setblocking(False)
        return Sockets([self.listener] if self.context else [], [] if self.context else [self.listener], [])

    @property
    def ssl_enabled(self) -> bool:
        """Whether the server speaks TLS."""
        return self.context is not None

    def create_ssl_context(self) -> ssl.SSLContext | None:
        """The context."""
        return self.context


def _config(listener: Listener, context: ssl.SSLContext | None) -> Config:
    """Hypercorn's settings: no banner, no log lines, and no connection that is kept without a use."""
    quiet = logging.getLogger("dnsteer.metrics")
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    config = _Config(listener, context)
    config.ssl_handshake_timeout = 10
    config.include_server_header = False
    config.accesslog = None
    config.errorlog = quiet
    config.read_timeout = 10
    config.keep_alive_timeout = 75
    config.h11_max_incomplete_size = 16 * 1024
    config.backlog = 64
    config.graceful_timeout = 0.5
    config.shutdown_timeout = 1
    return config
