# SPDX-License-Identifier: Apache-2.0
"""Errors of a spec: the place, what was found, what was expected, and what to do."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

Path = tuple[str | int, ...]
"""Where a value stands in the document: keys and list indices from the root."""

MAX_FINDINGS = 1000
"""A spec with more findings than this has one mistake many times; the rest is not looked for."""
MAX_SHOWN = 20
"""Findings that people are shown; the rest is counted, and programs get up to MAX_FINDINGS."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")
_SHOWN = 60
_NAMES = 4
_NAMED = 8
"""Names in a sentence."""


class DefinitionError(ValueError):
    """A mistake in dnsteer itself: in its list of tables, its modes or its templates. It says which file to edit."""


def shorten(text: str) -> str:
    """*text*, cut where it is too long for a message."""
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def counted(n: int | float, one: str, several: str = "") -> str:
    """A number of things in words: `1 mask`, `2 masks`, `1,000 masks`."""
    return f"{n:,.0f} {one if n == 1 else several or f'{one}s'}"


def some_of(names: Iterable[object], separator: str = ", ") -> str:
    """Names in a sentence, the first few where there are many."""
    found = [str(name) for name in names]
    if len(found) <= _NAMED:
        return separator.join(found)
    return f"{separator.join(found[: _NAMED - 1])} and {len(found) - _NAMED + 1:,} more"


def escape(text: str) -> str:
    """*text* with everything that a terminal would not show, or would obey, spelled as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


@lru_cache(4096)  # flows of many slots are of one subject
def show_path(path: Path) -> str:
    """Spell a path as `$.pools.a.backends[2].weight`; keys that need it are quoted."""
    out = "$"
    for step in path:
        if isinstance(step, int):
            out += f"[{step}]"
        elif _PLAIN_KEY.match(step):
            out += f".{shorten(step)}"
        else:
            out += f'["{shorten(step)}"]'
    return out


def file_of_part(file: str, part: str) -> str:
    """What messages call a part of the spec *file*; *part* is relative to its folder, and empty for the file itself."""
    return os.path.normpath(os.path.join(os.path.dirname(file), part)) if part else file  # noqa: PTH118, PTH120


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong (or, as a warning, doubtful): where, what was found, what was expected, what to do.

    *kind*: what several warnings of a kind are called together, such as "ports that no backend uses". *part*: the file that
    it is about, relative to the folder of the spec's file; empty for that file itself.
    """

    line: int
    path: Path
    found: str
    expected: str
    hint: str = ""
    kind: str = ""
    part: str = ""

    def text(self, file: str) -> str:
        """The finding as one line, with the hint on a second one. Safe to print whatever the spec holds."""
        file = file_of_part(file, self.part)
        where = f"{file}:{self.line}: " if self.line else f"{file}: "
        at = f"{show_path(self.path)}: " if self.path else ""
        first = escape(f"{where}{at}found {self.found}; expected {self.expected}")
        return f"{first}\n    hint: {escape(self.hint)}" if self.hint else first

    @property
    def owner(self) -> str:
        """The name of the VIP, pool, port or variable that it is about."""
        if len(self.path) == 1 or self.path[:1] == ("vars",):  # a variable, in a file of variables or of the spec
            return shorten(str(self.path[-1]))
        named = self.path[1:2] if self.path[:1] in (("pools",), ("vips",)) else self.path[2:3]
        return shorten(str(named[0])) if named else show_path(self.path)

    def as_json(self, file: str) -> dict[str, object]:
        """The finding as a JSON object."""
        return {
            "file": file_of_part(file, self.part),
            "line": self.line,
            "path": show_path(self.path),
            "found": self.found,
            "expected": self.expected,
            "hint": self.hint,
        }


def warning_lines(findings: Iterable[Finding], file: str) -> list[str]:
    """Texts of warnings: each kind on one line, with their number and the first names where there are several."""
    kinds: dict[str, list[Finding]] = {}
    for finding in findings:
        kinds.setdefault(finding.kind, []).append(finding)
    return [text for kind, those in kinds.items() for text in _kind_lines(kind, those, file)]


def _kind_lines(kind: str, those: Sequence[Finding], file: str) -> list[str]:
    if len(those) == 1 or not kind:
        return [finding.text(file) for finding in those]
    names = list(dict.fromkeys(finding.owner for finding in those))
    shown = ", ".join(names[:_NAMES]) + (f" and {len(names) - _NAMES} more" if len(names) > _NAMES else "")
    where = f"{file_of_part(file, those[0].part)}:{those[0].line}"
    if others := len({finding.part for finding in those}) - 1:
        where += f" and {counted(others, 'more file')}"
    return [escape(f"{where}: {len(those)} {kind}: {shown}") + "\n    hint: -v shows each of them"]


class SpecError(Exception):
    """A spec that cannot be used. Carries the findings of the phase that failed, at most MAX_FINDINGS of them.

    *total*: how many there are where that is known of more than MAX_FINDINGS.
    """

    def __init__(self, file: str, findings: Iterable[Finding], total: int = 0) -> None:
        self.file = file
        first = list(islice(findings, MAX_FINDINGS + 1))
        self.findings: Sequence[Finding] = sorted(
            first[:MAX_FINDINGS], key=lambda f: (f.part, f.line, show_path(f.path), f.expected)
        )
        self._counted = len(first) <= MAX_FINDINGS or total > MAX_FINDINGS
        self.more = max(total, len(first)) - len(self.findings) if len(first) > MAX_FINDINGS else 0
        """How many there are besides *findings*; where that is not known, 1."""
        super().__init__(self.text())

    def text(self) -> str:
        """The first MAX_SHOWN findings, one after the other, and a closing count."""
        listed = len(self.findings)
        lines = [f.text(self.file) for f in self.findings[:MAX_SHOWN]]
        n = f"{listed + self.more}" if self._counted else f"more than {listed}"
        count = f"{n} error{'s' if listed != 1 else ''} in {escape(self.file)}"
        if listed > MAX_SHOWN:
            count += f", of which {MAX_SHOWN} are shown (with --json {'all' if not self.more else listed})"
        lines.append(f"{count}; nothing was changed")
        return "\n".join(lines)


_MAX_KNOWN = 2000  # known words that are looked at
_MAX_COMPARED = 100  # known words that a wrong one is compared with


def near(word: object, known: Iterable[str]) -> str:
    """A hint that names the nearest known word, or lists the known ones."""
    words = list(islice(known, _MAX_KNOWN))
    if not words:
        return "there are none yet"
    text = str(word).lower()
    if len(text) <= 64:
        import difflib  # here, since the quick verbs do without

        folded = {w.lower(): w for w in reversed(words)}
        if len(folded) > _MAX_COMPARED:
            alike = (w for w in reversed(folded) if w[:1] == text[:1] and abs(len(w) - len(text)) <= 2)
            folded = {w: folded[w] for w in islice(alike, _MAX_COMPARED)}
        match = difflib.get_close_matches(text, folded, n=1, cutoff=0.6)
        if match:
            return f'did you mean "{folded[match[0]]}"?'
    return f"known here: {', '.join(words[:8])}{', ...' if len(words) > 8 else ''}"


def show_value(value: Any) -> str:
    """A value as the operator wrote it, short."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return f'"{shorten(value)}"' if isinstance(value, str) else str(value)
