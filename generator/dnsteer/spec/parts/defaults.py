# SPDX-License-Identifier: Apache-2.0
"""Defaults of a spec: keys that VIPs, pools and backends leave out get the values that `defaults` has for them."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from pydantic import ValidationError

from dnsteer.spec.document import Document
from dnsteer.spec.errors import Finding, Path, SpecError
from dnsteer.spec.model.file import Defaults
from dnsteer.spec.schema_errors import findings_of
from dnsteer.spec.yaml_reader import MAX_SPEC_BYTES, MAX_VALUES


def apply_defaults(doc: Document) -> None:
    """Take `defaults` out of *doc*, and add them to what leaves the keys out; `null` spelled out is no value at all.

    A value is one whole: a default with keys of its own is not merged with what an object has. Raises SpecError.
    """
    if not isinstance(doc.value, dict) or "defaults" not in doc.value:
        return
    defaults = doc.value.pop("defaults")
    try:
        Defaults.model_validate(defaults)
    except ValidationError as error:
        findings = findings_of(error, doc, ("defaults",))
        raise SpecError(doc.file, findings, error.error_count()) from None
    empty = [("defaults", kind, key) for kind, values in defaults.items() for key in values if values[key] is None]
    if empty:
        hint = "give it one, or remove the key"
        raise SpecError(
            doc.file, [doc.finding(path, "nothing", "a value for what leaves it out", hint) for path in empty]
        )
    below: dict[Path, list[Path]] = {}
    for path in doc.lines:
        if path[0:1] == ("defaults",) and len(path) > 2:
            below.setdefault(path[:3], []).append(path)
    sizes = {(kind, key): _text_size(value) for kind, values in defaults.items() for key, value in values.items()}
    size = 0
    for kind, values in defaults.items():
        for path, named in _objects(doc.value, kind):
            for key, value in values.items():
                size += _add(doc, path, named, (kind, key), value, below[("defaults", kind, key)]) * sizes[kind, key]
                if len(doc.lines) > MAX_VALUES or size > MAX_SPEC_BYTES:
                    raise SpecError(doc.file, [_too_much(doc, ("defaults", kind, key))])


def _text_size(value: Any) -> int:
    """Characters of the texts in a value."""
    if isinstance(value, dict | list):
        return sum(map(_text_size, value.values() if isinstance(value, dict) else value))
    return len(value) if isinstance(value, str) else 0


def _too_much(doc: Document, path: Path) -> Finding:
    found = f"more than {MAX_VALUES} values, or {MAX_SPEC_BYTES // 2**20} MiB of text, with all defaults"
    hint = "shorten the default, or split the spec by switch"
    return doc.finding(path, found, "a spec of at most that much", hint)


def _objects(value: Any, kind: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The objects of a kind, with their paths."""
    if kind == "backends":
        for path, pool in _objects(value, "pools"):
            backends = pool.get("backends")
            for index, backend in enumerate(backends if isinstance(backends, list) else ()):
                if isinstance(backend, dict):
                    yield (*path, "backends", index), backend
        return
    named = value.get(kind)
    for name, each in named.items() if isinstance(named, dict) else ():
        if isinstance(each, dict):
            yield (kind, name), each


def _add(
    doc: Document, path: Path, named: dict[str, Any], default: tuple[str, str], value: Any, below: list[Path]
) -> bool:
    """Give an object a default, unless it has the key; whether it did. *below* are the default's path and those below it."""
    key = default[1]
    at, source = (*path, key), ("defaults", *default)
    if key in named:
        if named[key] is None and at in doc.nulls:
            del named[key]
            del doc.lines[at]
        return False
    named[key] = deepcopy(value)
    doc.parts[at], doc.written_at[at] = doc.part(source), source
    for known in below:
        target = (*at, *known[3:])
        doc.lines[target] = doc.lines[known]
        if known in doc.parts:  # entries of a list's file
            doc.parts[target] = doc.parts[known]
        if known in doc.origins:
            doc.origins[target] = doc.origins[known]
    return True
