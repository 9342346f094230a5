# SPDX-License-Identifier: Apache-2.0
"""A spec as plain values, with the file and the line in which each of them is written."""

from __future__ import annotations

import os.path
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from dnsteer.spec.errors import Finding, Path, file_of_part, show_path

_T = TypeVar("_T")


class Origin(NamedTuple):
    """A variable that a value comes from, and where that is set: the file, as `Document.parts` names it, and the line."""

    variable: str
    part: str
    line: int


@dataclass(frozen=True)
class SpecPlace:
    """Where a value is written: the file, as `Document.parts` names it, the line (from 1), and the path there.

    *origins* are the variables that it comes from. *default_of* is the object whose default it is, if it is one.
    """

    part: str
    line: int
    path: Path
    origins: tuple[Origin, ...] = ()
    default_of: Path = ()


@dataclass
class Document:
    """A parsed file, or a spec that is put together of several: its name, its value, its text, and where things are written.

    Paths are those of the value. *lines* has the line (from 1) of each. *parts* names the file of a value and of what is
    below it, relative to the folder of *file*; empty, and where nothing says otherwise: *file* itself. *written_at* has the
    path in its file of what stands elsewhere there, as defaults do, and *origins* the variables of a value. *positions* has,
    for pools with workers, the place in the file's list of each backend that the spec has.

    *variables* are the scalars that hold `${`, with whether they are plain ones, without quotes; *nulls* are spelled-out
    nulls. *warnings* are those of putting it together.
    """

    file: str
    value: Any
    lines: dict[Path, int] = field(default_factory=dict)
    text: str = field(default="", repr=False)
    positions: Mapping[str, Sequence[int]] = field(default_factory=dict, repr=False)
    parts: dict[Path, str] = field(default_factory=dict, repr=False)
    written_at: dict[Path, Path] = field(default_factory=dict, repr=False)
    origins: dict[Path, tuple[Origin, ...]] = field(default_factory=dict, repr=False)
    variables: dict[Path, bool] = field(default_factory=dict, repr=False)
    nulls: set[Path] = field(default_factory=set, repr=False)
    warnings: tuple[Finding, ...] = ()

    def place(self, path: Path) -> SpecPlace:
        """Where what the spec has at *path* is written, or the nearest enclosing value that is."""
        path = self.path_in_document(path)
        at = path
        while at and at not in self.lines:
            at = at[:-1]
        written, below = _nearest(self.written_at, path, ())
        owner = path[: len(path) - len(below) - 1] if written[:1] == ("defaults",) else ()
        line = self.lines.get(at, 1)
        return SpecPlace(
            self.part(path), line, (*written, *below) if written else path, self.origins.get(path, ()), owner
        )

    def part(self, path: Path) -> str:
        """The file in which what the document has at *path* is written, as `parts` names it."""
        return _nearest(self.parts, path, "")[0]

    def line(self, path: Path) -> int:
        """The line of what the spec has at *path*, or of the nearest enclosing value that exists."""
        return self.place(path).line

    def path_in_file(self, path: Path) -> Path:
        """The path in its file of what the spec has at *path*: the same, but for workers and defaults."""
        path = self.path_in_document(path)
        written, below = _nearest(self.written_at, path, ())
        return (*written, *below) if written else path

    def where(self, path: Path, file: str = "") -> str:
        """FILE:LINE of what the spec has at *path*; *file* is what to call the document's own."""
        place = self.place(path)
        return f"{file_of_part(file or self.file, place.part)}:{place.line}"

    def finding(self, path: Path, found: str, expected: str, hint: str = "", kind: str = "") -> Finding:
        """A finding about what the spec has at *path*, where it is written."""
        place = self.place(path)
        whence = [f"the default of {show_path(place.default_of)}"] if place.default_of else []
        whence += [f"${{{one.variable}}} of {file_of_part(self.file, one.part)}:{one.line}" for one in place.origins]
        said = f"{found} ({', '.join(whence)})" if whence else found
        return Finding(place.line, place.path, said, expected, hint, kind, place.part)

    def path_in_document(self, path: Path) -> Path:
        """The path in *value* of what the spec has at *path*: the same, but for workers."""
        if self.positions and len(path) > 3 and path[0] == "pools" and path[2] == "backends":
            positions, index = self.positions.get(str(path[1])), path[3]
            if positions is not None and isinstance(index, int):
                return (*path[:3], positions[index], *path[4:])
        return path


def _nearest(known: Mapping[Path, _T], path: Path, none: _T) -> tuple[_T, Path]:
    """What is known of *path* or the nearest enclosing one, and the rest of the path below that."""
    if known:
        for length in range(len(path), -1, -1):
            if path[:length] in known:
                return known[path[:length]], path[length:]
    return none, path


def folder_of(file: str) -> str:
    """The folder of a document's file; empty for the current one."""
    return os.path.dirname(file)  # noqa: PTH120 - a name, which may be that of standard input


def bridge_of(doc: Document) -> str:
    """The name of the bridge, as far as an unchecked document says one; else empty."""
    switch = doc.value.get("switch") if isinstance(doc.value, dict) else None
    bridge = switch.get("bridge") if isinstance(switch, dict) else None
    return bridge if isinstance(bridge, str) else ""
