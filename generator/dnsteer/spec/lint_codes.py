"""The codes of lint's findings, for a spec that accepts some: lint itself is not there where a spec is read."""

from __future__ import annotations

_NUMBERS = (*range(1, 6), *range(10, 24), *range(30, 35), 40, 50, *range(60, 64))
LINT_CODES = frozenset(f"DNS{number:03}" for number in _NUMBERS)
"""All codes; a test compares them with lint's own."""
