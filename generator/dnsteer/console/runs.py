"""Changes that the console began: each runs to its end, whether its browser waits or not. The last ones are kept."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime

from dnsteer.console.change_request import ChangeRequest, plain_answer
from dnsteer.deploy.times import now
from dnsteer.deploy.verb_request import RunVerb, VerbOutcome, VerbRequest

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


class Runs:
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
