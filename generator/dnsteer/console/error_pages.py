# SPDX-License-Identifier: Apache-2.0
"""Error answers: for a browser a page with a link back, for a program a line of text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from dnsteer.console.access import ANYBODY, VISITOR, Access, Visitor, is_page_request, local_path
from dnsteer.console.change_log import ConsoleRecorder
from dnsteer.console.forms import FormError
from dnsteer.console.page_content import NoPageError
from dnsteer.view.attention_item import sentence
from dnsteer.view.snapshot import SwitchSnapshot

_TITLES = {
    400: "Wrong input",
    403: "Not allowed",
    404: "Not found",
    405: "Not possible here",
    409: "Changed meanwhile",
    413: "Too large",
    429: "Too often",
    500: "A defect of dnsteer",
    503: "Not now",
}
_BACK = (
    ("/pools", "/pools", "Pools"),
    ("/changes/preview", "/pools", "Pools"),
    ("/changes/confirm", "/pools", "Pools"),
    ("/changes", "/changes", "Changes"),
    ("/plan", "/changes", "Changes"),
    ("/path", "/path", "Path"),
)
"""What an address begins with, and the page to which it leads back."""
_DEFECT = "this page cannot be made; the other pages, /metrics and the agent's work on the switch go on"
Handler = Callable[[Request, Exception], Awaitable[Response]]


class PageError(Exception):
    """There is no such page, or not now: the status of HTTP, why, and further headers."""

    def __init__(self, status: int, why: str, headers: Mapping[str, str] = {}) -> None:
        super().__init__(why)
        self.status, self.headers = status, headers


class ErrorPages:
    """Makes answers of errors. Without *recorder* and *render* all are text."""

    def __init__(
        self, access: Access, recorder: ConsoleRecorder | None = None, render: Callable[..., str] | None = None
    ) -> None:
        self._access, self._recorder, self._render = access, recorder, render

    def answer(self, request: Request, status: int, why: str, headers: Mapping[str, str] = {}) -> Response:
        """The answer to a request that is not served."""
        if self._render is None or self._recorder is None or not is_page_request(request):
            return PlainTextResponse(f"{why}\n", status, dict(headers))
        found = request.scope.get(VISITOR)
        visitor = found if isinstance(found, Visitor) else ANYBODY
        known = visitor.token is not None or not self._access.needs_tokens
        snapshot = self._recorder.snapshot()
        back, title = _back(request)
        page = self._render(
            "error.html",
            snapshot=snapshot if known else SwitchSnapshot(snapshot.started),
            visitor=visitor,
            page="",
            back=back,
            back_title=title,
            title=_TITLES.get(status, "Not possible"),
            why=sentence(why),
        )
        return HTMLResponse(page, status, dict(headers))

    def handlers(self) -> Mapping[Any, Handler]:
        """The handlers of the exceptions of requests."""

        async def of_page(request: Request, error: Exception) -> Response:
            assert isinstance(error, PageError)
            return self.answer(request, error.status, str(error), error.headers)

        async def of_form(request: Request, error: Exception) -> Response:
            assert isinstance(error, FormError)
            return self.answer(request, error.status, str(error), {"connection": "close"})  # it may not be read whole

        async def missing(request: Request, error: Exception) -> Response:
            return self.answer(request, 404, "there is no such page, or not any more")

        async def of_http(request: Request, error: Exception) -> Response:
            assert isinstance(error, HTTPException)
            if error.status_code == 404:
                return await missing(request, error)
            why = "this address is for forms of the console's pages" if error.status_code == 405 else error.detail
            return self.answer(request, error.status_code, why, error.headers or {})

        async def defect(request: Request, error: Exception) -> Response:
            return self.answer(request, 500, _DEFECT)

        return {PageError: of_page, FormError: of_form, NoPageError: missing, HTTPException: of_http, Exception: defect}


def _back(request: Request) -> tuple[str, str]:
    """The page to go back to: the form that was sent, or the one above."""
    sent_from = urlsplit(request.headers.get("referer", ""))
    if request.method == "POST" and sent_from.netloc == request.headers.get("host", "") != "":
        path = local_path(sent_from.path + (f"?{sent_from.query}" if sent_from.query else ""))
        if path != "/" and not path.startswith(("/changes/preview", "/changes/confirm")):
            return path, "the page before"
    at = request.url.path
    return next(
        ((path, title) for prefix, path, title in _BACK if at.startswith(prefix) and at != path), ("/", "Overview")
    )
