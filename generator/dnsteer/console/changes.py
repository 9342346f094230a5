"""Changes from the browser: a form, a page that says what it would do, and after a second form the same as by a verb."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from dnsteer.console.access import Access, visitor_of
from dnsteer.console.change_request import ChangeRequest, Preview, WrongRequestError, preview_of, request_of
from dnsteer.console.error_pages import PageError
from dnsteer.console.forms import FormError
from dnsteer.console.recorder import ConsoleRecorder
from dnsteer.console.runs import Runs
from dnsteer.console.visitor import Visitor
from dnsteer.deploy.verb_request import RunVerb
from dnsteer.view.snapshot import Seen

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
        visitor, fields = await self._posted(request)
        try:
            return await self._preview(visitor, request_of(fields, backends_of(self._seen())))
        except WrongRequestError as error:
            return self._wrong(visitor, fields, error)

    async def _confirm_form(self, request: Request) -> Response:
        visitor, fields = await self._posted(request)
        try:
            asked, basis = request_of(fields, backends_of(self._seen())), fields.get("basis", "")
        except WrongRequestError as error:
            return self._wrong(visitor, fields, error)
        if not basis:
            return await self._preview(visitor, asked)
        name = self._runs.begin(asked, asked.asked(_by(visitor), self._seen().bridge, basis))
        run = await self._runs.wait(name, GRADUAL if "over" in asked.options else PATIENCE)
        if run.outcome is not None and run.outcome.outdated:
            return await self._preview(visitor, asked, outdated=True)
        return RedirectResponse(f"/changes/runs/{name}", 303)

    async def _posted(self, request: Request) -> tuple[Visitor, Mapping[str, str]]:
        """Who asks for a change, and the fields of the form. Raises FormError."""
        visitor, fields = await self._access.posted(request)
        why = self.refusal(visitor)
        if why:
            raise FormError(403, f"nothing was changed: {why}")
        return visitor, fields

    def _wrong(self, visitor: Visitor, fields: Mapping[str, str], error: WrongRequestError) -> Response:
        """The form again with what was entered, and what is wrong at the field. Raises PageError where there is none."""
        about = fields.get("about", "")
        is_rollback, pool = fields.get("verb") == "rollback", about.partition("/")[0]
        backends = [] if is_rollback else self.backends(pool)
        if not error.field or not (is_rollback or backends):
            raise PageError(400, f"{error}; nothing was changed")
        title, back = (f"State {about}", f"/changes/{about}") if is_rollback else (f"Pool {pool}", f"/pools/{pool}")
        page = self._page(
            "change.html",
            visitor,
            page="changes" if is_rollback else "pools",
            title=title,
            back=back,
            backends=backends,
            given=fields,
            error=error,
        )
        return HTMLResponse(page, 400)

    async def _preview(self, visitor: Visitor, asked: ChangeRequest, *, outdated: bool = False) -> Response:
        outcome = await self._run_verb(asked.asked(_by(visitor), self._seen().bridge))
        preview = preview_of(outcome)
        given = {**asked.options, "about": asked.about}
        page = self._page(
            "preview.html",
            visitor,
            asked=asked,
            preview=preview,
            outdated=outdated,
            given=given,
            wrong=_wrong_field(asked, preview),
            backends=self.backends(asked.about.partition("/")[0]),
        )
        return HTMLResponse(page, 409 if outdated else 200)

    async def _run(self, request: Request) -> Response:
        visitor = visitor_of(request)
        run = self._runs.find(request.path_params["name"])
        if run is None or visitor.role != "change":
            raise PageError(404, "there is no such change, or not any more")
        return HTMLResponse(self._page("run.html", visitor, run=run, said=run.said))

    def _page(self, name: str, visitor: Visitor, **more: Any) -> str:
        return self._render(name, **{"seen": self._seen(), "visitor": visitor, "page": "changes", **more})

    def _seen(self) -> Seen:
        return self._recorder.seen()


def _wrong_field(asked: ChangeRequest, preview: Preview) -> WrongRequestError:
    """What a refused preview says, with the option that it names first: `--for must be longer than --over`."""
    named = [(preview.error.find(f"--{name}"), name) for name in asked.options if f"--{name}" in preview.error]
    return WrongRequestError(preview.error, min(named)[1] if named else "")


def backends_of(seen: Seen) -> list[str]:
    """The backends of the applied spec, as POOL/BACKEND."""
    pools = seen.now.known.spec.pools if seen.now is not None else {}
    return [f"{name}/{backend.name}" for name, pool in pools.items() for backend in pool.backends]


def _by(visitor: Visitor) -> str:
    """Who asked, for the record."""
    return f"{visitor.name}@{socket.gethostname()} (console)"
