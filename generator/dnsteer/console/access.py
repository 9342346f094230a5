# SPDX-License-Identifier: Apache-2.0
"""Access control of the console: bearer tokens of programs, sessions of browsers that signed in."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, MutableMapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from dnsteer.console.forms import MAX_FORM_BYTES, FormError, has_session_token, is_same_origin, read_form
from dnsteer.console.rate_limits import AllowedRate, DelayedAnswers, RateLimit, caller_of
from dnsteer.console.sessions import LONGEST, ConsoleSession, Sessions
from dnsteer.console.tokens import ROLES, Role, Token, TokenFile


@dataclass(frozen=True)
class Visitor:
    """Who sends a request: the holder of a token, sent or of a session; or anybody, where there are no tokens."""

    token: Token | None = None
    session: ConsoleSession | None = None

    @property
    def name(self) -> str:
        """The token's name; empty for anybody."""
        return self.token.name if self.token is not None else ""

    @property
    def role(self) -> Role:
        """What they may do."""
        return self.token.role if self.token is not None else "read"

    @property
    def may_change(self) -> bool:
        """Whether their token is one for changes, and they signed in with it: forms need a session."""
        return self.role == "change" and self.session is not None

    @property
    def csrf(self) -> str:
        """The word that forms of the session carry; empty without one."""
        return self.session.csrf if self.session is not None else ""


ANYBODY = Visitor()


VISITOR = "dnsteer.visitor"
"""Key of the scope of a request: who asks."""
SIGN_IN, SIGN_OUT = "/sign-in", "/sign-out"
_FAILURES = AllowedRate(10, 10), AllowedRate(60, 60)
"""Wrong tokens that are answered at once and logged: of one address, and of all together. A right one is never counted."""
_POSTS = AllowedRate(60, 60), AllowedRate(120, 120)
"""Forms: of one token, and of all tokens of a role, so that those who only read keep nobody from changes."""
_FOR_PROGRAMS = ("/metrics", "/events")
_PROGRAMS_ONLY = "send a token: Authorization: Bearer TOKEN\n"
_HOW = "sign in at /sign-in, or send a token: Authorization: Bearer TOKEN\n"
_TOO_MANY = "too many wrong tokens; a right one is let in at once\n"
_WRONG = "This is not a token of this console."
_WRONG_AND_LATE = (
    f"{_WRONG} There were many wrong ones, so this was said late on purpose; a right one is let in at once."
)


class Access:
    """Admits requests. Without *tokens* anybody may read. *secure*: it has TLS; *browsers*: it has a sign-in page."""

    def __init__(
        self, tokens: TokenFile | None, log: Callable[[str], None], *, secure: bool = False, browsers: bool = True
    ) -> None:
        self._tokens, self._log, self._secure, self._browsers = tokens, log, secure, browsers
        self.sessions = Sessions()
        self._failures, self._delayed, self._unlogged = RateLimit(*_FAILURES), DelayedAnswers(), 0
        self._posts = {role: RateLimit(*_POSTS) for role in ROLES}

    @property
    def needs_tokens(self) -> bool:
        """Whether a token is needed."""
        return self._tokens is not None

    @property
    def is_for_browsers(self) -> bool:
        """Whether browsers are served: without tokens, or where they can sign in."""
        return self._browsers or self._tokens is None

    def admit(self, scope: MutableMapping[str, Any]) -> Visitor | Response:
        """The visitor of a request; or the answer that refuses it."""
        if self._tokens is None:
            return ANYBODY
        request = Request(scope)
        given = request.headers.getlist("authorization")
        if given:
            return self._by_header(request, given)
        session = self.sessions.find(request.cookies.get(self._cookie(request), ""))
        if session is not None and self._tokens.has(session.token):
            return Visitor(session.token, session)
        path = scope["path"]
        if not self._browsers:
            return PlainTextResponse(_PROGRAMS_ONLY, 401, {"www-authenticate": "Bearer"})
        if path == SIGN_IN or path.startswith("/assets/"):
            return ANYBODY
        if is_page_request(request):
            back = local_path(_address_of(scope)) if scope["method"] in ("GET", "HEAD") else "/"
            wanted = f"?next={quote(back)}" if back != "/" else ""
            return RedirectResponse(SIGN_IN + wanted, 303)
        return PlainTextResponse(_HOW, 401, {"www-authenticate": "Bearer"})

    def is_valid(self, visitor: Visitor) -> bool:
        """Whether a visitor that was admitted would be admitted now. An open page keeps its session in use."""
        if self._tokens is None:
            return True
        if visitor.token is None or not self._tokens.has(visitor.token):
            return False
        return visitor.session is None or self.sessions.is_open(visitor.session)

    def _by_header(self, request: Request, given: list[str]) -> Visitor | Response:
        kind, _, secret = given[0].partition(" ")
        token = self._known(secret.strip()) if len(given) == 1 and kind.lower() == "bearer" else None
        if token is not None:
            return Visitor(token)
        wait = self._failed(request, "a wrong token")
        if wait:
            return self._delayed.delay(_caller(request), PlainTextResponse(_TOO_MANY, 429, _try_again(wait)))
        return PlainTextResponse(_HOW, 401, {"www-authenticate": 'Bearer error="invalid_token"'})

    def _known(self, secret: str) -> Token | None:
        return self._tokens.find(secret) if self._tokens is not None and 0 < len(secret) <= 512 else None

    def _failed(self, request: Request, what: str) -> float:
        """Count and log a wrong token. Returns 0; or, where there are too many, the seconds until another one is counted."""
        wait = self._failures.wait(_caller(request))
        if wait:
            self._unlogged += 1
            return wait
        self._failures.count(_caller(request))
        more = f"; {self._unlogged} more since the last one that was logged" if self._unlogged else ""
        self._unlogged = 0
        self._log(f"console: {what} from {_address(request)}{more}")
        return 0.0

    def _cookie(self, request: Request) -> str:
        """The name of the cookie. With the port, since a browser sends cookies of one host to all of its ports."""
        port = request.headers.get("host", "").rpartition(":")[2]
        name = f"dnsteer-{port}" if port.isascii() and port.isdigit() else "dnsteer"
        return f"__Host-{name}" if self._secure else name

    async def posted(
        self, request: Request, most: int = MAX_FORM_BYTES, thread: Executor | None = None
    ) -> tuple[Visitor, Mapping[str, str]]:
        """Who sent a form, and its fields, as `read_form`. Raises FormError unless a page of theirs sent it."""
        visitor = visitor_of(request)
        if not is_same_origin(request.scope):
            raise FormError(403, "another site has sent this form; nothing was changed")
        if visitor.token is None or visitor.session is None:
            raise FormError(403, "forms are for browsers that have signed in; nothing was changed")
        caller, posts = visitor.token.digest, self._posts[visitor.role]
        wait = posts.wait(caller)
        if wait:
            raise FormError(429, f"too many forms; try again in {math.ceil(wait)} s")
        posts.count(caller)
        fields = await read_form(request, most, thread)
        if not has_session_token(fields, visitor.csrf):
            raise FormError(403, "the form is not of this session: open its page again; nothing was changed")
        return visitor, fields

    def sign_in_page(self, wanted: str, render: Callable[..., str], wrong: str = "", status: int = 200) -> Response:
        """The page with the form for a token, which leads on to the path *wanted*."""
        return HTMLResponse(render("sign-in.html", wrong=wrong, next=local_path(wanted)), status)

    async def sign_in(self, request: Request, render: Callable[..., str]) -> Response:
        """Begin a session for a right token, and lead on; else the form again, with what is wrong."""
        try:
            if not is_same_origin(request.scope):
                raise FormError(403, "another site has sent this form")
            fields = await read_form(request)
        except FormError as error:
            page = self.sign_in_page("", render, str(error), error.status)
            page.headers["connection"] = "close"  # it may not be read whole
            return page
        token = self._known(fields.get("token", "").strip())
        if token is None:
            wait = self._failed(request, "a sign-in with a wrong token")
            why, status = (_WRONG_AND_LATE, 429) if wait else (_WRONG, 403)
            page = self.sign_in_page(fields.get("next", ""), render, why, status)
            if wait:
                page.headers.update(_try_again(wait))
            return self._delayed.delay(_caller(request), page) if wait else page
        before = visitor_of(request).session
        if before is not None:
            self.sessions.end(before)
        name = self.sessions.begin(token)
        self._log(f"console: {token.name} ({token.role}) signed in from {_address(request)}")
        answer = RedirectResponse(local_path(fields.get("next", "")), 303)
        self._set_cookie(answer, request, name, int(LONGEST))
        return answer

    async def sign_out(self, request: Request) -> Response:
        """End the session. Raises FormError."""
        visitor, _ = await self.posted(request)
        if visitor.session is not None:
            self.sessions.end(visitor.session)
        answer = RedirectResponse(SIGN_IN, 303)
        self._set_cookie(answer, request, "", 0)
        return answer

    def _set_cookie(self, answer: Response, request: Request, value: str, seconds: int) -> None:
        answer.set_cookie(
            self._cookie(request),
            value,
            max_age=seconds,
            path="/",
            secure=self._secure,
            httponly=True,
            samesite="strict",
        )


def visitor_of(request: Request) -> Visitor:
    """The visitor that was found when the request was admitted."""
    found: Visitor = request.scope[VISITOR]
    return found


def is_page_request(request: Request) -> bool:
    """Whether a browser asks for a page, rather than a program or script for data."""
    path = request.scope["path"]
    return (
        "text/html" in request.headers.get("accept", "")
        and path not in _FOR_PROGRAMS
        and not path.startswith("/assets/")
    )


def _try_again(seconds: float) -> dict[str, str]:
    """The headers of an answer to one wrong token too many."""
    return {"retry-after": str(math.ceil(seconds)), "connection": "close"}


def _address_of(scope: Mapping[str, Any]) -> str:
    """The path with its query, as a browser sends them."""
    query = scope["query_string"].decode("latin-1")
    return quote(scope["path"]) + (f"?{query}" if query else "")


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else "an unknown address"


def _caller(request: Request) -> str:
    return caller_of(_address(request))


def local_path(path: str) -> str:
    """A path of this console; that of the overview for anything else, such as //elsewhere.example."""
    wrong = (
        not path.startswith("/") or path.startswith("//") or "\\" in path or not path.isprintable() or len(path) > 500
    )
    return "/" if wrong or path.startswith((SIGN_IN, SIGN_OUT)) else path
