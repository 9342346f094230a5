# SPDX-License-Identifier: Apache-2.0
"""Entries of `lint.accept` that can cover nothing: their code or their path does not exist.

Warnings and no errors: a recorded spec may name a code of an older release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dnsteer.spec.errors import Finding, Path, near, show_path
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.part import Part

_NUMBERS = (*range(1, 6), *range(10, 32), *range(33, 43), 45, 46, 50, *range(60, 64), 70, 75, 76, 80)
LINT_CODES = frozenset(f"DNS{number:03}" for number in _NUMBERS)
"""All codes; a test compares them with lint's own."""


_KIND = "entries of lint.accept that cover nothing"


def useless_entries(scope: Scope) -> Iterator[Finding]:
    """Yield a warning for each such entry."""
    for i, entry in enumerate(scope.spec.lint.accept):
        path: Path = ("lint", "accept", i)
        if entry.code not in LINT_CODES:
            yield scope.finding(
                (*path, "code"),
                f'"{entry.code}", which is no code of lint',
                "the code of a finding",
                f"{near(entry.code, sorted(LINT_CODES))} dnsteer lint --explain all lists them",
                _KIND,
            )
        if entry.at is not None:
            last = _last_step(scope.spec, plain(entry.at))
            if last is not None:
                hint = near(entry.at, [*_shown(*last)])
                yield scope.finding(
                    (*path, "at"),
                    f'"{entry.at}", which is nowhere in the spec',
                    "the path of an object of the spec",
                    hint,
                    _KIND,
                )


def plain(path: str) -> str:
    """A path without the `$` at its beginning, which may be left out."""
    return path.removeprefix("$").removeprefix(".")


def _last_step(spec: Part, at: str) -> tuple[object, Path] | None:
    """Return the last object on the way to *at*, with its path, where the way ends before; None where it does not."""
    value: object = spec
    path: Path = ()
    while True:
        for step, below in _parts(value):
            shown = plain(show_path((*path, step)))
            if shown == at:
                return None
            if at.startswith((f"{shown}.", f"{shown}[")):
                value, path = below, (*path, step)
                break
        else:
            return value, path


def _shown(value: object, path: Path) -> Iterator[str]:
    return (plain(show_path((*path, step))) for step, _ in _parts(value))


def _parts(value: object) -> Iterator[tuple[str | int, object]]:
    """Yield what a part of the spec has, keys that are left out included."""
    if isinstance(value, Part):
        yield from ((field.alias or name, getattr(value, name)) for name, field in type(value).model_fields.items())
    elif isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield from enumerate(value)
