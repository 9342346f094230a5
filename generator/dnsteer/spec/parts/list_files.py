# SPDX-License-Identifier: Apache-2.0
"""Files of access lists: their entries take the place of `deny_file` and `allow_file`, each with its file and its line.

So the effective spec, which a record has, needs none of these files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path as FilePath
from typing import Any

from pydantic_core import PydanticCustomError

from dnsteer.spec.document import Document
from dnsteer.spec.errors import MAX_FINDINGS, Finding, Path, SpecError, file_of_part, shorten, show_value
from dnsteer.spec.model.access import MAX_ENTRIES
from dnsteer.spec.model.types import parse_prefix
from dnsteer.spec.parts.followed_lists import FollowedList
from dnsteer.spec.parts.part_files import PartFile, is_inside
from dnsteer.spec.source import UnreadableError, read_whole

LIST_KEYS = {"deny_file": "deny", "allow_file": "allow"}
"""Keys that name a file, and those that its entries become entries of."""
MAX_LIST_BYTES = 2 * 1024 * 1024
"""Largest file of a list, in bytes: 20,000 prefixes of IPv6, each with a comment of 60 characters."""
_ATTEMPTS = 3
_PORT = re.compile(r"[1-9][0-9]{0,4}\Z")
_READABLE = "a readable text file of prefixes"
_LINE = "a prefix such as 192.0.2.0/24, and behind it a port or nothing"


def names_list_files(value: Any) -> bool:
    """Whether the value of a spec or of a part of one names files of lists."""
    return any(True for _ in _lists_with_files(value))


@dataclass
class ListPart:
    """A file of lists, with the paths of the lists that its entries were added to, before defaults are in their places."""

    part: PartFile
    lists: list[Path]


def add_list_files(doc: Document, folder: FilePath | None, allowed: Sequence[FilePath]) -> list[ListPart]:
    """Put the entries of all files that lists of *doc* name into these lists, and return the files.

    Files must be in *folder*, that of the spec's own file, or in one of *allowed*. Raises SpecError for what is wrong with
    them, each bad line by its number.
    """
    reader = ListReader(doc, folder, allowed)
    for path, named in list(_lists_with_files(doc.value)):
        for key, target in LIST_KEYS.items():
            if key in named:
                reader.add(path, named, key, target)
    if reader.findings:
        raise SpecError(doc.file, reader.findings)
    return [ListPart(reader.files[name], reader.lists[name]) for name in sorted(reader.files)]


def follow_lists(
    doc: Document, files: Sequence[ListPart], folder: FilePath, allowed: Sequence[FilePath]
) -> list[FollowedList]:
    """Where *files* are, for who reads them again, and for which lists of *doc*, once defaults are in their places."""
    owners = [("switch",), *(("vips", name) for name in doc.value.get("vips") or ())]
    paths = [(*owner, "access", target) for owner in owners for target in LIST_KEYS.values()]
    out = []
    for one in files:
        name, text = one.part.name, one.part.document.text
        file = FilePath(os.path.abspath(folder / name))  # noqa: PTH100 - a link is followed anew each time
        root = next((root for root in (folder, *allowed) if is_inside(file, root, ())), folder)
        lists = tuple(path for path in paths if path in one.lists or doc.path_in_file(path) in one.lists)
        host = os.uname().nodename
        out.append(FollowedList(name, str(file), str(root.resolve()), host, text_digest(text), lists))
    return out


def text_digest(text: str) -> str:
    """What identifies the text of a list: its SHA-256, in hex."""
    return sha256(text.encode()).hexdigest()


def _lists_with_files(value: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The lists that name files, with their paths: the switch's, those of VIPs, and the default of VIPs."""
    owners: list[tuple[Path, Any]] = []
    if isinstance(value, dict):
        owners.append((("switch",), value.get("switch")))
        vips, defaults = value.get("vips"), value.get("defaults")
        if isinstance(vips, dict):
            owners += [(("vips", name), vip) for name, vip in vips.items()]
        if isinstance(defaults, dict):
            owners.append((("defaults", "vips"), defaults.get("vips")))
    for path, owner in owners:
        found = owner.get("access") if isinstance(owner, dict) else None
        if isinstance(found, dict) and not LIST_KEYS.keys().isdisjoint(found):
            yield (*path, "access"), found


class ListReader:
    """Reads files of lists, each once, and keeps what is wrong with them as *findings*."""

    def __init__(self, doc: Document, folder: FilePath | None, allowed: Sequence[FilePath]) -> None:
        self._doc, self._folder, self._allowed = doc, folder, allowed
        self.files: dict[str, PartFile] = {}
        self.lists: dict[str, list[Path]] = {}
        """The paths of the lists that the entries of each file were added to."""
        self.findings: list[Finding] = []

    def _find(self, path: Path, found: str, expected: str, hint: str = "") -> None:
        self.findings.append(self._doc.finding(path, found, expected, hint))

    def add(self, path: Path, named: dict[str, Any], key: str, target: str) -> None:
        """Take *key* out of the list *named* at *path*, and add the entries of its file to those of *target*."""
        doc, at = self._doc, (*path, key)
        given, written = named.pop(key), named.get(target)
        if not isinstance(given, str) or not given or not given.isprintable() or "${" in given:
            self._find(at, show_value(given) if given else "an empty name", "the name of a file", "without variables")
            return
        if written is not None and not isinstance(written, list):
            return  # which is said of that key itself
        name = self._name(at, given)
        if name is None:
            return
        lines = self.lines(at, given, name, FilePath(file_of_part(doc.file, name)))
        if lines is None:
            return
        whole: Path = (*path, target)
        doc.lines.setdefault(whole, doc.lines.get(at, 1))
        if written is None:
            doc.parts[whole] = doc.part(at)
        self.lists.setdefault(name, []).append(whole)
        named[target] = self.put(at, given, name, lines, whole, list(written or ()))

    def put(self, at: Path, given: str, name: str, lines: Sequence[str], whole: Path, entries: list[Any]) -> list[Any]:
        """Add the *lines* of the file *name*, *given* at *at*, to *entries*, those of the list at *whole*; return all."""
        doc, own = self._doc, self._doc.part(whole)
        for number, entry in self._entries(name, lines):
            place: Path = (*whole, len(entries))
            doc.lines[place] = number
            if name != own:
                doc.parts[place] = name
            if isinstance(entry, dict):
                doc.lines.update({(*place, inner): number for inner in entry})
            entries.append(entry)
        if not entries and not self.findings:
            hint = "write one, or remove the key"
            self._find(at, f'"{shorten(given)}", a file without a prefix', "at least one prefix", hint)
        return entries

    def _name(self, at: Path, given: str) -> str | None:
        """The name of a file as parts have it, relative to the folder of the spec; None if it is not to be read."""
        if self._folder is None:
            hint = "put it together first, with: dnsteer show --effective SPEC"
            self._find(at, f'"{shorten(given)}", a file, in a text that is none', "a spec in one piece", hint)
            return None
        by = os.path.dirname(self._doc.part(at))  # noqa: PTH120 - names of parts are no paths of this process
        name = os.path.normpath(os.path.join(by, given))  # noqa: PTH118
        if not is_inside(self._folder / name, self._folder, self._allowed):
            expected = "a file in the folder of the spec, or below"
            hint = "move it there, or allow its folder: --include-from DIR"
            self._find(at, f'"{shorten(given)}", which is outside the folder of the spec', expected, hint)
            return None
        return name

    def lines(self, at: Path, given: str, name: str, file: FilePath) -> list[str] | None:
        """The lines of the *file* of that name, read once for all lists; None where it cannot be read, which is said."""
        if name in self.files:
            return self.files[name].document.text.splitlines()
        said = f'"{shorten(given)}"'
        try:
            data = _read_settled(file)
        except UnreadableError as err:
            self._find(at, f"{said}, which is {err.found}", _READABLE, err.hint)
            return None
        except OSError as err:
            why = "not there" if isinstance(err, FileNotFoundError) else f"not readable ({err.strerror})"
            hint = (
                "the name is relative to the file that has this key"
                if why == "not there"
                else "check its owner and mode"
            )
            self._find(at, f"{said}, which is {why}", _READABLE, hint)
            return None
        if data is None:
            hint = "write a new file beside it, and rename that into its place"
            self._find(at, f"{said}, which changes while it is read", "a file that stays as it is", hint)
            return None
        if len(data) > MAX_LIST_BYTES:
            hint = "join prefixes that lie side by side"
            self._find(at, f"{said}, of more than {MAX_LIST_BYTES // 2**20} MiB", "a file of at most that size", hint)
            return None
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as err:
            line = data.count(b"\n", 0, err.start) + 1
            self.findings.append(
                Finding(line, (), f"the byte 0x{data[err.start]:02x}, which is not UTF-8", _READABLE, part=name)
            )
            return None
        self.files[name] = PartFile(name, Document(file_of_part(self._doc.file, name), None, text=text))
        return text.splitlines()

    def _entries(self, name: str, lines: Sequence[str]) -> Iterator[tuple[int, Any]]:
        """The entries of a file, each with the number of its line."""
        count = 0
        for number, line in enumerate(lines, 1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            wrong = _wrong_line(words)
            if wrong is not None:
                self.findings.append(Finding(number, (), *wrong, part=name))
                if len(self.findings) > MAX_FINDINGS:
                    return
                continue
            count += 1
            if count > MAX_ENTRIES:
                hint = "join prefixes that lie side by side"
                found = f"more than {MAX_ENTRIES} prefixes"
                self.findings.append(Finding(number, (), found, "at most that many in all lists", hint, part=name))
                return
            yield number, words[0] if len(words) == 1 else {"prefix": words[0], "port": int(words[1])}


def _wrong_line(words: Sequence[str]) -> tuple[str, str, str] | None:
    """What is wrong with a line of these words: what was found, what was expected, and what to do."""
    if len(words) > 2:
        return f'"{shorten(" ".join(words))}"', _LINE, "a comment begins with #"
    try:
        parse_prefix(words[0])
    except PydanticCustomError as err:
        context = err.context or {}
        return f'"{shorten(words[0])}"', str(context.get("expected", _LINE)), str(context.get("hint", ""))
    if len(words) == 2 and not (_PORT.match(words[1]) and int(words[1]) <= 65535):
        return f'the port "{shorten(words[1])}"', "a whole number from 1 to 65535", "a comment begins with #"
    return None


def _read_settled(file: FilePath) -> bytes | None:
    """What a file holds, cut off after the most that a list may have and one; None if it changes each time it is read."""
    for _ in range(_ATTEMPTS):
        before = _state_of(file)
        data = read_whole(file, MAX_LIST_BYTES)
        if _state_of(file) == before:
            return data
    return None


def _state_of(file: FilePath) -> tuple[int, int, int]:
    found = file.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns
