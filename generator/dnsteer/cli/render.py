# SPDX-License-Identifier: Apache-2.0
"""Verbs that need no switch: `render`, `schema`, `version`."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dnsteer import __version__
from dnsteer.cli.output import Json, SpecFile, Verbose, load_and_warn, out, print_json, reporting, spec_warnings
from dnsteer.cli.spec_inputs import reads_spec

if TYPE_CHECKING:
    from dnsteer.render.files import State


def _folder(text: str) -> Path:
    """A folder to write to. An empty one is a variable that somebody forgot to set, and not the current folder."""
    if not text:
        raise typer.BadParameter("found an empty name; expected a folder (. is the current one)")
    return Path(text)


FOLDER = typer.Option("-o", "--output", metavar="DIR", help="Folder to write to.", parser=_folder)
Force = Annotated[bool, typer.Option("--force", help="Replace files there that dnsteer did not make.")]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command("render")(reads_spec(render))
    app.command("schema")(schema)
    app.command("version")(version)


def render(
    spec: SpecFile,
    folder: Annotated[Path, FOLDER],
    force: Force = False,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Write flows, groups, one bundle and the bridge set-up as files. Needs no switch."""
    from dnsteer.render.files import EFFECTIVE, PROGRAM, rendered, write_files

    with reporting(json):
        loaded = load_and_warn(spec, json, verbose)
        texts = rendered(loaded)
        states = write_files(texts, folder, stale=[PROGRAM, EFFECTIVE], force=force)
        if json:
            files = {n: len(t.encode()) for n, t in texts.items()}
            print_json({"ok": True, "files": files, "folder": str(folder), **spec_warnings(loaded)})
            return
        show_files(texts, states, folder)


def show_files(texts: Mapping[str, str], states: Mapping[str, State], folder: Path) -> None:
    """Say of each file what became of it."""
    for name, state in states.items():
        lines = f"{len(texts[name].splitlines())} lines, " if name in texts else ""
        out.print(f"{folder / name}: {lines}{state}")


def schema(
    of_variables: Annotated[
        bool, typer.Option("--vars", help="That of files of variables: vars/NAME.yaml, and what --vars names.")
    ] = False,
) -> None:
    """Print the JSON Schema of the files of a spec, for editors that complete and check YAML.

    It fits a spec in one file and each file of a spec in parts: what other files, defaults and variables may give is not
    required. `dnsteer check` sees the whole.
    """
    from dnsteer.spec.file_schema import spec_file_schema, variables_schema

    print_json(variables_schema() if of_variables else spec_file_schema())


def version(json: Json = False) -> None:
    """Print the versions of dnsteer, of Python and of the installed Open vSwitch."""
    from dnsteer.switch.tools import SwitchError, ovs_version

    try:
        ovs = ovs_version()
    except SwitchError:
        ovs = "not installed"
    if json:
        print_json({"dnsteer": __version__, "python": platform.python_version(), "ovs": ovs})
    else:
        out.print(f"dnsteer {__version__}, Python {platform.python_version()}, Open vSwitch {ovs}")
