# SPDX-License-Identifier: Apache-2.0
"""What the clients and the agent saw of a name server that was killed and came back, as figures, JSON and words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import floor
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from dnsteer.lab.errors import LabError
from dnsteer.render.atomic_files import write_file


class StreamQuery(NamedTuple):
    """A query of the stream: when it was sent, seconds until its answer (negative: lost), its flow, who answered."""

    sent: float
    took: float
    flow: int
    server: str | None


@dataclass(frozen=True)
class ClientGroup:
    """Some of the clients (source ports), and what they saw from the kill on.

    *lost* are queries without a good answer, *last_lost* is when the last one of them was sent (seconds after the kill),
    *moved* the clients that another server answered meanwhile, *back* those that have their server of before again.
    """

    clients: int
    asked: int
    lost: int
    last_lost: float | None
    moved: int
    back: int


@dataclass(frozen=True)
class Timeline:
    """Queries by the time at which they were sent, in steps of *step* seconds, the first *begin* seconds after the kill.

    *answered* has those that each server answered, *lost* those without a good answer. Steps that the load had only a part
    of are left out.
    """

    step: float
    begin: float
    answered: Mapping[str, tuple[int, ...]]
    lost: tuple[int, ...]


@dataclass(frozen=True)
class FailoverReport:
    """The kill and the return of *server*. Times in seconds: *noticed* (by the agent) and *moved* (its slots in the switch)
    after the kill, *healthy* and *whole* (it has all its slots) after its start, which was *started* after the kill.
    """

    target: str
    backend: str
    server: str
    pids: tuple[int, ...]
    noticed: float
    moved: float
    healthy: float
    whole: float
    own: ClientGroup
    """The clients that *server* answered before."""
    others: ClientGroup
    lost_on_return: int
    """Queries of any client that were sent after the start and lost."""
    said: tuple[str, ...]
    """What the agent said, without its words at the beginning and the end."""
    started: float
    timeline: Timeline
    time: str = ""
    """When it ended, ISO 8601."""
    spec: str = ""
    """The spec's file."""

    @property
    def problems(self) -> list[str]:
        """What should not be; empty when all is well."""
        found = []
        if self.others.lost:
            found.append(f"clients of other servers lost {self.others.lost} queries")
        if self.lost_on_return:
            found.append(f"{self.lost_on_return} queries were lost when {self.server} came back")
        if self.own.moved < self.own.clients:
            found.append(f"{self.own.clients - self.own.moved} clients of {self.server} were not moved")
        if self.own.back < self.own.clients:
            found.append(f"{self.own.clients - self.own.back} clients of {self.server} did not come back to it")
        return found

    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {"ok": self.ok, "problems": self.problems, **asdict(self)}


def summarize_failover(
    queries: Sequence[StreamQuery],
    *,
    target: str,
    backend: str,
    server: str,
    pids: Sequence[int],
    times: tuple[float, float, float, float, float, float],
    said: Sequence[str],
    time: str = "",
    spec: str = "",
) -> FailoverReport:
    """The report. *times* (`time.monotonic`): killed, noticed, moved, started, healthy, whole; *time*: of the clock, now.

    *spec* is the spec's file.
    """
    killed, noticed, moved, started, healthy, whole = times
    before = {q.flow: q.server for q in queries if q.sent < killed and q.server is not None}  # the last answer counts
    own = [q for q in queries if before.get(q.flow) == server]
    others = [q for q in queries if before.get(q.flow) != server]
    return FailoverReport(
        target,
        backend,
        server,
        tuple(pids),
        round(noticed - killed, 3),
        round(moved - killed, 3),
        round(healthy - started, 3),
        round(whole - started, 3),
        _clients(own, before, killed, started, whole),
        _clients(others, before, killed, started, whole),
        sum(q.server is None for q in queries if q.sent >= started),
        tuple(line for line in said if " is " in line or " slots of pool " in line or line.startswith("decision ")),
        round(started - killed, 3),
        _timeline(queries, killed),
        time,
        spec,
    )


STEP = 0.25
"""Seconds of a step of the timeline."""


def _timeline(queries: Iterable[StreamQuery], killed: float) -> Timeline:
    """The queries in steps; one of them begins with the kill."""
    places = [(floor((q.sent - killed) / STEP), q.server) for q in queries]
    first, end = min((at for at, _ in places), default=0) + 1, max((at for at, _ in places), default=0)
    answered = {name: [0] * (end - first) for name in sorted({name for _, name in places if name is not None})}
    lost = [0] * (end - first)
    for at, name in places:
        if first <= at < end:
            (lost if name is None else answered[name])[at - first] += 1
    return Timeline(STEP, first * STEP, {name: tuple(found) for name, found in answered.items()}, tuple(lost))


def _clients(
    queries: Iterable[StreamQuery], before: Mapping[int, str], killed: float, started: float, whole: float
) -> ClientGroup:
    every = list(queries)
    since = [q for q in every if q.sent >= killed]
    lost = [q.sent for q in since if q.server is None]
    moved = {q.flow for q in since if q.sent < started and q.server not in (None, before.get(q.flow))}
    back = {q.flow for q in since if q.sent >= whole and q.server == before.get(q.flow)}
    return ClientGroup(
        len({q.flow for q in every}),
        len(since),
        len(lost),
        round(max(lost) - killed, 3) if lost else None,
        len(moved),
        len(back),
    )


def add_to_report(report: FailoverReport, file: Path) -> None:
    """Write the report as `agent` into the JSON of *file*, beside what `lab demo` wrote there. Raises LabError."""
    try:
        whole: object = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    except (OSError, ValueError) as err:
        raise LabError(f"{file} cannot be read as JSON ({err}): remove it, or give another --report") from err
    if not isinstance(whole, dict):
        raise LabError(f"{file} is no report of `lab demo`: remove it, or give another --report")
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, json.dumps({**whole, "agent": report.as_json()}, indent=2) + "\n")


def print_failover(report: FailoverReport, console: Console, file: Path) -> None:
    """Print the summary."""
    own, others = report.own, report.others

    def say(text: str, style: str | None = None) -> None:
        console.print(text, style=style, highlight=False, soft_wrap=True, markup=False)  # addresses are in brackets

    moves = next((line for line in report.said if " slots of pool " in line), "")
    say(
        f"  0.0 s  {report.server} is killed (process {', '.join(map(str, report.pids))}), under load to {report.target}"
    )
    say(f"{report.noticed:5.1f} s  the agent knows: {next(line for line in report.said if ' is unhealthy' in line)}")
    say(f"{report.moved:5.1f} s  {moves}")
    if own.last_lost is not None:
        say(f"{own.last_lost:5.1f} s  the last query that is lost is sent")
    say(f"  0.0 s  {report.server} is started again")
    say(f"{report.healthy:5.1f} s  the agent knows: {report.backend} is healthy")
    say(f"{report.whole:5.1f} s  it has all its slots again")
    say(f"its clients: {_words(own)}, {own.back} came back")
    say(f"all others: {_words(others)}")
    say(f"report: {file}")
    for problem in report.problems:
        say(f"problem: {problem}", "red")
    if report.ok:
        say("only its own clients noticed, and nothing was lost when it came back", "green")


def _words(seen: ClientGroup) -> str:
    return f"{seen.clients} source ports, {seen.lost:,} of {seen.asked:,} queries lost, {seen.moved} moved"
