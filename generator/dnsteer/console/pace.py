"""How often the switch is read for the pages: where a reading costs much it is rarer, so that browsers cost little."""

from __future__ import annotations

SHARE = 0.02
"""The part of a core that each of the readings may take: that of counters, and those of the pages Offload and Path."""


def pause(cost: float, least: float, most: float) -> float:
    """Seconds from one reading to the next, within bounds. *cost* is what one takes, in seconds of a core."""
    return max(least, min(cost / SHARE, most))
