"""The console over HTTP: its pages, their events and files, and /metrics. Reads alone, and only for this machine's browsers.

A page on another site can neither read it (no CORS, same-origin policies), nor frame it, nor reach it by a name of its own
that leads to this machine (the Host header is checked).
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, MutableMapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from dnsteer.console.content import FOLDER, NoPageError
from dnsteer.console.live import FullError, Live
from dnsteer.console.path_query import key_of

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'self'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
MOST_REQUESTS = 128
"""Requests that are answered at once, streams among them."""
SERVER = {"read_timeout": None, "keep_alive_timeout": 20}
"""Settings of the server: a stream of events has nothing to read. A request that does not end is ended by the second."""
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]


class Guard:
    """Refuses what is not for this machine by name, and more than MOST_REQUESTS at once; adds HEADERS to all answers."""

    def __init__(self, app: Asgi, host: str) -> None:
        self._app = app
        self._hosts = {"localhost", "127.0.0.1", "[::1]", f"[{host}]" if ":" in host else host}
        self._busy = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close"})  # there are none
            return

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                known = {name for name, _ in message["headers"]}
                more = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in known]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        self._busy += 1
        try:
            refusal = self._refusal(scope)
            await (refusal or self._app)(scope, receive, with_headers)
        finally:
            self._busy -= 1

    def _refusal(self, scope: Scope) -> Response | None:
        if self._busy > MOST_REQUESTS:
            return PlainTextResponse("too many requests at once\n", 503, {"retry-after": "5"})
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or _without_port(hosts[0]) not in self._hosts:
            named = ", ".join(sorted(self._hosts))
            return PlainTextResponse(f"the console answers by these names alone: {named}\n", 421)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("the console only reads: GET and HEAD\n", 405, {"allow": "GET, HEAD"})
        return None


def _without_port(host: str) -> str:
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isascii() and port.isdigit() else host.lower()


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine alone."""
    return ip_address(host).is_loopback


def application(live: Live, metrics: Callable[[str], Awaitable[tuple[bytes, str]]], host: str) -> Guard:
    """The console that is bound to *host*; *metrics* makes the page of /metrics in a format."""

    async def page(request: Request) -> Response:
        key = {"/": "overview", "/pools": "pools", "/changes": "changes", "/offload": "offload"}.get(request.url.path)
        try:
            return HTMLResponse(await live.page(key or f"pool/{request.path_params['name']}"))
        except NoPageError:
            return PlainTextResponse("there is no such pool\n", 404)

    async def path(request: Request) -> Response:
        key = key_of(request.query_params)
        return HTMLResponse(await live.page(key), 400 if live.refused(key) else 200)

    async def events(request: Request) -> Response:
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        since = request.headers.get("last-event-id") or request.query_params.get("since", "")
        try:
            stream = await live.stream(request.query_params.get("page", ""), since)
        except NoPageError:
            return PlainTextResponse("there is no such page\n", 404)
        except FullError:
            return PlainTextResponse("too many browsers look already\n", 503, {"retry-after": "10"})
        return StreamingResponse(stream, media_type="text/event-stream")

    async def scraped(request: Request) -> Response:
        body, kind = await metrics(",".join(request.headers.getlist("accept")))
        return Response(body, media_type=None, headers={"content-type": kind})

    async def asset(request: Request) -> Response:
        found = files.get(request.path_params["name"])
        if found is None:
            return PlainTextResponse("there is no such file\n", 404)
        body, tag, kind = found
        headers = {"etag": tag, "cache-control": "no-cache", "content-type": kind}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(body, media_type=None, headers=headers)

    files = {path.name: _file(path) for path in sorted((FOLDER / "assets").iterdir())}
    app = Starlette(
        routes=[
            Route("/", page), Route("/pools", page), Route("/pools/{name}", page), Route("/changes", page),
            Route("/path", path), Route("/offload", page),
            Route("/events", events), Route("/assets/{name}", asset), Route("/metrics", scraped),
        ]
    )  # fmt: skip
    app.router.redirect_slashes = False
    return Guard(app, host)


def _file(path: Path) -> tuple[bytes, str, str]:
    body = path.read_bytes()
    return body, f'"{hashlib.sha256(body).hexdigest()[:16]}"', _TYPES[path.suffix]
