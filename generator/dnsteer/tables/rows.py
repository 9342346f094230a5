# SPDX-License-Identifier: Apache-2.0
"""The rows of a plan by their type: tables and forwarding modes add them, templates get those that their table uses."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar, cast, runtime_checkable

from dnsteer.spec.errors import DefinitionError

if TYPE_CHECKING:
    from typing_extensions import Self

R = TypeVar("R")


@runtime_checkable
class KeyedRow(Protocol):
    """A row that is kept once for each key."""

    @property
    def key(self) -> Hashable:
        """The value by which rows of the type are the same."""


@runtime_checkable
class MergedRow(KeyedRow, Protocol):
    """A row that takes over what another one of the same key has."""

    def merged(self, other: Self) -> Self:
        """Return both in one."""


class Rows:
    """Lists of rows, one for each type, in the order in which they were added.

    Of several KeyedRows with the same key the first is kept; a MergedRow is merged with each of the others.
    """

    def __init__(self) -> None:
        self._of: dict[type[object], list[object]] = {}
        self._places: dict[type[object], dict[Hashable, int] | None] = {}
        """The place of each key in its list; None for types without keys."""
        self._merged: set[type[object]] = set()
        self._read: set[type[object]] = set()
        """Types that a table has read: all of their rows were there."""

    def add(self, rows: Iterable[object]) -> None:
        """Add rows, each to the list of its type. Raises DefinitionError for rows that were read before they were made."""
        for row in rows:
            kind = type(row)
            if kind in self._read:
                raise DefinitionError(
                    f"rows of type {kind.__name__} were read before all of them were made: the table that reads them must "
                    "stand after the one that makes them, in ORDER of dnsteer/tables/order.py"
                )
            if kind not in self._of:
                self._of[kind], self._places[kind] = [], {} if isinstance(row, KeyedRow) else None
                if isinstance(row, MergedRow):
                    self._merged.add(kind)
            same, places = self._of[kind], self._places[kind]
            if places is not None:
                place = places.setdefault(cast("KeyedRow", row).key, len(same))
                if place < len(same):
                    if kind in self._merged:
                        same[place] = cast("MergedRow", same[place]).merged(cast("MergedRow", row))
                    continue
            same.append(row)

    def kinds(self) -> Iterable[type[object]]:
        """Return the types of the rows."""
        return self._of.keys()

    def of(self, kind: type[R]) -> list[R]:
        """Return the rows of a type, of which no more may follow."""
        self._read.add(kind)
        return cast("list[R]", self._of.get(kind, []))
