"""Changes from the browser: a form, a page that says what it would do, and after a second form the same as by a verb."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from dnsteer.console.access import Access, refused, visitor_of
from dnsteer.console.change_request import ChangeRequest, WrongRequestError, preview_of, request_of
from dnsteer.console.forms import FormError
from dnsteer.console.recorder import ConsoleRecorder
from dnsteer.console.runs import Runs
from dnsteer.console.seen import Seen
from dnsteer.console.verbs import RunVerb
from dnsteer.console.visitor import Visitor

PREVIEW, CONFIRM = "/changes/preview", "/changes/confirm"
PATIENCE, GRADUAL = 10.0, 1.0
"""Seconds for which a browser waits for a change, and for a gradual one; after that a page says that it is under way."""
OFF = "the applied spec does not allow it: switch.console: {allow_changes: true}"
_ROLE = "it needs a token of the role change"
Render = Callable[..., str]


class ChangePages:
    """The pages of changes. *run_verb* does a verb on the switch as the control socket would."""

    def __init__(self, access: Access, recorder: ConsoleRecorder, run_verb: RunVerb, render: Render) -> None:
        self._access, self._recorder, self._run_verb, self._render = access, recorder, run_verb, render
        self._runs = Runs(run_verb)

    def routes(self) -> list[Route]:
        """The routes of the pages."""
        return [
            Route(PREVIEW, self._preview_form, methods=["POST"]),
            Route(CONFIRM, self._confirm_form, methods=["POST"]),
            Route("/changes/runs/{name}", self._run),
        ]

    def refusal(self, visitor: Visitor) -> str:
        """Why somebody may change nothing; empty if they may."""
        side = self._recorder.seen().now
        if side is None:
            return "this agent does not act on the switch"
        console = side.known.spec.switch.console
        if console is None or not console.allow_changes:
            return OFF
        return "" if visitor.may_change else _ROLE

    def backends(self, pool: str) -> list[tuple[str, list[str]]]:
        """The backends of a pool of the applied spec, as POOL/BACKEND, each with the maintenance that it is in."""
        seen = self._seen()
        overlay = seen.now.overlay.of(pool) if seen.now is not None else ()
        names = [name for name in backends_of(seen) if name.startswith(f"{pool}/")]
        return [(name, [entry.state for entry in overlay if entry.name == name]) for name in names]

    async def _preview_form(self, request: Request) -> Response:
        try:
            visitor, asked, _ = await self._read(request)
            return await self._preview(visitor, asked)
        except FormError as error:
            return refused(error)

    async def _confirm_form(self, request: Request) -> Response:
        try:
            visitor, asked, basis = await self._read(request)
            if not basis:
                return await self._preview(visitor, asked)
        except FormError as error:
            return refused(error)
        name = self._runs.begin(asked, asked.asked(_by(visitor), self._seen().bridge, basis))
        run = await self._runs.wait(name, GRADUAL if "over" in asked.options else PATIENCE)
        if run.outcome is not None and run.outcome.outdated:
            return await self._preview(visitor, asked, outdated=True)
        return RedirectResponse(f"/changes/runs/{name}", 303)

    async def _read(self, request: Request) -> tuple[Visitor, ChangeRequest, str]:
        """Who asks for which change, previewed on what. Raises FormError."""
        visitor, fields = await self._access.posted(request)
        why = self.refusal(visitor)
        if why:
            raise FormError(403, f"nothing was changed: {why}")
        try:
            return visitor, request_of(fields, backends_of(self._seen())), fields.get("basis", "")
        except WrongRequestError as error:
            raise FormError(400, f"{error}; nothing was changed") from None

    async def _preview(self, visitor: Visitor, asked: ChangeRequest, *, outdated: bool = False) -> Response:
        outcome = await self._run_verb(asked.asked(_by(visitor), self._seen().bridge))
        preview = preview_of(outcome)
        page = self._page("preview.html", visitor, asked=asked, preview=preview, outdated=outdated)
        return HTMLResponse(page, 409 if outdated else 200)

    async def _run(self, request: Request) -> Response:
        visitor = visitor_of(request)
        run = self._runs.find(request.path_params["name"])
        if run is None or visitor.role != "change":
            return PlainTextResponse("there is no such change, or not any more\n", 404)
        return HTMLResponse(self._page("run.html", visitor, run=run, said=run.said))

    def _page(self, name: str, visitor: Visitor, **more: Any) -> str:
        return self._render(name, seen=self._seen(), visitor=visitor, page="changes", **more)

    def _seen(self) -> Seen:
        return self._recorder.seen()


def backends_of(seen: Seen) -> list[str]:
    """The backends of the applied spec, as POOL/BACKEND."""
    pools = seen.now.known.spec.pools if seen.now is not None else {}
    return [f"{name}/{backend.name}" for name, pool in pools.items() for backend in pool.backends]


def _by(visitor: Visitor) -> str:
    """Who asked, for the record."""
    return f"{visitor.name}@{socket.gethostname()} (console)"
