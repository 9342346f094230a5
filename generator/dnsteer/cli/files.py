"""Verbs that need no switch: `render`, `schema`, `version`."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Annotated

import typer

from dnsteer import __version__
from dnsteer.cli.output import Json, SpecFile, load, out, print_json, reporting


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command("render")(render)
    app.command("schema")(schema)
    app.command("version")(version)


def render(
    spec: SpecFile,
    folder: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Folder to write to.")],
    json: Json = False,
) -> None:
    """Write flows, groups, one bundle and the bridge set-up as files. Needs no switch."""
    from dnsteer.render.files import rendered, write_files

    with reporting(json):
        loaded = load(spec, json)
        texts = rendered(loaded)
        write_files(texts, folder)
        if json:
            print_json({"ok": True, "files": {n: len(t.encode()) for n, t in texts.items()}, "folder": str(folder)})
            return
        for name, text in texts.items():
            out.print(f"{folder / name}: {len(text.splitlines())} lines", markup=False)


def schema() -> None:
    """Print the JSON Schema of the spec, for editors that complete and check YAML."""
    from dnsteer.spec.model import Spec

    value = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Spec.model_json_schema(by_alias=True)}
    print_json(value)


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
