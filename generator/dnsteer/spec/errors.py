"""What is wrong with a spec, said so that the operator can mend it without reading code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

Path = tuple[str | int, ...]
"""Where a value stands in the document: keys and list indices from the root."""

MAX_FINDINGS = 1000
"""A spec with more findings than this has one mistake many times; the rest is not looked for."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")
_SHOWN = 60


def shorten(text: str) -> str:
    """*text*, cut where it is too long for a message."""
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def escape(text: str) -> str:
    """*text* with everything that a terminal would not show, or would obey, spelled as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


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


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong (or, as a warning, doubtful): where, what was found, what was expected, what to do."""

    line: int
    path: Path
    found: str
    expected: str
    hint: str = ""

    def text(self, file: str) -> str:
        """The finding as one line, with the hint on a second one. Safe to print whatever the spec holds."""
        where = f"{file}:{self.line}: " if self.line else f"{file}: "
        at = f"{show_path(self.path)}: " if self.path else ""
        first = escape(f"{where}{at}found {self.found}; expected {self.expected}")
        return f"{first}\n    hint: {escape(self.hint)}" if self.hint else first

    def as_json(self, file: str) -> dict[str, object]:
        """The finding as a JSON object."""
        return {
            "file": file,
            "line": self.line,
            "path": show_path(self.path),
            "found": self.found,
            "expected": self.expected,
            "hint": self.hint,
        }


class SpecError(Exception):
    """A spec that cannot be used. Carries the findings of the phase that failed, at most MAX_FINDINGS of them."""

    def __init__(self, file: str, findings: Iterable[Finding]) -> None:
        self.file = file
        first = list(islice(findings, MAX_FINDINGS + 1))
        self.more = len(first) > MAX_FINDINGS
        self.findings: Sequence[Finding] = sorted(
            first[:MAX_FINDINGS], key=lambda f: (f.line, show_path(f.path), f.expected)
        )
        super().__init__(self.text())

    def text(self) -> str:
        """All findings, one after the other, and a closing count."""
        n = len(self.findings)
        lines = [f.text(self.file) for f in self.findings]
        count = f"{n}{' and more' if self.more else ''} error{'s' if n != 1 else ''}"
        lines.append(f"{count} in {escape(self.file)}; nothing was changed")
        return "\n".join(lines)
