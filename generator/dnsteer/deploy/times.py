# SPDX-License-Identifier: Apache-2.0
"""Times as they are recorded, and maintenance that ends by them."""

from __future__ import annotations

from datetime import datetime, timezone

from dnsteer.slots.maintenance import Overlay


def now() -> datetime:
    """The time, in UTC and whole milliseconds."""
    time = datetime.now(timezone.utc)
    return time.replace(microsecond=time.microsecond // 1000 * 1000)


def stamp(time: datetime) -> str:
    """Return a time as recorded."""
    return time.isoformat(timespec="milliseconds" if time.microsecond else "seconds")


def expire(overlay: Overlay, time: datetime) -> Overlay:
    """Return the overlay without expired entries and denials."""
    return overlay.without(a for a in (*overlay, *overlay.denials) if a.expired(time))
