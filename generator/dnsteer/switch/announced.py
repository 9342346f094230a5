"""Where BIRD may have routes to the VIPs of a bridge, as its record says: also those that an earlier spec wanted."""

from __future__ import annotations

import json
from collections.abc import Sequence

from dnsteer.spec.model.announce import Announce
from dnsteer.switch.session import Session, set_ids
from dnsteer.switch.state import PLACES_KEY, BridgeRecord, DamagedError

_FIELDS = {"include", "control", "protocol"}


def route_place(announce: Announce) -> Announce:
    """What of the settings says where the routes are."""
    return Announce(via=announce.via, **announce.model_dump(include=_FIELDS))


def places_of(record: BridgeRecord) -> list[Announce]:
    """The places that are recorded. Raises DamagedError."""
    try:
        return [Announce(via="bird", **place) for place in json.loads(record.ids.get(PLACES_KEY) or "[]")]
    except (ValueError, TypeError, RecursionError) as err:
        raise DamagedError(
            f"external_ids:{PLACES_KEY} of bridge {record.bridge} in OVSDB is damaged ({str(err).splitlines()[0]}): it was "
            "changed by hand. Whether BIRD has routes of an earlier spec is not known: birdc show route"
        ) from None


class PlacesSession(Session):
    """A connection to OVSDB that records places. Only the agent that acts writes them. Raises what Session does."""

    def __enter__(self) -> PlacesSession:
        return self

    def record_places(self, record: BridgeRecord, places: Sequence[Announce]) -> None:
        """Record all places of a bridge, instead of those that there were."""
        value = [place.model_dump(include=_FIELDS) for place in places]
        self._write(record, set_ids(record.uuid, {PLACES_KEY: json.dumps(value) if value else ""}))
