# SPDX-License-Identifier: Apache-2.0
"""Errors of the YAML parser in the operator's words, with advice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from dnsteer.spec.errors import Finding, Path

# Part of the parser's message -> what it stands for, and what to look for. {start}: the line where the construct began;
# {line}: the line where the parser gave up.
_MEANING: tuple[tuple[str, str, str], ...] = (
    (
        "mapping values are not allowed",
        'a ": " where none is allowed',
        'compare the indentation with the lines above; put quotes around a value that holds ": "',
    ),
    (
        "could not find expected ':'",
        "a line that is neither a key nor a list entry",
        'a space must follow the ":" of a key; a key or value over several lines needs quotes',
    ),
    (
        "did not find expected key",
        "a line that does not fit the mapping around it",
        "compare the indentation with the lines above, from line {start} on; look for an extra quote or bracket",
    ),
    (
        "did not find expected '-' indicator",
        "a line that does not fit the list around it",
        'the entries of the list from line {start} on all begin with "- ", at one indentation',
    ),
    (
        "did not find expected ',' or ']'",
        'a "[" that is not closed',
        'look for a missing "]" or comma up to line {line}',
    ),
    (
        "did not find expected ',' or '}'",
        'a "{" that is not closed',
        'look for a missing "}" or comma up to line {line}',
    ),
    (
        "did not find expected node content",
        "no value where one must be",
        'look for an extra "[", "{" or ","; put quotes around an address that begins with ":", such as "::1"',
    ),
    ("found unexpected ':'", 'a value that ends in ":"', 'put quotes around it, as in "2001:db8::"'),
    (
        "found unexpected end of stream",
        "a quote that is not closed",
        "look for its closing quote",
    ),
    ("found undefined tag handle", 'a value that begins with "!"', "put quotes around it"),
    (
        "did not find expected <document start>",
        'something after the end of the document ("...")',
        "one file holds one spec",
    ),
    ("tab character", "a tab in the indentation", "use spaces"),
    ("unknown escape character", 'a "\\" that begins no escape', 'write "\\\\", or use single quotes'),
)
_AT_START = ("end of stream", "could not find expected ':'", "expected ',' or")
"""Complaints of which the mistake is where the construct began."""
_INVISIBLE = {"\t": "a tab", "\u00a0": "a no-break space"}


MAX_DEPTH = 32
"""Deepest nesting read; the model needs six."""


def too_deep(line: int, path: Path) -> Finding:
    """The finding of a value nested deeper than MAX_DEPTH, below *path*."""
    found, hint = f"more than {MAX_DEPTH} levels of nesting", "look for brackets that are not closed"
    return Finding(line, path, found, "a spec; it needs six levels", hint)


def explain_error(err: yaml.YAMLError, text: str) -> Finding:
    """The finding that a parser's error in *text* stands for."""
    mark: Any = getattr(err, "problem_mark", None)
    start: Any = getattr(err, "context_mark", None) or mark
    problem = str(getattr(err, "problem", None) or "").strip() or str(err).split("\n", 1)[0]
    if "maximum nesting depth" in problem:  # of newer versions of libyaml, which refuse 1,000 levels by themselves
        return too_deep(mark.line + 1, ())
    rows = ["", *text.split("\n")]
    last = len(rows) - 1 - (len(rows) > 2 and not rows[-1])  # the line that the last line end opens is none
    line = min(mark.line + 1, last) if mark is not None else 0
    began = min(start.line + 1, last) if start is not None else line
    found, hint = _meaning(problem, began, line)
    if "cannot start any token" in problem and line < len(rows) and mark.column < len(rows[line]):
        found, hint = f'a value that begins with "{rows[line][mark.column]}"', "put quotes around it"
    if "expected ',' or" in problem and any("${" in row for row in rows[began : line + 1]):
        hint = 'within "{ }" and "[ ]" a variable needs quotes: "${NAME}"'
    elif "block scalar" in str(getattr(err, "context", None)):  # such as >=0.2
        found, hint = 'a value that begins with ">" or "|"', "put quotes around it"
    hint = _invisible(rows, line) or hint
    return Finding(began if any(part in problem for part in _AT_START) else line, (), found, "well-formed YAML", hint)


def _meaning(problem: str, began: int, line: int) -> tuple[str, str]:
    """What a parser's complaint means, and what to do about it; *began* is the line of the construct that it is about."""
    for part, meaning, advice in _MEANING:
        if part in problem:
            return f"{meaning} (YAML: {problem})", advice.replace("{start}", str(began)).replace("{line}", str(line))
    return f"a YAML error ({problem})", ""


def _invisible(rows: Sequence[str], line: int) -> str:
    """What to do about a character that nobody sees, in a line or in the indent of the one before; empty without one."""
    hint = ""
    for number in (line, line - 1):
        row = rows[number] if 0 < number < len(rows) else ""
        for character, name in _INVISIBLE.items():
            if character in row[: len(row) - len(row.lstrip())] or (character in row and number == line):
                hint = f"line {number} holds {name}: use spaces"
    return hint
