"""The rows of a plan, by their type: tables and forwarding modes add them, and templates get those that their table uses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar, cast

R = TypeVar("R")


class Rows:
    """Lists of rows, one for each type, in the order in which they were added.

    Of rows with the same `key` the first stands, merged with the others where it has `merged`.
    """

    def __init__(self) -> None:
        self._of: dict[type[Any], list[Any]] = {}
        self._places: dict[tuple[type[Any], object], int] = {}

    def add(self, rows: Iterable[Any]) -> None:
        """Add rows, each to the list of its type."""
        for row in rows:
            kind = type(row)
            same = self._of.setdefault(kind, [])
            if hasattr(row, "key"):
                place = self._places.setdefault((kind, row.key), len(same))
                if place < len(same):
                    if hasattr(row, "merged"):
                        same[place] = same[place].merged(row)
                    continue
            same.append(row)

    def of(self, kind: type[R]) -> list[R]:
        """The rows of a type."""
        return cast("list[R]", self._of.get(kind, []))
