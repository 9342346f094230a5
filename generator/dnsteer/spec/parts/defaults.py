# SPDX-License-Identifier: Apache-2.0
"""Defaults of a spec: keys that VIPs, pools and backends leave out get the values that `defaults` has for them."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from pydantic import ValidationError

from dnsteer.spec.document import Document
from dnsteer.spec.errors import Path, SpecError
from dnsteer.spec.model.file import Defaults
from dnsteer.spec.schema_errors import findings_of


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
    for kind, values in defaults.items():
        for path, named in _objects(doc.value, kind):
            for key, value in values.items():
                _add(doc, path, named, (kind, key), value, below[("defaults", kind, key)])


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
) -> None:
    """Give an object a default, unless it has the key. *below* are the default's path and those below it."""
    key = default[1]
    at, source = (*path, key), ("defaults", *default)
    if key in named:
        if named[key] is None and at in doc.nulls:
            del named[key]
            del doc.lines[at]
        return
    named[key] = deepcopy(value)
    doc.parts[at], doc.written_at[at] = doc.part(source), source
    for known in below:
        target = (*at, *known[3:])
        doc.lines[target] = doc.lines[known]
        if known in doc.origins:
            doc.origins[target] = doc.origins[known]
