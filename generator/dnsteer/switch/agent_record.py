# SPDX-License-Identifier: Apache-2.0
"""What the agent of a bridge keeps in its record.

That is what it knows, for those on other machines; checks that fail again and again, so that the hold of their backends
outlives the agent; and where BIRD may have routes, those of earlier specs included.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dnsteer.spec.model.announce import Announce
from dnsteer.switch.session import Session, set_ids
from dnsteer.switch.state import FAILURES_KEY, KNOWN_KEY, ROUTES_KEY, BridgeRecord, DamagedError

_FIELDS = {"include", "control", "protocol"}


def route_location(announce: Announce) -> Announce:
    """What of the settings says where the routes are."""
    return Announce(via=announce.via, **announce.model_dump(include=_FIELDS))


def recorded_route_locations(record: BridgeRecord) -> list[Announce]:
    """The places that are recorded. Raises DamagedError."""
    record.refuse_other_format()
    try:
        return [Announce(via="bird", **place) for place in json.loads(record.ids.get(ROUTES_KEY) or "[]")]
    except (ValueError, TypeError, RecursionError) as err:
        raise DamagedError(
            f"external_ids:{ROUTES_KEY} of bridge {record.bridge} in OVSDB is damaged ({str(err).splitlines()[0]}): it was "
            "changed by hand. Whether BIRD has routes of an earlier spec is not known: birdc show route"
        ) from None


def note_of(record: BridgeRecord) -> Any:
    """What is recorded, as JSON; None where there is nothing, or what is no JSON."""
    try:
        return json.loads(record.ids.get(KNOWN_KEY) or "null")
    except (ValueError, RecursionError):
        return None


TargetKey = tuple[str, str, int, str]
"""Who was asked: pool, backend, the check's number in the pool, address."""


@dataclass(frozen=True)
class PastFailures:
    """The decayed number of *failures* of one check as of the time *at*. Until *held* the backend stays unhealthy.

    Times are in seconds since 1970.
    """

    failures: float
    at: float
    held: float


def past_failures(record: BridgeRecord) -> dict[TargetKey, PastFailures]:
    """The failures that are recorded; none where that was changed by hand, since nothing but a hold depends on it."""
    try:
        return {
            (str(pool), str(backend), int(number), str(address)): PastFailures(float(failures), float(at), float(held))
            for pool, backend, number, address, failures, at, held in json.loads(record.ids.get(FAILURES_KEY) or "[]")
        }
    except (ValueError, TypeError, RecursionError, OverflowError):
        return {}


class AgentRecordSession(Session):
    """A connection to OVSDB for the agent that acts on the bridge, which alone writes these. Raises what Session does."""

    def __enter__(self) -> AgentRecordSession:
        return self

    def record_note(self, bridge: str, note: Any) -> None:
        """Record what is known of a bridge, instead of what was. None takes the note away."""
        record = self.record_of(bridge)
        text = json.dumps(note, separators=(",", ":")) if note is not None else ""
        if record.ids.get(KNOWN_KEY, "") != text:
            self._write(record, set_ids(record.uuid, {KNOWN_KEY: text}))

    def record_failures(self, record: BridgeRecord, failures: Mapping[TargetKey, PastFailures]) -> None:
        """Record these failures of a bridge, instead of those that there were."""
        rows = [[*key, round(p.failures, 3), round(p.at), round(p.held)] for key, p in failures.items()]
        self._write(
            record, set_ids(record.uuid, {FAILURES_KEY: json.dumps(rows, separators=(",", ":")) if rows else ""})
        )

    def record_route_locations(self, record: BridgeRecord, places: Sequence[Announce]) -> None:
        """Record all places of a bridge, instead of those that there were."""
        value = [place.model_dump(include=_FIELDS) for place in places]
        self._write(record, set_ids(record.uuid, {ROUTES_KEY: json.dumps(value) if value else ""}))
