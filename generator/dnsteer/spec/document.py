"""Read YAML into plain values while remembering the line of every one of them.

The YAML accepted is the part that people write: mappings, sequences and scalars. Plain scalars follow YAML 1.2
(`12:34:56:78:9a:bc` stays a string, `no` is not a boolean). Anchors, aliases, tags and duplicate keys are refused:
each of them makes a file say something else than what a reader at 3 a.m. sees.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

import yaml

from dnsteer.spec.errors import Finding, Path, SpecError

MAX_BYTES = 8 * 1024 * 1024
"""Largest spec read, in bytes; ten thousand VIPs take about two million."""
MAX_DEPTH = 32
"""Deepest nesting read; the model needs six."""

_INT = re.compile(r"[-+]?[0-9]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_WORDS: dict[str, Any] = {"": None, "~": None, "null": None, "true": True, "false": False}

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser where PyYAML was built with it


@dataclass
class Document:
    """A parsed file: its name, its value, and the line (from 1) of each path."""

    file: str
    value: Any
    lines: dict[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int:
        """The line of *path*, or of the nearest enclosing value that exists."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_document(file: FilePath) -> Document:
    """Read and parse *file*.

    Raises SpecError when the file cannot be read, is not UTF-8, is too large, is empty or is not the YAML described above.
    """
    name = str(file)

    def refuse(found: str, expected: str, hint: str = "") -> SpecError:
        return SpecError(name, [Finding(0, (), found, expected, hint)])

    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as err:
        raise refuse(f"{err.strerror or err}", "a readable YAML file", "check the path and its permissions") from err
    if len(data) > MAX_BYTES:
        raise refuse(f"more than {MAX_BYTES // 2**20} MiB", "a spec of at most that size", "split it by switch")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as err:
        raise refuse(f"a byte that is not UTF-8 at offset {err.start}", "a UTF-8 text file") from err
    return parse_document(name, text)


def parse_document(name: str, text: str) -> Document:
    """Parse *text*, named *name* in messages. Raises SpecError as read_document does."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
    except RecursionError as err:
        raise SpecError(name, [_too_deep(0, ())]) from err
    except yaml.YAMLError as err:
        raise SpecError(name, [_syntax(err, text)]) from err
    finally:
        loader.dispose()
    doc = Document(name, None)
    findings: list[Finding] = []
    doc.value = _build(node, (), doc.lines, findings, set()) if node is not None else None
    if not findings and doc.value is None:
        findings.append(Finding(0, (), "an empty file", "a spec", "start from examples/quickstart.yaml"))
    if findings:
        raise SpecError(name, findings)
    return doc


def _too_deep(line: int, path: Path) -> Finding:
    return Finding(line, path[:3], f"more than {MAX_DEPTH} levels of nesting", "a spec; it needs six levels")


def _syntax(err: yaml.YAMLError, text: str) -> Finding:
    mark = getattr(err, "problem_mark", None)
    problem = str(getattr(err, "problem", None) or "").strip() or str(err).split("\n", 1)[0]
    line = mark.line + 1 if mark is not None else 0
    hint = ""
    rows = text.splitlines()
    if "\t" in (rows[line - 1] if 0 < line <= len(rows) else ""):
        hint = "the line holds a tab: indent with spaces"
    elif "anchor" in problem or "alias" in problem:
        hint = "anchors and aliases are not accepted: write the value out"
    elif "document" in problem:
        hint = "one file holds one spec: remove the second document"
    return Finding(line, (), f"a YAML error ({problem})", "well-formed YAML", hint)


def _build(node: Any, path: Path, lines: dict[Path, int], findings: list[Finding], seen: set[int]) -> Any:
    line = node.start_mark.line + 1
    lines.setdefault(path, line)
    if id(node) in seen:
        hint = "write the value out; a reader then sees what each object has"
        findings.append(Finding(line, path, "a YAML alias (*name)", "the value itself", hint))
        return None
    seen.add(id(node))
    if len(path) > MAX_DEPTH:
        findings.append(_too_deep(line, path))
        return None
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, lines, findings, seen)
    if isinstance(node, yaml.SequenceNode):
        return [_build(child, (*path, i), lines, findings, seen) for i, child in enumerate(node.value)]
    return _scalar(node)


def _mapping(node: Any, path: Path, lines: dict[Path, int], findings: list[Finding], seen: set[int]) -> Any:
    out: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            findings.append(Finding(line, path, "a key that is a list or mapping", "a key that is a plain word"))
            continue
        key = str(key_node.value)
        if key == "<<":
            findings.append(Finding(line, path, "a YAML merge key (<<)", "the keys themselves", "write them out"))
            continue
        here = (*path, key)
        if key in out:
            first = lines[here]
            findings.append(Finding(line, here, f"the key a second time (first on line {first})", "each key once"))
            continue
        lines[here] = line
        out[key] = _build(value_node, here, lines, findings, seen)
    return out


def _scalar(node: Any) -> Any:
    text = str(node.value)
    if node.style in ("'", '"', "|", ">"):
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INT.match(text):
        return int(text) if len(text) <= 20 else text
    if _FLOAT.match(text):
        return float(text)
    return text
