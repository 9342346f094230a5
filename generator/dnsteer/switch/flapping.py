"""Checks that have failed again and again, in the record: so the hold of their backends outlives the agent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from dnsteer.switch.session import Session, set_ids
from dnsteer.switch.state import FAILURES_KEY, BridgeRecord

Asked = tuple[str, str, int, str]
"""Who was asked: pool, backend, the check's number in the pool, address."""


@dataclass(frozen=True)
class PastFailures:
    """The decayed number of *failures* of one check as of the time *at*. Until *held* the backend stays unhealthy.

    Times are in seconds since 1970.
    """

    failures: float
    at: float
    held: float


def past_failures(record: BridgeRecord) -> dict[Asked, PastFailures]:
    """The failures that are recorded; none where that was changed by hand, since nothing but a hold depends on it."""
    try:
        return {
            (str(pool), str(backend), int(number), str(address)): PastFailures(float(failures), float(at), float(held))
            for pool, backend, number, address, failures, at, held in json.loads(record.ids.get(FAILURES_KEY) or "[]")
        }
    except (ValueError, TypeError, RecursionError, OverflowError):
        return {}


class FailuresSession(Session):
    """A connection to OVSDB that records failures. Only the agent that acts writes them. Raises what Session does."""

    def __enter__(self) -> FailuresSession:
        return self

    def record_failures(self, record: BridgeRecord, failures: Mapping[Asked, PastFailures]) -> None:
        """Record these failures of a bridge, instead of those that there were."""
        rows = [[*key, round(p.failures, 3), round(p.at), round(p.held)] for key, p in failures.items()]
        self._write(
            record, set_ids(record.uuid, {FAILURES_KEY: json.dumps(rows, separators=(",", ":")) if rows else ""})
        )
