# SPDX-License-Identifier: Apache-2.0
"""Changes from the browser: a form, a page that says what it would do, and after a second form the same as by a verb.

Each runs to its end, whether its browser waits or not.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import socket
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from dnsteer.console.access import Access, Visitor, visitor_of
from dnsteer.console.change_log import ConsoleRecorder
from dnsteer.console.error_pages import PageError
from dnsteer.console.forms import FormError
from dnsteer.deploy.times import now
from dnsteer.deploy.verb_request import RunVerb, VerbOutcome, VerbRequest
from dnsteer.view.snapshot import SwitchSnapshot

VERBS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "drain": ("Drain", ("over", "for", "note")),
    "undrain": ("Undrain", ()),
    "down": ("Take down", ("for", "note")),
    "up": ("Bring up", ()),
    "rollback": ("Roll back to state", ("note",)),
}
"""The verbs, what pages call them, and the options that they take."""
MAX_NOTE = 500
"""Characters of a note, as on the command line."""
_TIME = re.compile(r"\d{1,9}(\.\d{1,3})?[smhd]?")


class WrongRequestError(Exception):
    """A request that cannot be: the message says what was found, and what is expected, *field* which one is to be changed;
    empty where that is none that people fill in.
    """

    def __init__(self, text: str, field: str = "") -> None:
        super().__init__(text)
        self.field = field


@dataclass(frozen=True)
class ChangeRequest:
    """A verb with the backend (POOL/BACKEND) or the number of the state that it is about, and its options by name."""

    verb: str
    about: str
    options: Mapping[str, str]

    @property
    def title(self) -> str:
        """What it would do."""
        return f"{VERBS[self.verb][0]} {self.about}"

    @property
    def back(self) -> str:
        """The page that it was asked for on."""
        return f"/changes/{self.about}" if self.verb == "rollback" else f"/pools/{self.about.partition('/')[0]}"

    def asked(self, by: str, bridge: str, expected: str = "") -> VerbRequest:
        """As a verb; without *expected*, the fingerprint that the preview found, as the preview itself."""
        argv = [self.verb, f"--bridge={bridge}", *(f"--{name}={value}" for name, value in self.options.items())]
        return VerbRequest(
            (*argv, *(["--yes"] if expected else ["--dry-run", "--json"]), "--", self.about), by, expected
        )


def request_of(fields: Mapping[str, str], backends: Collection[str]) -> ChangeRequest:
    """Read a form, for a switch with these backends (POOL/BACKEND). Raises WrongRequestError."""
    verb, about = fields.get("verb", ""), fields.get("about", "")
    if verb not in VERBS:
        raise WrongRequestError(f"found the verb {verb[:20]!r}; expected one of {', '.join(VERBS)}")
    if verb == "rollback" and not (about.isascii() and about.isdigit() and len(about) < 10):
        raise WrongRequestError(f"found {about[:20]!r}; expected the number of a state")
    if verb != "rollback" and about not in backends:
        raise WrongRequestError(f"found {about[:200]!r}; expected a backend of the applied spec: choose one", "about")
    options = {name: fields[name].strip() for name in VERBS[verb][1] if fields.get(name, "").strip()}
    for name, what in (("for", "For"), ("over", "Over")):
        if name in options and not _TIME.fullmatch(options[name]):
            raise WrongRequestError(
                f"{what}: found {options[name][:20]!r}; expected a time such as 90s, 15m, 2h or 1d", name
            )
    note = options.get("note", "")
    if len(note) > MAX_NOTE:
        raise WrongRequestError(f"Note: found {len(note)} characters; expected at most {MAX_NOTE}", "note")
    strange = next((c for c in note if not c.isprintable()), None)
    if strange is not None:
        why = f"Note: found the character {strange!a}; expected one line of text without control characters"
        raise WrongRequestError(why, "note")
    return ChangeRequest(verb, about, options)


@dataclass(frozen=True)
class ChangePreview:
    """What a change would do, in words. *asks* is what the command line asks about; *error* why it is refused.

    *found* is the fingerprint of the record that it was made on.
    """

    found: str = ""
    words: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    changed: bool = False
    error: str = ""


def preview_of(outcome: VerbOutcome) -> ChangePreview:
    """Parse the outcome of a preview."""
    try:
        value: dict[str, Any] = json.loads(outcome.out)
    except ValueError:
        value = {}
    if not value.get("ok"):
        findings = "\n".join(_finding(each) for each in value.get("errors", ()))
        return ChangePreview(
            outcome.found, error=value.get("error") or findings or plain_answer(outcome.said) or "it failed"
        )
    words = list(value.get("words", ()))
    words += [each["text"] for key in ("changes", "moves") if "words" not in value for each in value.get(key, ())]
    words += [value["named"]] if value.get("named") else []
    words += [*value.get("ended", ()), *value.get("returned", ()), *value.get("extension", {}).get("text", ())]
    if not words and value.get("changed"):
        words.append("tables or settings that differ from the record are put right")
    warnings = (*value.get("warnings", ()), *value.get("notes", ()))
    return ChangePreview(
        outcome.found, tuple(words), tuple(value.get("asks", ())), warnings, bool(value.get("changed"))
    )


def plain_answer(text: str) -> str:
    """What a verb said, without the frame and the advice around wrong usage."""
    lines = [line.strip("│ ") if line.startswith("│") else line for line in text.splitlines()]
    said = "\n".join(line for line in lines if line and not line.startswith(("Usage:", "Try '", "╭", "╰")))
    return said.removeprefix("Error: ").removeprefix("Invalid value: ")


def _finding(value: Mapping[str, Any]) -> str:
    hint = f" ({value['hint']})" if value.get("hint") else ""
    where = f"{value.get('file')}:{value.get('line')}: {value.get('path')}"
    return f"{where}: found {value.get('found')}; expected {value.get('expected')}{hint}"


MAX_RUNS = 64


@dataclass
class VerbRun:
    """A change that was begun, and how it ended; *outcome* is None while it is under way."""

    request: ChangeRequest
    by: str
    began: datetime
    task: asyncio.Task[VerbOutcome]
    outcome: VerbOutcome | None = None

    @property
    def said(self) -> str:
        """What the verb said; empty while it is under way."""
        return plain_answer(self.outcome.said) if self.outcome is not None else ""


class ChangeRuns:
    """The changes that were begun, by an id."""

    def __init__(self, run_verb: RunVerb) -> None:
        self._run_verb = run_verb
        self._runs: OrderedDict[str, VerbRun] = OrderedDict()

    def begin(self, request: ChangeRequest, asked: VerbRequest) -> str:
        """Begin a change, and return its id."""
        name = secrets.token_urlsafe(16)
        run = self._runs[name] = VerbRun(request, asked.by, now(), asyncio.create_task(self._outcome(asked)))
        run.task.add_done_callback(lambda done: _end(run, done))
        ended = [key for key, each in self._runs.items() if each.outcome is not None]
        for old in ended[: max(0, len(self._runs) - MAX_RUNS)]:
            del self._runs[old]
        return name

    async def _outcome(self, asked: VerbRequest) -> VerbOutcome:
        try:
            return await self._run_verb(asked)
        except Exception as error:  # noqa: BLE001 - a bug must not leave a page that waits for ever
            return VerbOutcome(1, said=f"the agent failed to carry this out: {error!r}\n")

    def find(self, name: str) -> VerbRun | None:
        """A change that was begun; None if there is none of that id, or not any more."""
        return self._runs.get(name)

    async def wait(self, name: str, seconds: float) -> VerbRun:
        """A change, once it has ended or so many seconds have passed."""
        run = self._runs[name]
        await asyncio.wait([run.task], timeout=seconds)
        return run


def _end(run: VerbRun, done: asyncio.Task[VerbOutcome]) -> None:
    run.outcome = VerbOutcome(1, said="the agent ended before it was done\n") if done.cancelled() else done.result()


PREVIEW, CONFIRM = "/changes/preview", "/changes/confirm"
WAIT, GRADUAL_WAIT = 10.0, 1.0
"""Seconds for which a browser waits for a change, and for a gradual one; after that a page says that it is under way."""
OFF = "the applied spec does not allow it: switch.console: {allow_changes: true}"
_ROLE = "it needs a token of the role change"
Render = Callable[..., str]


class ChangePages:
    """The pages of changes. *run_verb* does a verb on the switch as the control socket would."""

    def __init__(self, access: Access, recorder: ConsoleRecorder, run_verb: RunVerb, render: Render) -> None:
        self._access, self._recorder, self._run_verb, self._render = access, recorder, run_verb, render
        self._runs = ChangeRuns(run_verb)

    def routes(self) -> list[Route]:
        """The routes of the pages."""
        return [
            Route(PREVIEW, self._preview_form, methods=["POST"]),
            Route(CONFIRM, self._confirm_form, methods=["POST"]),
            Route("/changes/runs/{name}", self._run),
        ]

    def refusal(self, visitor: Visitor) -> str:
        """Why somebody may change nothing; empty if they may."""
        applied = self._recorder.snapshot().applied
        if applied is None:
            return "this agent does not act on the switch"
        console = applied.known.spec.switch.console
        if console is None or not console.allow_changes:
            return OFF
        return "" if visitor.may_change else _ROLE

    def backends(self, pool: str) -> list[tuple[str, list[str]]]:
        """The backends of a pool of the applied spec, as POOL/BACKEND, each with the maintenance that it is in."""
        snapshot = self._snapshot()
        overlay = snapshot.applied.overlay.of(pool) if snapshot.applied is not None else ()
        names = [name for name in backends_of(snapshot) if name.startswith(f"{pool}/")]
        return [(name, [entry.state for entry in overlay if entry.name == name]) for name in names]

    async def _preview_form(self, request: Request) -> Response:
        visitor, fields = await self._posted(request)
        try:
            return await self._preview(visitor, request_of(fields, backends_of(self._snapshot())))
        except WrongRequestError as error:
            return self._wrong(visitor, fields, error)

    async def _confirm_form(self, request: Request) -> Response:
        visitor, fields = await self._posted(request)
        try:
            asked, basis = request_of(fields, backends_of(self._snapshot())), fields.get("basis", "")
        except WrongRequestError as error:
            return self._wrong(visitor, fields, error)
        if not basis:
            return await self._preview(visitor, asked)
        name = self._runs.begin(asked, asked.asked(_by(visitor), self._snapshot().bridge, basis))
        run = await self._runs.wait(name, GRADUAL_WAIT if "over" in asked.options else WAIT)
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
        outcome = await self._run_verb(asked.asked(_by(visitor), self._snapshot().bridge))
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
        return self._render(name, **{"snapshot": self._snapshot(), "visitor": visitor, "page": "changes", **more})

    def _snapshot(self) -> SwitchSnapshot:
        return self._recorder.snapshot()


def _wrong_field(asked: ChangeRequest, preview: ChangePreview) -> WrongRequestError:
    """What a refused preview says, with the option that it names first: `--for must be longer than --over`."""
    named = [(preview.error.find(f"--{name}"), name) for name in asked.options if f"--{name}" in preview.error]
    return WrongRequestError(preview.error, min(named)[1] if named else "")


def backends_of(snapshot: SwitchSnapshot) -> list[str]:
    """The backends of the applied spec, as POOL/BACKEND."""
    pools = snapshot.applied.known.spec.pools if snapshot.applied is not None else {}
    return [f"{name}/{backend.name}" for name, pool in pools.items() for backend in pool.backends]


def _by(visitor: Visitor) -> str:
    """Who asked, for the record."""
    return f"{visitor.name}@{socket.gethostname()} (console)"
