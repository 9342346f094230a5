# SPDX-License-Identifier: Apache-2.0
"""Keys without a value, and empty lists, where the key may be left out: `health:` alone would mean no checks.

Keys that must have a value are refused with the rest of the spec's structure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.part import Part


def check_empty_keys(scope: Scope) -> Iterator[Finding]:
    """All findings about keys without a value."""
    yield from _look(scope, (), scope.spec)


def _look(scope: Scope, path: Path, value: Any) -> Iterator[Finding]:
    if isinstance(value, Part):
        for name in value.model_fields_set:
            inner, field = getattr(value, name), type(value).model_fields[name]
            empty = inner == [] and field.default is None
            if inner is not None and not empty:
                yield from _look(scope, (*path, name), inner)
                continue
            found, what = (
                ("an empty list", "list is empty: give it an entry")
                if empty
                else ("nothing", "key has no value: give it one")
            )
            defaults = f", such as {name}: {{}} for the defaults," if _has_defaults(field) else ""
            hint = f"the {what}{defaults} or remove the key"
            yield scope.finding(_written(scope, (*path, name)), found, "a value, or no such key", hint)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _look(scope, (*path, name), inner)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _look(scope, (*path, number), inner)


def _written(scope: Scope, path: Path) -> Path:
    """The path in the document, where a single check is written without a list."""
    single = path[:1] == ("pools",) and path[2:3] == ("health",) and path not in scope.doc.lines
    return (*path[:3], *path[4:]) if single else path


def _has_defaults(field: FieldInfo) -> bool:
    """Whether an empty mapping is a value of the key."""
    try:
        TypeAdapter[Any](field.annotation or Any).validate_python({})
    except ValidationError:
        return False
    return True
