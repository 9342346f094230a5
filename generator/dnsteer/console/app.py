# SPDX-License-Identifier: Apache-2.0
"""The console over HTTP: its pages, their events and files, and /metrics; for those whom `access` admits.

A page on another site can neither read it (no CORS, same-origin policies), nor frame it, nor reach it by a name of its own
that leads to this machine (the Host header is checked), nor send it a form (`forms`).
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, MutableMapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from dnsteer.console.access import SIGN_IN, SIGN_OUT, VISITOR, Access, Visitor, visitor_of
from dnsteer.console.change_pages import ChangePages
from dnsteer.console.error_pages import ErrorPages, PageError
from dnsteer.console.live import LivePages, TooManyStreamsError
from dnsteer.console.overview_page import filter_key
from dnsteer.console.page_content import FOLDER, NoPageError
from dnsteer.console.path_page import key_of
from dnsteer.console.spec_pages import SpecPages
from dnsteer.deploy.verb_request import RunVerb
from dnsteer.view.html_file import ASSETS
from dnsteer.view.wording import no_page_reason

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'self'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
MAX_REQUESTS = 128
"""Requests that are answered at once, streams among them."""
SERVER = {"read_timeout": None, "keep_alive_timeout": 20}
"""Settings of the server: a stream of events has nothing to read. A request that does not end is ended by the second."""
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

_VISITOR, _TOOLS = "<!--visitor-->", "<!--tools-->"
"""Places in pages for what is made for one visitor."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]


class RequestGuard:
    """Refuses what is not for this console by name, more than MAX_REQUESTS at once, and whom *access* does not admit.

    Adds HEADERS to all answers. *names* are those that it answers by besides the machine's own, where browsers are served;
    forms go to *posts* alone.
    """

    def __init__(
        self,
        app: Asgi,
        host: str,
        access: Access,
        names: Callable[[], Collection[str]],
        posts: Collection[str] = (),
        errors: ErrorPages | None = None,
    ) -> None:
        self._errors = errors or ErrorPages(access)
        self._app, self._access, self._names, self._posts = app, access, names, posts
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
            if refusal is None:
                admitted = self._access.admit(scope)
                if isinstance(admitted, Response):
                    refusal = admitted
                scope[VISITOR] = admitted
            await (refusal or self._app)(scope, receive, with_headers)
        finally:
            self._busy -= 1

    def _refusal(self, scope: Scope) -> Response | None:
        if self._busy > MAX_REQUESTS:
            why = "too many requests at once; try again in some seconds"
            return self._errors.answer(Request(scope), 503, why, {"retry-after": "5"})
        if not self._access.is_for_browsers:
            # Scrapers may use any name of the machine. The check is against DNS rebinding, which borrows what a browser
            # would send by itself; a token in a header it cannot.
            return self._refused_method(scope)
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        names = {*self._hosts, *self._names()}
        if len(hosts) != 1 or not _is_named(_without_port(hosts[0]), names):
            named = ", ".join(sorted(names))
            return PlainTextResponse(f"the console answers by these names alone: {named}\n", 421)
        return self._refused_method(scope)

    def _refused_method(self, scope: Scope) -> Response | None:
        if scope["method"] not in ("GET", "HEAD") and (scope["method"] != "POST" or scope["path"] not in self._posts):
            why = "there is nothing to do here but GET and HEAD"
            return self._errors.answer(Request(scope), 405, why, {"allow": "GET, HEAD"})
        return None


def _without_port(host: str) -> str:
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isascii() and port.isdigit() else host.lower()


def _is_named(host: str, names: Collection[str]) -> bool:
    """Whether a host is one of these names, of which those of certificates may begin with a star for one label."""
    label, dot, rest = host.partition(".")
    return host in names or bool(label and dot and f"*.{rest}" in names)


def console_application(
    live: LivePages,
    metrics: Callable[[str], Awaitable[tuple[bytes, str]]],
    host: str,
    access: Access | None = None,
    names: Callable[[], Collection[str]] = frozenset,
    run_verb: RunVerb | None = None,
) -> RequestGuard:
    """The console that is bound to *host*; *metrics* makes the page of /metrics in a format. Without *access* all may read.

    *names* are those that it answers by besides. *run_verb* does verbs, where people can sign in.
    """
    access = access or Access(None, lambda _: None)
    render = live.pages.render
    errors = ErrorPages(access, live.recorder, render)
    changes = ChangePages(access, live.recorder, run_verb, render) if run_verb is not None else None
    specs = SpecPages(access, changes, live.states, run_verb, render)
    requests = _Requests(live, metrics, access, changes)
    forms = [*specs.routes(), *(changes.routes() if changes is not None else []), *requests.sign_in_routes()]
    posts = {route.path for route in forms if "POST" in (route.methods or ())} if access.needs_tokens else set()

    @asynccontextmanager
    async def while_served(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            specs.close()

    app = Starlette(lifespan=while_served, exception_handlers=errors.handlers(), routes=[*requests.routes(), *forms])
    app.router.redirect_slashes = False
    return RequestGuard(app, host, access, names, posts, errors)


class _Requests:
    """Answers the requests for pages, for their events and files, and for /metrics, and lets people sign in and out."""

    def __init__(
        self,
        live: LivePages,
        metrics: Callable[[str], Awaitable[tuple[bytes, str]]],
        access: Access,
        changes: ChangePages | None,
    ) -> None:
        self._live, self._metrics, self._access, self._changes = live, metrics, access, changes
        files = [ASSETS / "console.css", *sorted((FOLDER / "assets").iterdir())]
        self._files = {path.name: _file(path) for path in files}

    def routes(self) -> list[Route]:
        """What is answered to GET alone."""
        handlers = {
            "/": self._overview,
            "/vips/{name}": self._vip,
            "/attention": self._attention,
            "/pools": self._page,
            "/pools/{name}": self._page,
            "/changes": self._page,
            "/path": self._path,
            "/offload": self._page,
            "/events": self._events,
            "/assets/{name}": self._asset,
            "/metrics": self._scraped,
        }
        return [Route(path, handler) for path, handler in handlers.items()]

    def sign_in_routes(self) -> list[Route]:
        """Those by which people sign in and out, where they need to."""
        if not self._access.needs_tokens:
            return []
        return [
            Route(SIGN_IN, self._sign_in, methods=["GET", "POST"]),
            Route(SIGN_OUT, self._sign_out, methods=["POST"]),
        ]

    async def _answer(self, key: str, request: Request) -> Response:
        page = await self._live.page(key)
        text = for_visitor(page.text, key, visitor_of(request), self._live, self._changes)
        return HTMLResponse(text, page.status)

    async def _named(self, key: str, request: Request, kind: str, name: str) -> Response:
        try:
            return await self._answer(key, request)
        except NoPageError:
            snapshot = self._live.recorder.snapshot()
            if snapshot.applied is not None:
                raise PageError(404, f"there is no {kind} {name!r} in the applied spec") from None
            # Whether there is one is not known here.
            raise PageError(503, snapshot.trouble or no_page_reason(snapshot.is_standby)) from None

    async def _page(self, request: Request) -> Response:
        key = {"/pools": "pools", "/changes": "changes", "/offload": "offload"}.get(request.url.path)
        key = key or f"pool/{request.path_params['name']}"
        return await self._named(key, request, "pool", request.path_params.get("name", ""))

    async def _overview(self, request: Request) -> Response:
        return await self._answer(filter_key(request.query_params), request)

    async def _vip(self, request: Request) -> Response:
        name = request.path_params["name"]
        return await self._named(f"vip/{name}", request, "VIP", name)

    async def _attention(self, request: Request) -> Response:
        pool = request.query_params.get("pool", "")
        return await self._named(f"attention?pool={pool}" if pool else "attention", request, "pool", pool)

    async def _path(self, request: Request) -> Response:
        return await self._answer(key_of(request.query_params), request)

    async def _events(self, request: Request) -> Response:
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        since = request.headers.get("last-event-id") or request.query_params.get("since", "")
        try:
            stream = await self._live.stream(request.query_params.get("page", ""), since)
        except TooManyStreamsError:
            raise PageError(503, "too many browsers look already", {"retry-after": "10"}) from None
        valid = _while_valid(stream, self._access, visitor_of(request))
        return StreamingResponse(valid, media_type="text/event-stream")

    async def _scraped(self, request: Request) -> Response:
        body, kind = await self._metrics(",".join(request.headers.getlist("accept")))
        return Response(body, media_type=None, headers={"content-type": kind})

    async def _asset(self, request: Request) -> Response:
        found = self._files.get(request.path_params["name"])
        if found is None:
            raise PageError(404, "there is no such file")
        body, tag, kind = found
        headers = {"etag": tag, "cache-control": "no-cache", "content-type": kind}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(body, media_type=None, headers=headers)

    async def _sign_in(self, request: Request) -> Response:
        render = self._live.pages.render
        if request.method != "POST":
            return self._access.sign_in_page(request.query_params.get("next", ""), render)
        return await self._access.sign_in(request, render)

    async def _sign_out(self, request: Request) -> Response:
        return await self._access.sign_out(request)


def for_visitor(text: str, key: str, visitor: Visitor, live: LivePages, changes: ChangePages | None) -> str:
    """A page that is the same for all, with the parts that are for one visitor: who they are, and forms."""
    pages, tools = live.pages, ""
    if changes is not None and visitor.session is not None:
        if key.startswith("pool/"):
            why = changes.refusal(visitor)
            if not why:
                tools = pages.fragment("change_backend", visitor, changes.backends(key[5:]))
            elif visitor.role == "change":
                tools = pages.fragment("no_changes", why)
        elif key == "changes":
            tools = pages.fragment("plan_link")
    return text.replace(_VISITOR, pages.fragment("who", visitor)).replace(_TOOLS, tools)


async def _while_valid(stream: AsyncIterator[bytes], access: Access, visitor: Visitor) -> AsyncIterator[bytes]:
    """What is sent, until the session or token is gone: then the page is read again, which leads to sign-in."""
    async with aclosing(stream):  # type: ignore[type-var]
        async for message in stream:
            if not access.is_valid(visitor):
                yield b"event: reload\ndata: {}\n\n"
                return
            yield message


def _file(path: Path) -> tuple[bytes, str, str]:
    body = path.read_bytes()
    return body, f'"{hashlib.sha256(body).hexdigest()[:16]}"', _TYPES[path.suffix]
