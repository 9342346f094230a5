# SPDX-License-Identifier: Apache-2.0
"""Read YAML into plain values while remembering the line of every one of them.

The YAML accepted is the part that people write: mappings, sequences and scalars. Anchors, aliases, merge keys, tags and
duplicate keys are refused: each of them makes a file say something else than what a reader at 3 a.m. sees. For the same
reason plain scalars are what they look like: `null`, `~`, `true`, `false` and whole numbers in their usual spelling as in
YAML 1.2, and everything else is text as it stands (`12:34:56:78:9a:bc`, `no`, `2026-01-01`, `007`, `1.10`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from pathlib import Path as FilePath
from typing import Any

import yaml
from yaml import events

from dnsteer.spec.document import Document
from dnsteer.spec.errors import MAX_FINDINGS, Finding, Path, SpecError, shorten
from dnsteer.spec.source import UnreadableError, read_whole, shown
from dnsteer.spec.yaml_errors import MAX_DEPTH, explain_error, too_deep

MAX_SPEC_BYTES = 8 * 1024 * 1024
"""Largest spec read, in bytes; ten thousand VIPs take about two million."""
MAX_VALUES = 1_000_000
"""Most values read (scalars, lists and mappings); ten thousand VIPs have about 150,000."""

_INT = re.compile(r"(0|-?[1-9][0-9]{0,18})\Z")
_WORDS: dict[str, Any] = {"": None, "~": None, "null": None, "true": True, "false": False}
# Characters that no text file needs: they hide or reorder what the reader sees, or move the lines that editors count.
INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]")

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser where PyYAML was built with it


_A_SPEC = ("a spec", "start from examples/quickstart.yaml")


def read_yaml(file: FilePath, needed: tuple[str, str] = _A_SPEC) -> Document:
    """Read and parse *file*, standard input where it is `-`. *needed* is what an empty one lacks, and what to do.

    Raises SpecError when the file cannot be read, is not UTF-8, is too large, is empty or is not the YAML described above.
    """
    return decode_yaml(shown(file), read_bytes(file), needed)


def read_bytes(file: FilePath) -> bytes:
    """Read *file*, standard input where it is `-`. Raises SpecError when it cannot be read or is too large."""
    name = shown(file)

    def refuse(found: str, expected: str, hint: str = "", line: int = 0) -> SpecError:
        return SpecError(name, [Finding(line, (), found, expected, hint)])

    try:
        data = read_whole(file, MAX_SPEC_BYTES)
    except UnreadableError as err:
        raise refuse(err.found, "a readable YAML file", err.hint) from err
    except FileNotFoundError as err:
        raise refuse("no such file", "a readable YAML file", "check the path") from err
    except PermissionError as err:
        raise refuse("a file without read permission", "a readable YAML file", "check its owner and mode") from err
    except (OSError, ValueError) as err:
        why = getattr(err, "strerror", None) or str(err)
        raise refuse(f"an error of the system ({why})", "a readable YAML file", "check the path") from err
    if len(data) > MAX_SPEC_BYTES:
        raise refuse(f"more than {MAX_SPEC_BYTES // 2**20} MiB", "a spec of at most that size", "split it by switch")
    return data


def decode_yaml(name: str, data: bytes, needed: tuple[str, str] = _A_SPEC) -> Document:
    """Parse what a file holds. Raises SpecError as read_yaml does."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as err:
        found = f"the byte 0x{data[err.start]:02x}, which is not UTF-8"
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            found = "UTF-16 text"
        line = data.count(b"\n", 0, err.start) + 1
        finding = Finding(line, (), found, "a UTF-8 text file", "save it again as UTF-8")
        raise SpecError(name, [finding]) from err
    return parse_yaml(name, text, needed)


def parse_yaml(name: str, text: str, needed: tuple[str, str] = _A_SPEC) -> Document:
    """Parse *text*, named *name* in messages. Raises SpecError as read_yaml does."""
    text = text.removeprefix("\ufeff")
    control = INVISIBLE.search(text)
    if control is not None:
        raise SpecError(name, [_control(control.group(), text.count("\n", 0, control.start()) + 1)])
    reader = _Reader(text)
    value = reader.document()
    doc = Document(name, value, reader.lines, text, variables=reader.variables, nulls=reader.nulls)
    if not reader.findings and doc.value is None:
        reader.findings.append(Finding(0, (), "an empty document", *needed))
    if reader.findings:
        raise SpecError(name, reader.findings, reader.total)
    return doc


def _control(character: str, line: int) -> Finding:
    what = unicodedata.name(character, "a control character").lower()
    hint = "this is not a text file" if character == "\0" else "remove it; it is invisible, but it is in the file"
    return Finding(line, (), f"U+{ord(character):04X} ({what})", "text without invisible control characters", hint)


class _GiveUpError(Exception):
    """Reading further is of no use."""


class _Reader:
    """Builds the value from the parser's events, so that nothing is built that the rules below refuse."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.loader = _Loader(text)
        self._next: Callable[[], Any] = self.loader.get_event
        self.lines: dict[Path, int] = {}
        self.findings: list[Finding] = []
        self.total = 0  # findings, those that are only counted too
        self.values = 0
        self.variables: dict[Path, bool] = {}
        self.nulls: set[Path] = set()

    def document(self) -> Any:
        """The value of the only document; None when there is none or when there are findings."""
        try:
            self._next()  # the stream's start
            if isinstance(self._next(), events.StreamEndEvent):
                return None
            value = self._value(self._next(), ())
            self._next()  # the document's end
            after = self._next()
            if not isinstance(after, events.StreamEndEvent):
                self._find(after, (), "a second document", "one spec in a file", "remove it")
            return value
        except yaml.YAMLError as err:
            self.findings.append(explain_error(err, self.text))
        except _GiveUpError:
            pass
        finally:
            self.loader.dispose()
        return None

    def _find(self, event: Any, path: Path, found: str, expected: str, hint: str) -> None:
        self.total += 1
        if self.total <= MAX_FINDINGS + 1:
            self.findings.append(Finding(_line(event), path, found, expected, hint))

    def _value(self, event: Any, path: Path) -> Any:
        """The value that begins with *event*; reads up to its end."""
        self.lines.setdefault(path, event.start_mark.line + 1)  # as _line, which takes longer to call
        self.values += 1
        if self.values > MAX_VALUES:
            self._find(event, (), f"more than {MAX_VALUES} values", "a spec of at most that many", "split it by switch")
            raise _GiveUpError
        kind = type(event)
        if kind is events.AliasEvent:
            hint = "write the value out; a reader then sees what each object has"
            self._find(event, path, f'the YAML alias "*{shorten(event.anchor or "")}"', "the value itself", hint)
            return None
        if event.anchor is not None or event.tag is not None:
            self._decorated(event, path)
        if kind is events.ScalarEvent:
            return self._scalar(event, path)
        if len(path) >= MAX_DEPTH:
            self.total += 1
            self.findings.append(too_deep(_line(event), path[:3]))
            raise _GiveUpError
        if kind is events.MappingStartEvent:
            return self._mapping(path)
        out: list[Any] = []
        while type(child := self._next()) is not events.SequenceEndEvent:
            out.append(self._value(child, (*path, len(out))))
        return out

    def _scalar(self, event: Any, path: Path) -> Any:
        text, plain = event.value, event.implicit[0]
        if "${" in text:
            self.variables[path] = plain
        value = plain_scalar(text) if plain else text
        if value is None and text:
            self.nulls.add(path)
        return value

    def _decorated(self, event: Any, path: Path) -> None:
        """Refuse what stands before a value."""
        if event.anchor is not None:
            hint = "remove it; aliases, which refer to it, are not accepted either"
            self._find(event, path, f'the YAML anchor "&{shorten(event.anchor)}"', "a value without anchor", hint)
        if event.tag is not None:
            tag = shorten(event.tag.replace("tag:yaml.org,2002:", "!!"))
            self._find(
                event, path, f'the YAML tag "{tag}"', "a value without tag", "remove it; to force text, use quotes"
            )

    def _mapping(self, path: Path) -> dict[str, Any]:
        out: dict[str, Any] = {}
        while (kind := type(event := self._next())) is not events.MappingEndEvent:
            if kind is not events.ScalarEvent:
                if not isinstance(event, events.AliasEvent):
                    hint = 'put quotes around a key that begins with "[", "{" or "?"'
                    self._find(event, path, "a key that is a list or mapping", "a key that is a plain word", hint)
                self._value(event, (*path, "?"))
                self._value(self._next(), (*path, "?"))
                continue
            key = event.value
            here = (*path, key)
            if event.anchor is not None or event.tag is not None:
                self._decorated(event, here)
            first = self.lines.setdefault(here, event.start_mark.line + 1)
            content = self._next()
            if key == "<<" and event.implicit[0]:
                self._find(event, path, "a YAML merge key (<<)", "the keys themselves", "write them out")
                if isinstance(content, events.AliasEvent):
                    continue  # one mistake, one finding
            value = self._value(content, here)
            if key in out:
                hint = f"the first is on line {first}: remove or rename one of the two"
                self._find(event, here, f'the key "{shorten(key)}" a second time', "each key once in a mapping", hint)
            else:
                out[key] = value
        return out


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def plain_scalar(text: str) -> Any:
    """What a scalar without quotes stands for."""
    if text in _WORDS:
        return _WORDS[text]
    return int(text) if _INT.match(text) else text
