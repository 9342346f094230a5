# SPDX-License-Identifier: Apache-2.0
"""Merge the files of a spec by name. What two files say is never a question of their order: each thing is written once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from dnsteer.spec.document import Document
from dnsteer.spec.errors import Finding, Path, SpecError, file_of_part, shorten, show_value
from dnsteer.spec.model.lint import Lint
from dnsteer.spec.model.part import keys_of
from dnsteer.spec.model.spec import Spec, Switch
from dnsteer.spec.parts.part_files import PartFile

_T = TypeVar("_T")

_NAMED: dict[Path, str] = {("pools",): "pool", ("vips",): "VIP", ("vars",): "variable"}
"""Mappings by name, with what each of their entries is."""
_KEYS: dict[Path, list[str]] = {
    (): list(keys_of(Spec)),
    ("switch",): list(keys_of(Switch)),
    ("lint",): list(keys_of(Lint)),
}
"""Mappings with keys, in the order of these."""
_MERGED: frozenset[Path] = frozenset(
    [*_NAMED, *_KEYS, ("defaults",), ("defaults", "vips"), ("defaults", "pools"), ("defaults", "backends")]
)
_JOINED: frozenset[Path] = frozenset([("lint", "accept")])
"""Lists whose order means nothing: each file adds its entries."""
_SAME = ("apiVersion",)
"""Keys that several files may have, with one value."""
_OF_FILES = ("include", "requires")
"""Keys that each file has for itself."""


def merge(files: Sequence[PartFile]) -> Document:
    """The document of all *files*, the first of which is the spec's own. Raises SpecError for what two of them say.

    Where the pools or the VIPs are those of several files, they are in the order of their names.
    """
    main = files[0].document
    merger = _Merger(files)
    merger.document.value = merger.value((), [(part, part.document.value) for part in files])
    if merger.findings:
        raise SpecError(main.file, merger.findings)
    return merger.document


class _Merger:
    def __init__(self, files: Sequence[PartFile]) -> None:
        main = files[0].document
        self.document = Document(main.file, None, text=main.text)
        self.findings: list[Finding] = []
        for part in reversed(files):  # where several have a mapping, its line is that of the first
            self.document.lines.update(part.document.lines)
            self.document.variables.update(part.document.variables)
            self.document.nulls |= part.document.nulls
        for known in (self.document.lines, self.document.variables):
            for path in [path for path in known if path[:1] and path[0] in _OF_FILES]:
                del known[path]

    def value(self, path: Path, found: Sequence[tuple[PartFile, Any]]) -> Any:
        """What the files that have something at *path* say together."""
        part, value = found[0]
        self.document.parts[path] = part.name
        if path in _MERGED and all(isinstance(each, dict) for _, each in found):
            return self._mapping(path, found)
        if len(found) == 1:
            return value
        if path in _MERGED:
            self._refuse_no_mappings(path, found)
            return value
        if path in _JOINED and all(isinstance(each, list) for _, each in found):
            return self._list(path, found)
        if path in [(key,) for key in _SAME] and all(each == value for _, each in found):
            return value
        for later, _ in found[1:]:
            self._refuse_again(path, part, later)
        return value

    def _mapping(self, path: Path, found: Sequence[tuple[PartFile, Any]]) -> dict[str, Any]:
        keys: Iterable[str] = dict.fromkeys(key for _, each in found for key in each)
        if len(found) > 1 and path in _KEYS:
            known = _KEYS[path]
            keys = sorted(keys, key=lambda key: (known.index(key) if key in known else len(known), key))
        elif len(found) > 1:
            keys = sorted(keys)
        those: dict[str, list[tuple[PartFile, Any]]] = {}
        for part, each in found:
            for key, value in each.items():
                those.setdefault(key, []).append((part, value))
        return {key: self.value((*path, key), those[key]) for key in keys if path or key not in _OF_FILES}

    def _list(self, path: Path, found: Sequence[tuple[PartFile, Any]]) -> list[Any]:
        """All entries, file after file."""
        known = self.document
        for lines in (known.lines, known.variables):
            for below in [at for at in lines if at[: len(path)] == path and len(at) > len(path)]:
                del lines[below]
        out: list[Any] = []
        for part, entries in found:
            first = len(out)
            for index, entry in enumerate(entries, first):
                at: Path = (*path, index)
                known.parts[at], known.written_at[at] = part.name, (*path, index - first)
                out.append(entry)
            _copy_entries(part.document.lines, path, known.lines, first)
            _copy_entries(part.document.variables, path, known.variables, first)
        return out

    def _refuse_no_mappings(self, path: Path, found: Sequence[tuple[PartFile, Any]]) -> None:
        for part, value in found:
            if not isinstance(value, dict):
                hint = "the key has no value: give it one or remove the key" if value is None else ""
                self.findings.append(part.finding(path, show_value(value), "a mapping, as in the other files", hint))

    def _refuse_again(self, path: Path, first: PartFile, later: PartFile) -> None:
        what = _NAMED.get(path[:-1], "key")
        place = f"{file_of_part(self.document.file, first.name)}:{first.document.line(path)}"
        self.findings.append(
            later.finding(
                path,
                f'the {what} "{shorten(str(path[-1]))}" a second time' if path else "a second spec",
                "each name and each key once in all files of a spec",
                f"the first is at {place}: remove or rename one of the two",
            )
        )


def _copy_entries(known: Mapping[Path, _T], path: Path, into: dict[Path, _T], first: int) -> None:
    """Add what is known of the entries of the list at *path*, as known of entries from index *first* on."""
    size = len(path)
    for at, value in known.items():
        if len(at) > size and at[:size] == path and isinstance(index := at[size], int):
            target: Path = (*path, first + index, *at[size + 1 :])
            into[target] = value
