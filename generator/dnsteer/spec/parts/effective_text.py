# SPDX-License-Identifier: Apache-2.0
"""The effective spec as text: one document, in which a comment on each line says where that is written, and back.

A record has this text, so that a rollback needs no other file, and messages about it still name the files that people edit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import PurePath
from typing import Any

from dnsteer.spec.document import Document, Origin, SpecPlace
from dnsteer.spec.errors import Path, show_path
from dnsteer.spec.parts.followed_lists import FollowedList, is_list_line, list_lines
from dnsteer.spec.parts.part_files import PartFile
from dnsteer.spec.yaml_reader import INVISIBLE, plain_scalar

_MARK = "# dnsteer effective spec 1"
_SAVED = "# saved dnsteer effective spec 1"
_PLAIN = re.compile(r"[A-Za-z0-9_/.-]+(:[A-Za-z0-9_/.-]+)*\Z")
_LIKE_NUMBERS = re.compile(r"[0-9._eE+-]*\Z|[1-9][0-9_]*(:[0-5]?[0-9])+\Z|[+-]?0[xo]|[+-]?\.(inf|nan)\Z", re.I)
"""Also those of YAML 1.1, which other programs may read."""
_OTHER_WORDS = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])
_SEPARATORS = "#:,\\"
"""What separates the name of a file from the rest of a comment; in a name it is escaped."""
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})|\\U([0-9a-f]{8})")
_LINE = r"(?:line (?P<own>\d+)|(?P<part>[^:]+):(?P<line>\d+))"
_COMMENT = re.compile(_LINE + r"(?: by \$(?P<by>[\w.\[\]]+))?(?P<rest>, .*)?\Z")
_ORIGIN = re.compile(r"\$\{(?P<name>\w+)\} of " + _LINE + r"\Z")
_DIGITS = 16
"""Digits of what identifies the text of a file, for people."""
_STEP = re.compile(r"\.?(\w+)|\[(\d+)\]")


def effective_text(
    doc: Document, parts: Sequence[PartFile], variables: Sequence[PartFile], lists: Sequence[FollowedList] = ()
) -> str:
    """The text of *doc*, which is put together of *parts* with the files of *variables*, and says where *lists* are."""
    files = [_part_line(_file(doc, part), part.document.text) for part in parts]
    files += [f"#   {_file(doc, part)} (variables) sha256 {_digest(part)}" for part in variables]
    head = [
        f"{_MARK} of {_file(doc, parts[0])}, made of the files below: change these, not this text.",
        "# At the end of a line: where it is written, under which other path (defaults), and the variables in it.",
        *files,
        *list_lines(lists),
    ]
    return "\n".join([*head, *_Writer(doc).lines()]) + "\n"


def text_with_lists(doc: Document, texts: Mapping[str, str], lists: Sequence[FollowedList]) -> str:
    """The effective text of *doc*, which was parsed from one, now that files of lists have other *texts*, by their names."""
    heads = {f"#   {_name(name)} sha256 ": _part_line(_name(name), text) for name, text in texts.items()}
    lines: list[str] = []
    for line in doc.text.split("\n"):
        if not line.startswith("#"):
            break
        if not is_list_line(line):
            begins = line[:-_DIGITS]
            lines.append(heads.get(begins, line))
    return "\n".join([*lines, *list_lines(lists), *_Writer(doc).lines()]) + "\n"


def _part_line(name: str, text: str) -> str:
    return f"#   {name} sha256 {sha256(text.encode()).hexdigest()[:_DIGITS]}"


def without_lists(text: str) -> str:
    """An effective spec without the line that says where on this machine the files of its lists are."""
    return "\n".join(line for line in text.split("\n") if not is_list_line(line))


def _file(doc: Document, part: PartFile) -> str:
    return _name(part.name or PurePath(doc.file).name)


def _digest(part: PartFile) -> str:
    """The first digits of what identifies the text of a file."""
    return sha256(part.document.text.encode()).hexdigest()[:_DIGITS]


class _Writer:
    def __init__(self, doc: Document) -> None:
        self._doc = doc

    def lines(self) -> Iterator[str]:
        """The lines of the document."""
        if not self._doc.value:
            yield f"{{}}  # {_comment(self._doc.place(()), ())}"
        yield from self._mapping((), self._doc.value, "")

    def _mapping(self, path: Path, value: dict[str, Any], indent: str) -> Iterator[str]:
        for key, each in value.items():
            yield from self._entry((*path, key), each, f"{indent}{_scalar(key)}:", f"{indent}  ")

    def _entry(self, path: Path, value: Any, head: str, indent: str) -> Iterator[str]:
        """An entry of a mapping or list that begins with *head*; what is below it begins with *indent*."""
        place = self._doc.place(path)
        if not isinstance(value, dict | list) or not value or self._is_together(path, value, place):
            yield f"{head} {_flow(value)}  # {_comment(place, path)}"
        elif isinstance(value, dict):
            yield f"{head}  # {_comment(place, path)}"
            yield from self._mapping(path, value, indent)
        else:
            yield f"{head}  # {_comment(place, path)}"
            for index, each in enumerate(value):
                yield from self._item((*path, index), each, indent)

    def _item(self, path: Path, value: Any, indent: str) -> Iterator[str]:
        place = self._doc.place(path)
        if isinstance(value, dict) and value and not self._is_together(path, value, place):
            first, *others = self._mapping(path, value, f"{indent}  ")
            yield f"{indent}- {first.lstrip()}"
            yield from others
            return
        yield from self._entry(path, value, f"{indent}-", f"{indent}  ")

    def _is_together(self, path: Path, value: Any, place: SpecPlace) -> bool:
        """Whether all that is below *path* is written on one line, so that one comment says where."""
        below = value.items() if isinstance(value, dict) else enumerate(value)
        for step, each in below:
            at = self._doc.place((*path, step))
            if (at.part, at.line, at.origins) != (place.part, place.line, place.origins) or (
                at.path[: len(place.path)] != place.path
            ):
                return False
            if isinstance(each, dict | list) and not self._is_together((*path, step), each, at):
                return False
        return True


def _comment(place: SpecPlace, path: Path) -> str:
    """Where what stands at *path* of the spec is written."""
    by = f" by {show_path(place.path)}" if place.path != path else ""
    origins = "".join(f", ${{{one.variable}}} of {_where(one.part, one.line)}" for one in place.origins)
    return f"{_where(place.part, place.line)}{by}{origins}"


def _where(part: str, line: int) -> str:
    return f"{_name(part)}:{line}" if part else f"line {line}"


def _name(part: str) -> str:
    """The name of a file as comments have it: on one line, and without what separates it from the rest."""
    if part.isprintable() and not any(c in part for c in _SEPARATORS):
        return part
    return "".join(c if c.isprintable() and c not in _SEPARATORS else _escaped(ord(c)) for c in part)


def _escaped(code: int) -> str:
    return f"\\x{code:02x}" if code < 256 else f"\\U{code:08x}"


def _read_name(name: str | None) -> str:
    """The name of the file that a comment has as *name*."""
    return _ESCAPED.sub(lambda found: chr(int(found[1] or found[2], 16)), name or "")


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(key)}: {_flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if not isinstance(value, str):
        return "null" if value is None else str(value).lower()
    plain = _PLAIN.match(value) and plain_scalar(value) is value and value.lower() not in _OTHER_WORDS
    if plain and (not _LIKE_NUMBERS.match(value) or value.count(".") == 3):
        return value
    quoted = json.dumps(value.replace("${", "$${"), ensure_ascii=False)  # else it would be a variable
    return INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


def without_places(text: str) -> str:
    """An effective spec without the comments that say where things are written; any other text as it is."""
    if not text.startswith(_MARK):
        return text
    lines = text.removesuffix("\n").split("\n")
    return "".join(f"{line.rpartition('  # ')[0]}\n" for line in lines if not line.startswith("#"))


def is_effective(text: str) -> bool:
    """Whether a text says by comments where things are written."""
    return text.startswith(_MARK)


def as_own_text(text: str) -> str:
    """The text of a file that somebody has saved an effective spec in: its places are its own lines."""
    return _SAVED + without_lists(text).removeprefix(_MARK) if is_effective(text) else text


def restore_places(doc: Document) -> None:
    """Give *doc*, which was parsed from an effective text, the places that its comments name; `$${` is `${`."""
    for path in doc.variables:
        holder = doc.value
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = holder[path[-1]].replace("$${", "${")
    doc.variables = {}
    comments = [_read_comment(line) for line in doc.text.split("\n")]
    written = doc.lines
    doc.lines, doc.parts = {}, {(): ""}
    for path, number in written.items():
        found = comments[number - 1] if path else None
        if found is None:
            continue
        part, line, by, origins = found
        doc.lines[path] = line
        if doc.part(path) != part:
            doc.parts[path] = part
        if by and doc.path_in_file(path) != by and _is_named_by(by, path):
            doc.written_at[path] = by
        if origins:
            doc.origins[path] = origins


def _is_named_by(by: Path, path: Path) -> bool:
    """Whether the path of a comment is that of the value at *path*, of several on one line: a key, or an entry of a list."""
    return path[-1] == by[-1] or (isinstance(path[-1], int) and isinstance(by[-1], int))


def _read_comment(line: str) -> tuple[str, int, Path, tuple[Origin, ...]] | None:
    if line.startswith("#"):
        return None
    found = _COMMENT.match(line.rpartition("  # ")[2]) if "  # " in line else None
    if found is None:
        return None
    by = tuple(int(index) if index else key for key, index in _STEP.findall(found["by"] or ""))
    origins = []
    for one in (found["rest"] or "").split(", ")[1:]:
        origin = _ORIGIN.match(one)
        if origin is not None:
            line_number = int(origin["own"] or origin["line"])
            origins.append(Origin(origin["name"], _read_name(origin["part"]), line_number))
    return _read_name(found["part"]), int(found["own"] or found["line"]), by, tuple(origins)
