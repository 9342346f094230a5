# SPDX-License-Identifier: Apache-2.0
"""Numbers, times and words of pages and reports. The browser's copy for live numbers is `number` in assets/console.js."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from math import floor, log10
from types import MappingProxyType

UNKNOWN = "\N{EN DASH}"


def number(value: float | str | None) -> str:
    """A rate in at most five characters and a unit: 0, 7.3, 412, 9.87 k, 1.20 M. Text stays; a dash where it is unknown."""
    if value is None:
        return UNKNOWN
    if isinstance(value, str):
        return value
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size * 0.9995:
            return f"{_digits(value / size)} {unit}"
    return "0" if value < 0.05 else _digits(value) if value < 99.95 else f"{value:.0f}"


def _digits(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def percent(part: float, whole: float) -> str:
    """A share: 12.5 %."""
    return f"{100 * part / whole:.1f} %" if whole else UNKNOWN


def moment(time: datetime | str) -> str:
    """A time in UTC: 2026-11-23 21:40:05."""
    at = datetime.fromisoformat(time) if isinstance(time, str) else time
    return at.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def ranges(numbers: Iterable[int]) -> str:
    """Numbers as ranges: 0-3, 7."""
    out: list[list[int]] = []
    for n in sorted(numbers):
        if out and n == out[-1][1] + 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in out)


def rounded(rate: float | None) -> float | None:
    """A rate to three digits, so that it changes less often."""
    if rate is None:
        return None
    if rate < 0.05:
        return 0
    value = round(rate, 2 - floor(log10(rate)))
    return int(value) if value >= 100 else value


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


def no_page_reason(is_standby: bool) -> str:
    """Why a console without a spec has no page of a pool or VIP."""
    return f"{WORDS['elsewhere']} this page" if is_standby else "no spec is applied yet"
