# SPDX-License-Identifier: Apache-2.0
"""What the queries and the words of a checker add up to. Pure functions; times are of `time.monotonic`, in seconds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

GOOD = ("NOERROR", "NXDOMAIN")


@dataclass(frozen=True)
class Query:
    """A query: when it was sent, how long its answer took (negative: none came), the answer's code, who gave it."""

    sent: float
    took: float
    code: str = ""
    server: str = ""
    name: str = ""

    @property
    def answered(self) -> bool:
        """Whether an answer came."""
        return self.took >= 0

    @property
    def good(self) -> bool:
        """Whether a good answer came."""
        return self.answered and self.code in GOOD


@dataclass(frozen=True)
class Phase:
    """What the affected clients saw of a fault or a repair. Seconds from its beginning; counts of queries.

    *elsewhere* is when the first query was answered by another server than before, *last_bad* when the last one was sent
    that got no good answer.
    """

    asked: int
    lost: int
    errors: int
    late: int
    elsewhere: float | None
    last_bad: float | None


def phase(
    queries: Iterable[Query], before: str | None, begin: float, end: float, late: float, back: str | None = None
) -> Phase:
    """The queries sent from *begin* to *end*. *before* is who answered so far; *back*: it is this one who is waited for.

    Answers that took more than *late* seconds are late.
    """
    inside = [q for q in queries if begin <= q.sent < end]
    moved = [q.sent + q.took for q in inside if q.good and (q.server == back if back else q.server != before)]
    bad = [q.sent for q in inside if not q.good]
    return Phase(
        asked=len(inside),
        lost=sum(not q.answered for q in inside),
        errors=sum(q.answered and not q.good for q in inside),
        late=sum(q.good and q.took > late for q in inside),
        elsewhere=min(moved) - begin if moved else None,
        last_bad=max(bad) - begin if bad else None,
    )


def out_of_service(marks: Sequence[tuple[float, bool]], begin: float, end: float) -> tuple[int, float]:
    """Times that a server went out from *begin* to *end*, and the share of that time that it was out.

    *marks* are when it went out (False) or came back (True), in order; it begins in service.
    """
    times, out, since = 0, 0.0, None
    for time, healthy in marks:
        if not begin <= time < end:
            continue
        if not healthy and since is None:
            times, since = times + 1, time
        elif healthy and since is not None:
            out, since = out + time - since, None
    if since is not None:
        out += end - since
    return times, out / (end - begin)


def spread(values: Iterable[float | None]) -> dict[str, float | None]:
    """Median, least and most of those that there are; None where there is none."""
    known = [v for v in values if v is not None]
    if not known:
        return {"median": None, "least": None, "most": None}
    return {
        "median": round(statistics.median(known), 3),
        "least": round(min(known), 3),
        "most": round(max(known), 3),
    }


def summarized(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The rounds of one fault and one checker, entry by entry: seconds as spreads, counts as sums."""
    merged: dict[str, Any] = {}
    for key in rounds[0]:
        values = [each[key] for each in rounds]
        merged[key] = sum(values) if all(isinstance(v, int) for v in values) else spread(values)
    return merged
