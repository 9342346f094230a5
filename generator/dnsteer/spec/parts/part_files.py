# SPDX-License-Identifier: Apache-2.0
"""The files of a spec: its own, and those that it includes, each read once and in bounds."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from glob import escape, glob, has_magic
from pathlib import Path as FilePath
from typing import Any

from dnsteer.spec.document import Document
from dnsteer.spec.errors import Finding, Path, SpecError, file_of_part, shorten, show_value
from dnsteer.spec.yaml_reader import MAX_SPEC_BYTES, read_yaml

MAX_PARTS = 1000
"""Most files of a spec."""
MAX_INCLUDE_DEPTH = 10
"""Most files that include one another in a chain."""
_KINDS = (
    (stat.S_ISDIR, "a directory", "name the files in it, such as {name}/*.yaml"),
    (stat.S_ISFIFO, "a named pipe", "include a file"),
    (stat.S_ISSOCK, "a socket", "include a file"),
    (stat.S_ISCHR, "a device", "include a file"),
    (stat.S_ISBLK, "a device", "include a file"),
)
_NEEDED = ("pools, vips or other keys of a spec", "write some, or remove the file from include")
"""What an empty file lacks, and what to do about it."""


@dataclass(frozen=True)
class PartFile:
    """A file of a spec. Its *name* is relative to the folder of the spec's own file, and empty for that file itself."""

    name: str
    document: Document

    def finding(self, path: Path, found: str, expected: str, hint: str = "", kind: str = "") -> Finding:
        """A finding about what stands at *path* in this file."""
        return replace(self.document.finding(path, found, expected, hint, kind), part=self.name)


def read_parts(main: Document, folder: FilePath | None, allowed: Sequence[FilePath] = ()) -> list[PartFile]:
    """The spec's own file and all that it includes, by name, itself first.

    Files must be in *folder*, that of the spec's own file, or in one of *allowed*. Without a folder there are no includes.
    Raises SpecError with all that is wrong with the includes and with the YAML of the files.
    """
    reader = _PartReader(main, folder, allowed)
    reader.read_includes(PartFile("", main), ())
    if reader.findings:
        raise SpecError(main.file, reader.findings)
    first, *others = reader.files
    return [first, *sorted(others, key=lambda part: part.name)]


class _PartReader:
    def __init__(self, main: Document, folder: FilePath | None, allowed: Sequence[FilePath]) -> None:
        self.files = [PartFile("", main)]
        self.findings: list[Finding] = []
        self._main, self._folder = main.file, folder
        self._allowed = allowed
        self._included: dict[FilePath, tuple[PartFile, Path]] = {}  # with the place where each is included first
        if folder is not None:
            own = _resolved(folder / FilePath(main.file).name)
            self._included[own] = (self.files[0], ())
        self._bytes = len(main.text.encode())

    def read_includes(self, part: PartFile, above: tuple[FilePath, ...]) -> None:
        """Read what a file includes. *above* are the files that lead to it, without itself."""
        for path, text in self._include_entries(part):
            for name in self._names(part, path, text):
                self._read(part, path, text, name, above)

    def _find(self, part: PartFile, path: Path, found: str, expected: str, hint: str = "") -> None:
        self.findings.append(part.finding(path, found, expected, hint))

    def _include_entries(self, part: PartFile) -> Iterator[tuple[Path, str]]:
        """The entries of `include`, each with its path in the file."""
        value: Any = part.document.value
        given = value.get("include") if isinstance(value, dict) else None
        if given is None and not (isinstance(value, dict) and "include" in value):
            return
        if self._folder is None:
            hint = "put it together first, with: dnsteer show --effective SPEC"
            self._find(part, ("include",), "includes in a text that is no file", "a spec in one piece", hint)
            return
        entries = [(("include",), given)] if isinstance(given, str) else None
        if isinstance(given, list):
            entries = [(("include", i), entry) for i, entry in enumerate(given)]  # type: ignore[misc]
        if not entries:
            hint = "write it as a list: [pools.yaml, sites/*.yaml]"
            self._find(part, ("include",), show_value(given), "names of files, relative to this one", hint)
            return
        for path, entry in entries:
            if isinstance(entry, str) and entry and "${" not in entry and "**" not in entry:
                yield path, entry
                continue
            hint = ""
            if isinstance(entry, str) and "${" in entry:
                hint = "files are read before variables are set: name the file itself"
            elif isinstance(entry, str) and "**" in entry:
                hint = "name the folders: * stands for names in one folder"
            self._find(part, path, show_value(entry) if entry else "an empty name", "the name of a file", hint)

    def _names(self, part: PartFile, path: Path, text: str) -> list[str]:
        """The files that an entry stands for, by the names of parts."""
        folder = os.path.dirname(part.name)  # noqa: PTH120
        if not has_magic(text):
            return [self._name(os.path.join(folder, text))]  # noqa: PTH118
        pattern = os.path.join(escape(folder), text)  # noqa: PTH118
        found = sorted(map(self._name, glob(pattern, root_dir=self._folder)))  # noqa: PTH207 - names are wanted, not paths
        if not found:
            looked = os.path.normpath(os.path.join(folder, os.path.dirname(text)))  # noqa: PTH118, PTH120
            hint = f"look into {file_of_part(self._main, looked) or '.'}"
            self._find(part, path, f'"{shorten(text)}", which no file matches', "files that are there", hint)
        return found

    def _name(self, path: str) -> str:
        """The name of the file at *path*, which is relative to the folder: without `..` where that is the same file."""
        assert self._folder is not None
        name = os.path.normpath(path)
        real = _resolved(self._folder / path)
        return name if real == _resolved(FilePath(file_of_part(self._main, name))) else os.fspath(real)

    def _read(self, by: PartFile, path: Path, text: str, name: str, above: tuple[FilePath, ...]) -> None:
        """Read the file *name*, which the entry at *path* of the file *by* includes as *text*, and what it includes."""
        assert self._folder is not None
        said = f'"{shorten(text)}"' if not has_magic(text) else f'"{shorten(name)}" by "{shorten(text)}"'
        real = _resolved(self._folder / name)
        if not name.isprintable():  # it would be in comments of flows, pages and records
            self._find(by, path, f"{said}, a name that cannot be shown", "a name of printable characters", "rename it")
            return
        if not is_inside(self._folder / name, self._folder, self._allowed):
            expected = "a file in the folder of the spec, or below"
            hint = "move it there, or allow its folder: --include-from DIR"
            self._find(by, path, f"{said}, which is outside the folder of the spec", expected, hint)
            return
        first = self._included.get(real)
        if first is not None:
            self._refuse_again(by, path, said, real, above, first)
            return
        self._included[real] = (by, path)
        unreadable = self._unreadable(name, text)
        if unreadable is not None:
            found, hint = unreadable
            self._find(by, path, f"{said}, which is {found}", "a readable YAML file", hint)
            return
        if len(self._included) > MAX_PARTS or len(above) >= MAX_INCLUDE_DEPTH:
            found = f"more than {MAX_PARTS} files" if len(above) < MAX_INCLUDE_DEPTH else f"{said}, too deep"
            expected = f"at most {MAX_PARTS} files, which include one another at most {MAX_INCLUDE_DEPTH} deep"
            self._find(by, path, found, expected, "include more of them from one file")
            return
        try:
            document = read_yaml(FilePath(file_of_part(self._main, name)), _NEEDED)
        except SpecError as error:
            self._say_why(error, by, path, said, name)
            return
        part = PartFile(name, document)
        if not isinstance(document.value, dict):
            found, hint = show_value(document.value), "its keys are those of a spec: pools, vips, switch, ..."
            self.findings.append(part.finding((), found, "a mapping, as a part of a spec is", hint))
            return
        self._bytes += len(document.text.encode())
        if self._bytes > MAX_SPEC_BYTES:
            most = f"at most {MAX_SPEC_BYTES // 2**20} MiB in all files of a spec"
            self._find(by, path, f"{said}, with which it is more", most, "split the spec by switch")
            return
        self.files.append(part)
        self.read_includes(part, (*above, real))

    def _refuse_again(
        self,
        by: PartFile,
        path: Path,
        said: str,
        real: FilePath,
        above: tuple[FilePath, ...],
        first: tuple[PartFile, Path],
    ) -> None:
        part, at = first
        if part.name == by.name and not at:
            hint = "name the others one by one, or put them into a folder of their own: parts/*.yaml"
            self._find(by, path, f"{said}, which is this file itself", "other files", hint)
            return
        if real in above or not at:
            hint = "remove it: a file that is included sees all of the spec, whichever file it stands in"
            self._find(by, path, f"{said}, which includes this file", "files that do not include one another", hint)
            return
        place = f"{file_of_part(self._main, part.name)}:{part.document.line(at)}"
        self._find(
            by, path, f"{said} a second time", "each file once", f"the first is at {place}: remove one of the two"
        )

    def _unreadable(self, name: str, text: str) -> tuple[str, str] | None:
        """What a file is instead of one that can be included, and what to do; None if it is a file."""
        assert self._folder is not None
        try:
            mode = (self._folder / name).stat().st_mode
        except FileNotFoundError:
            return "not there", "the path is relative to the file that includes it"
        except OSError as error:
            return f"not readable ({error.strerror})", "check its owner and mode"
        return next(((what, hint.replace("{name}", text)) for is_so, what, hint in _KINDS if is_so(mode)), None)

    def _say_why(self, error: SpecError, by: PartFile, path: Path, said: str, name: str) -> None:
        """Say why a file could not be read: where it is wrong, or, of the file as a whole, where it is included."""
        for finding in error.findings:
            if finding.line:
                self.findings.append(replace(finding, part=name))
            else:
                self._find(by, path, f"{said}: {finding.found}", finding.expected, finding.hint)


def is_inside(path: FilePath, folder: FilePath, allowed: Sequence[FilePath]) -> bool:
    """Whether a path leads, by all of its links, into *folder*, into one of *allowed*, or below them."""
    real = _resolved(path)
    return any(real.is_relative_to(_resolved(root)) for root in (folder, *allowed))


def _resolved(path: FilePath) -> FilePath:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a loop of links, which reading the file reports
        return path.absolute()
