# SPDX-License-Identifier: Apache-2.0
"""Read the files of access lists again, and put what they hold now into a recorded spec: as if it was applied anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from dnsteer.spec.document import Document
from dnsteer.spec.errors import Finding, Path, SpecError
from dnsteer.spec.parts.effective_text import text_with_lists
from dnsteer.spec.parts.followed_lists import FollowedList
from dnsteer.spec.parts.list_files import ListReader, text_digest
from dnsteer.spec.parts.part_files import is_inside


def read_lists(file: str, lists: Sequence[FollowedList]) -> dict[str, str]:
    """The texts of files of lists of the spec *file*, by their names. Raises SpecError with all that cannot be read."""
    reader = ListReader(Document(file, {}), None, ())
    findings: list[Finding] = []
    for one in lists:
        if not is_inside(FilePath(one.file), FilePath(one.within), ()):
            found = "a link out of the folder that it was applied from"
            findings.append(Finding(0, (), found, f"a file in {one.within}", "apply the spec again", part=one.name))
            continue
        reader.findings = []
        reader.lines((), one.name, one.name, FilePath(one.file))
        findings += [found if found.part else replace(found, line=0, part=one.name) for found in reader.findings]
    if findings:
        raise SpecError(file, findings)
    return {name: part.document.text for name, part in reader.files.items()}


def put_lists(doc: Document, lists: Sequence[FollowedList], texts: Mapping[str, str]) -> Document:
    """Put what files of *lists* hold now into *doc*, a recorded spec, and return it. *texts* are those that are put there,
    by the names of the files; the others stay as they are. Raises SpecError for what is wrong with them."""
    reader = ListReader(doc, None, ())
    for one in lists:
        if one.name in texts:
            for whole in one.lists:
                _put(reader, doc, one.name, whole, texts[one.name])
    if reader.findings:
        raise SpecError(doc.file, list(dict.fromkeys(reader.findings)))  # a file of two lists has each mistake once
    now = [replace(one, sha256=text_digest(texts[one.name]), held="") if one.name in texts else one for one in lists]
    doc.text = text_with_lists(doc, texts, now)
    return doc


def _put(reader: ListReader, doc: Document, name: str, whole: Path, text: str) -> None:
    holder: Any = doc.value
    for step in whole[:-1]:
        holder = holder[step]
    entries = holder.get(whole[-1], [])
    kept = [entry for i, entry in enumerate(entries) if doc.part((*whole, i)) != name]
    for known in (doc.lines, doc.parts, doc.written_at, doc.origins):
        for path in [path for path in known if _is_below(path, whole, len(kept))]:
            del known[path]
    holder[whole[-1]] = reader.put(whole, name, name, text.splitlines(), whole, kept)


def _is_below(path: Path, whole: Path, first: int) -> bool:
    """Whether a path is of an entry of the list at *whole*, from its *first* on, which are those of its file."""
    size = len(whole)
    return len(path) > size and path[:size] == whole and isinstance(at := path[size], int) and at >= first
