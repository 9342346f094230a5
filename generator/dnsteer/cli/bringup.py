# SPDX-License-Identifier: Apache-2.0
"""The verb `bringup`: what makes a machine ready for a spec's switch, and whether it is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dnsteer.cli.output import (
    Exit,
    Json,
    SpecFile,
    Verbose,
    fail,
    load_and_warn,
    out,
    print_json,
    reporting,
    spec_warnings,
)
from dnsteer.cli.remote_options import Db
from dnsteer.cli.render import FOLDER, Force, show_files
from dnsteer.cli.spec_inputs import reads_spec

if TYPE_CHECKING:
    from dnsteer.bringup.inspection.machine import Item
    from dnsteer.bringup.setup import Setup

_WORD = {"ok": "ok", "missing": "missing", "unknown": "unknown"}


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("bringup")(reads_spec(bringup))


def bringup(
    spec: SpecFile,
    folder: Annotated[Path | None, FOLDER] = None,
    force: Force = False,
    check: Annotated[bool, typer.Option("--check", help="Check this machine and report what is missing.")] = False,
    db: Db = "",
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Write scripts and units that make a machine ready for the switch, or check whether it is.

    Neither changes the machine nor needs root; the scripts do both. With --check, exit code 2: something is missing.
    """
    if folder is None and not check:
        fail("give -o DIR to write the scripts, or --check to look at this machine", Exit.USAGE, as_json=json)
    from dnsteer.bringup.setup import setup_of

    result: dict[str, object] = {"ok": True}
    with reporting(json):
        loaded = load_and_warn(spec, json, verbose)
        setup = setup_of(loaded)
        if folder is not None:
            result |= _write(setup, folder, force, json)
        items = _inspect(setup, db) if check else []
    missing = any(item.state == "missing" for item in items)
    if json:
        if check:
            result |= {"ok": not missing, "items": [item.as_json() for item in items]}
        print_json({**result, **spec_warnings(loaded)})
    elif check:
        _show(items)
    raise typer.Exit(Exit.DIFFERENT if missing else Exit.OK)


def _write(setup: Setup, folder: Path, force: bool, json: bool) -> dict[str, object]:
    """Write the files; those that were otherwise before are named as changed, those of an earlier spec as removed."""
    from dnsteer.bringup.files import NAMES, bringup_files
    from dnsteer.render.files import write_files

    texts = bringup_files(setup)
    states = write_files(texts, folder, stale=NAMES, force=force)
    if not json:
        show_files(texts, states, folder)
        for note in setup.notes:
            out.print(f"note: {note}")
    settings = [
        {"key": s.key, "value": s.value, "why": s.why, "source": s.source, "at_start": s.at_start}
        for s in setup.settings
    ]
    return {
        "folder": str(folder),
        "files": {n: len(t.encode()) for n, t in texts.items()},
        "changed": [name for name, state in states.items() if state != "unchanged"],
        "removed": [name for name, state in states.items() if state == "removed"],
        "settings": settings,
        "notes": list(setup.notes),
    }


def _inspect(setup: Setup, db: str) -> list[Item]:
    from dnsteer.bringup.inspection.items import inspect
    from dnsteer.bringup.inspection.machine import Machine

    return inspect(Machine(), setup, db)


def _show(items: list[Item]) -> None:
    from dnsteer.spec.errors import escape

    wide = max(len(item.name) for item in items)
    for item in items:
        out.print(escape(f"{_WORD[item.state]:<11}  {item.name:<{wide}}  {item.found}"))
        if item.todo and item.state != "ok":
            out.print(escape(f"{'':<13}to do: {item.todo}"))
    counts = Counter(item.state for item in items)
    out.print(f"{counts['ok']} ok, {counts['missing']} missing, {counts['unknown']} unknown")
