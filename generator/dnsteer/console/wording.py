"""Words by which pages of the console and reports say how a switch is: in one place, so that all say the same."""

from __future__ import annotations

from types import MappingProxyType

WORDS = MappingProxyType(
    {
        "active": "active",
        "standby": "on standby",
        "as_applied": "as applied",
        "not_as_applied": "not as applied",
        "of_pending": "those of a change under way",
        "when_all_up": "when all are up",
        "elsewhere": "This agent is on standby: another agent works on this switch, and its console shows",
        "by_spec": "down in the spec",
        "moved_away": "of its slots moved away",
    }
)
"""What templates name `words`."""


def why_nothing(stands_by: bool) -> str:
    """Why a console without a spec has no page of a pool or VIP."""
    return f"{WORDS['elsewhere']} this page" if stands_by else "no spec is applied yet"
