# SPDX-License-Identifier: Apache-2.0
"""Pages about specs: what a recorded state changed, and what an apply of a spec that is sent would change."""

from __future__ import annotations

import asyncio
import difflib
import re
import socket
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from dnsteer.console.access import Access, Visitor, visitor_of
from dnsteer.console.change_pages import ChangePages, plain_answer
from dnsteer.console.error_pages import PageError
from dnsteer.console.forms import MAX_FORM_BYTES, FormError
from dnsteer.console.page_content import RecordedStates
from dnsteer.deploy.recorded_spec import spec_of
from dnsteer.deploy.spec_differences import SpecDifference, compare_specs
from dnsteer.deploy.verb_request import RunVerb, VerbOutcome, VerbRequest
from dnsteer.plan.spec_size import SpecSize, size_of_spec
from dnsteer.spec.errors import SpecError, counted
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.parts.effective_text import without_places
from dnsteer.spec.read import parse_document
from dnsteer.switch.state import AppliedState
from dnsteer.switch.tools import SwitchError
from dnsteer.view.masking import masked
from dnsteer.view.snapshot import SwitchSnapshot

MAX_PLANNED = SpecSize(200_000, 4_000_000)
"""Flows, and choices of slots by backends; or twice those of the applied spec, where that is more."""


def too_large(file: str, text: str, applied: Spec | None) -> str:
    """Why a spec is too large for a plan from the console; empty if it is not, or is none: then the plan says why."""
    try:
        spec = Spec.model_validate(parse_document(file, text).value)
    except (SpecError, ValidationError):
        return ""
    size, now = size_of_spec(spec), size_of_spec(applied) if applied is not None else SpecSize(0, 0)
    for what, found, most in (
        ("flows", size.flows, max(MAX_PLANNED.flows, 2 * now.flows)),
        ("choices of slots (slots times backends)", size.choices, max(MAX_PLANNED.choices, 2 * now.choices)),
    ):
        if found > most:
            return (
                f"{file}: found about {found:,} {what}; expected at most {most:,} for a plan from the console, "
                f"which the agent makes; on the machine: dnsteer plan {file}\n"
            )
    return ""


PLAN = "/plan"
MAX_SPEC_BYTES = 1 << 20
"""Bytes of a spec that is sent. As a form it may take three times as many."""
MAX_LINES = 5000
"""Lines of a difference that are shown."""
MAX_WORDS = 20
"""Differences in words that are not folded away."""
MAX_OPEN = 60
"""Lines that are not folded away."""
MAX_VIEWS = 10
"""Pages of states that are kept: as many as there are states."""
DEFAULT_FILE = "spec.yaml"
T = TypeVar("T")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,80}")
_ENDED = {
    0: "Nothing to change: the switch is as this spec says.",
    1: "There is no plan; nothing was changed.",
    2: "An apply would change the switch as follows.",
}


@dataclass(frozen=True)
class StateView:
    """A recorded state: how its spec differs from the one before it, *earlier*, in *words* and as *lines* of a diff.

    Without an earlier one *lines* are those of the spec. *cut* is how many lines more there are. *counts* says how
    many objects of each kind differ: `2 VIPs changed`.
    """

    state: AppliedState
    earlier: AppliedState | None
    words: tuple[str, ...]
    lines: tuple[str, ...]
    cut: int
    counts: tuple[str, ...] = ()

    @property
    def first_words(self) -> tuple[str, ...]:
        """The words that are not folded away."""
        return self.words[:MAX_WORDS]

    @property
    def more_words(self) -> tuple[str, ...]:
        """The words that are."""
        return self.words[MAX_WORDS:]

    @property
    def is_short(self) -> bool:
        """Whether the lines are not folded away."""
        return len(self.lines) <= MAX_OPEN

    @property
    def added(self) -> int:
        """Lines of the diff that the state added."""
        return sum(line[:1] == "+" and line[:3] != "+++" for line in self.lines)

    @property
    def removed(self) -> int:
        """Lines of the diff that it removed."""
        return sum(line[:1] == "-" and line[:3] != "---" for line in self.lines)


class SpecPages:
    """The pages. *states* reads the recorded states."""

    def __init__(
        self,
        access: Access,
        changes: ChangePages | None,
        states: Callable[[], Awaitable[tuple[SwitchSnapshot, RecordedStates]]],
        run_verb: RunVerb | None,
        render: Callable[..., str],
    ) -> None:
        self._access, self._changes, self._states = access, changes, states
        self._run_verb, self._render = run_verb, render
        self._thread = ThreadPoolExecutor(1, "console-specs")
        self._plans = asyncio.Lock()
        """Held while a plan is made: one at a time."""
        self._views: OrderedDict[tuple[object, ...], StateView] = OrderedDict()

    def routes(self) -> list[Route]:
        """The routes of the pages."""
        plan = [Route(PLAN, self._plan_page), Route(PLAN, self._plan, methods=["POST"])] if self._run_verb else []
        return [Route("/changes/{number:int}", self._state), *plan]

    def close(self) -> None:
        """End the thread, once it is done with what it makes."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _work(self, do: Callable[..., T], *args: Any) -> T:
        """Do what takes long for large specs, in the thread: health checks run in the loop."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, do, *args)

    async def _state(self, request: Request) -> Response:
        visitor, number = visitor_of(request), request.path_params["number"]
        snapshot, states = await self._states()
        kept = [state for state in states.states if isinstance(state, AppliedState)]
        if number not in [state.number for state in kept]:
            why = states.error or _why_unread(snapshot)
            if why:
                raise PageError(503, f"the recorded states cannot be read: {why}", {"retry-after": "5"})
            raise PageError(404, f"state {number} is not recorded, or not any more")
        view = await self._work(self._view, kept, number)
        current = snapshot.applied.known.state.number if snapshot.applied is not None else 0
        refusal = self._changes.refusal(visitor) if self._changes is not None else "there is no control socket"
        text = _as_is if visitor.role == "change" else masked
        page = partial(
            self._render,
            "state.html",
            snapshot=snapshot,
            visitor=visitor,
            page="changes",
            view=view,
            current=current,
            may_roll_back=not refusal and number != current,
            text=text,
        )
        return HTMLResponse(await self._work(page))

    def _view(self, states: Sequence[AppliedState], number: int) -> StateView:
        """As `state_view`, made once: for a large spec it takes most of a second."""
        key = (number, *((state.number, state.time, state.digest) for state in states if state.number <= number))
        found = self._views.get(key)
        if found is None:
            found = self._views[key] = state_view(states, number)
            while len(self._views) > MAX_VIEWS:
                self._views.popitem(last=False)
        return found

    async def _plan_page(self, request: Request) -> Response:
        visitor = visitor_of(request)
        if visitor.session is None:
            raise PageError(403, "plans are for browsers that have signed in")
        snapshot, _ = await self._states()
        return HTMLResponse(await self._work(self._page, visitor, snapshot))

    async def _plan(self, request: Request) -> Response:
        visitor, fields = await self._access.posted(request, 3 * MAX_SPEC_BYTES + MAX_FORM_BYTES, self._thread)
        named = fields.get("file", "")
        file = named if _FILE.fullmatch(named) else DEFAULT_FILE
        try:
            spec = await self._work(_sent, fields)
            if self._plans.locked():
                raise FormError(503, "another plan is being made; try again in some seconds")
        except FormError as error:
            snapshot, _ = await self._states()
            text = fields.get("spec", "")
            page = partial(self._page, visitor, snapshot, text, file, _ENDED[1], str(error), 1)
            return HTMLResponse(await self._work(page), error.status)
        assert self._run_verb is not None
        by = f"{visitor.name}@{socket.gethostname()} (console)"
        async with self._plans:
            snapshot, _ = await self._states()
            applied = snapshot.applied.known.spec if snapshot.applied is not None else None
            why = await self._work(too_large, file, spec.decode(), applied)
            if why:
                outcome = VerbOutcome(1, said=why)
            else:
                outcome = await self._plan_of(file, spec.decode(), by)
        snapshot, _ = await self._states()
        return HTMLResponse(await self._work(self._planned, visitor, snapshot, spec.decode(), file, outcome))

    async def _plan_of(self, file: str, text: str, by: str) -> VerbOutcome:
        """What the verb says of a spec: in one piece, as clients send theirs."""
        assert self._run_verb is not None
        try:
            document = await self._work(parse_document, file, text)
        except SpecError as error:
            return VerbOutcome(1, said=f"{error.text()}\n")
        return await self._run_verb(VerbRequest(("plan", "--", file), by, files={file: document.text.encode()}))

    def _planned(self, visitor: Visitor, snapshot: SwitchSnapshot, spec: str, file: str, outcome: VerbOutcome) -> str:
        """The page of a plan."""
        said = plain_answer(outcome.said)
        if visitor.role != "change":
            said = masked(said)
        ended = _ENDED.get(outcome.code, _ENDED[1])
        return self._page(visitor, snapshot, spec, file, ended, said, outcome.code)

    def _page(
        self,
        visitor: object,
        snapshot: SwitchSnapshot,
        spec: str = "",
        file: str = "",
        ended: str = "",
        said: str = "",
        code: int = 0,
    ) -> str:
        return self._render(
            "plan.html",
            snapshot=snapshot,
            visitor=visitor,
            page="changes",
            spec=spec,
            file=file,
            ended=ended,
            said=said,
            code=code,
        )


def _sent(fields: Mapping[str, str]) -> bytes:
    """The spec of a form. Raises FormError."""
    spec = fields.get("spec", "").replace("\r\n", "\n").encode()
    if len(spec) > MAX_SPEC_BYTES:
        raise FormError(413, f"expected a spec of at most {MAX_SPEC_BYTES >> 20} MiB")
    return spec


def _why_unread(snapshot: SwitchSnapshot) -> str:
    """Why there is no record to read states from; empty if there is one."""
    if snapshot.record is not None:
        return ""
    return snapshot.trouble or ("this agent stands by" if snapshot.is_standby else "they were not read yet")


def _as_is(text: str) -> str:
    return text


def state_view(states: Sequence[AppliedState], number: int) -> StateView:
    """One of these states, newest first, beside the one before it."""
    at = next(n for n, state in enumerate(states) if state.number == number)
    state, earlier = states[at], states[at + 1] if at + 1 < len(states) else None
    lines = state.text.splitlines()
    words: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    if earlier is not None:
        before, after = (f"{each.file} (state {each.number})" for each in (earlier, state))
        old, new = (without_places(each.text).splitlines() for each in (earlier, state))  # lines of files move
        lines = list(difflib.unified_diff(old, new, before, after, lineterm=""))
        try:
            differences = compare_specs(spec_of(earlier), spec_of(state))
            words = tuple(difference.text for difference in differences)
            counts = tuple(_counts(differences))
        except SwitchError as error:
            words = (f"not compared in words: {error}",)
    return StateView(state, earlier, words, tuple(lines[:MAX_LINES]), max(0, len(lines) - MAX_LINES), counts)


def _counts(differences: Iterable[SpecDifference]) -> Iterator[str]:
    """How many objects of each kind differ, in words."""
    for kind, many in Counter(kind for kind, _ in dict.fromkeys((d.kind, d.about) for d in differences)).items():
        what, _, how = kind.partition(" ")
        yield f"{counted(many, {'vip': 'VIP'}.get(what, what))} {how}"
