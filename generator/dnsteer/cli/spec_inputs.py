# SPDX-License-Identifier: Apache-2.0
"""The options of verbs that read a spec: files of variables, and folders from which it may include files."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from dnsteer.spec.parts.inputs import SPEC_INPUTS, SpecInputs

VarsFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--vars",
        metavar="FILE",
        help="A YAML file of variables for the spec, before those that it sets itself; may be given several times.",
        show_default=False,
    ),
]
IncludeFrom = Annotated[
    list[Path] | None,
    typer.Option(
        "--include-from",
        metavar="DIR",
        help="A folder outside that of the spec from which it may include files; may be given several times.",
        show_default=False,
    ),
]


def _options(vars_files: VarsFiles = None, include_from: IncludeFrom = None) -> SpecInputs:
    return SpecInputs(tuple(vars_files or ()), tuple(include_from or ()))


def reads_spec(verb: Callable[..., None]) -> Callable[..., None]:
    """Add --vars and --include-from to *verb*, for the specs that it reads."""
    own = inspect.signature(verb, eval_str=True)
    options = inspect.signature(_options, eval_str=True).parameters

    @functools.wraps(verb)
    def run(**arguments: Any) -> None:
        token = SPEC_INPUTS.set(_options(**{name: arguments.pop(name) for name in options}))
        try:
            verb(**arguments)
        finally:
            SPEC_INPUTS.reset(token)

    both = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own.parameters.values(), *options.values())]
    run.__signature__ = inspect.Signature(both)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in both}
    return run
