# SPDX-License-Identifier: Apache-2.0
"""Change settings for a what-if run: put `pools.a.selection=dp-hash` into the spec's document before it is checked."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from dnsteer.checks.load import check_document
from dnsteer.spec.document import Document
from dnsteer.spec.errors import Finding, Path, SpecError, near, shorten
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.yaml_reader import parse_yaml

_T = TypeVar("_T")
_STEP = re.compile(r"""\.?([A-Za-z0-9_-]+)|\[(\d{1,6})\]|\["([^"\\]*)"\]""")

_NOTHING = ("", "~", "null")
"""Texts that mean null; as YAML some would be an empty document."""


def with_settings(loaded: Loaded, settings: Iterable[str]) -> Loaded:
    """Return the spec with *settings* (`path=value`, the value in YAML) applied.

    Raises SpecError for a setting that cannot be applied, or if the resulting spec is not valid.
    """
    document, given = loaded.document, tuple(settings)
    for setting in given:
        document = _set(document, setting)
    try:
        return check_document(document)
    except SpecError as err:
        if any(finding.line for finding in err.findings):
            raise
        raise SpecError(", ".join(f"--set {shorten(setting)}" for setting in given), err.findings) from None


def sets_path(settings: Iterable[str], path: Path) -> bool:
    """Whether one of *settings* is for exactly this *path*."""
    return any(_path(setting.partition("=")[0].strip()) == path for setting in settings)


def _set(document: Document, setting: str) -> Document:
    text, equals, written = setting.partition("=")
    path = _path(text.strip())
    if not equals or path is None:
        expected = 'a path and a value, such as pools.resolvers.selection=dp-hash or vips["a.b"].forwarding=nat'
        raise SpecError(f"--set {shorten(setting)}", [Finding(0, (), "no such setting", expected)])
    value = None
    if written.strip() not in _NOTHING:
        try:
            value = parse_yaml(f"--set {shorten(setting)}", written).value
        except SpecError as err:
            raise SpecError(err.file, [replace(f, line=0, path=path) for f in err.findings]) from None
    root = copy.deepcopy(document.value)
    _put(root, path, value, f"--set {shorten(setting)}")

    def others(known: Mapping[Path, _T]) -> dict[Path, _T]:
        return {at: value for at, value in known.items() if at[: len(path)] != path}

    return replace(
        document,
        value=root,
        lines={**others(document.lines), path: 0},
        positions={},
        parts={**others(document.parts), path: ""} if document.parts else {},
        written_at={**others(document.written_at), path: path} if document.written_at else {},
        origins=others(document.origins),
    )


def _path(text: str) -> Path | None:
    """Parse a path in the syntax of error messages, with or without the leading `$`; None if it is not valid."""
    text = text.removeprefix("$")
    steps: list[str | int] = []
    at = 0
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            return None
        name, index, quoted = found.groups()
        steps.append(int(index) if index is not None else name if name is not None else quoted)
        at = found.end()
    return tuple(steps) or None


def _put(root: Any, path: Path, value: Any, name: str) -> None:
    """Put the value into the tree. Raises SpecError unless everything above it exists."""
    at = root
    for n, step in enumerate(path):
        known: list[str] = []
        if isinstance(at, dict):
            known = [str(key) for key in at]
        elif isinstance(at, list):
            known = [str(i) for i in range(len(at))]
        last = n == len(path) - 1
        fits = isinstance(at, list) and isinstance(step, int) and step < len(at)
        fits |= isinstance(at, dict) and isinstance(step, str) and (last or step in at)
        if not fits:
            hint = near(step, known) if known else "there is nothing below it"
            raise SpecError(name, [Finding(0, path[: n + 1], "nothing there", "a path of the spec", hint)])
        if last:
            at[step] = value
        else:
            at = at[step]
