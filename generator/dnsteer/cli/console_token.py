# SPDX-License-Identifier: Apache-2.0
"""The verb that makes tokens of the console: `console-token`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from dnsteer.cli.output import Json, out, print_json, reporting


class RoleChoice(str, Enum):
    """What a token allows."""

    READ = "read"
    CHANGE = "change"


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("console-token")(console_token)


def _name(text: str) -> str:
    from dnsteer.console.tokens import NAME

    if not NAME.fullmatch(text):
        raise typer.BadParameter(f"found {text!r}; expected letters, digits and . _ -, at most 64, such as alice")
    return text


def console_token(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Who it is for. The record and the log show this name.",
            callback=_name,
            show_default=False,
        ),
    ],
    role: Annotated[
        RoleChoice, typer.Option("--role", help="What it allows: to read, or also to change the switch.")
    ] = RoleChoice.READ,
    append: Annotated[
        Path | None,
        typer.Option("--append", metavar="FILE", help="Add it to this file of tokens, which is made with mode 0600."),
    ] = None,
    json: Json = False,
) -> None:
    """Make a token for the agent's web console. It is shown only once; the file for --console-tokens gets its hash."""
    from dnsteer.console.tokens import append_token, new_token

    with reporting(json):
        secret, token = new_token(name, role.value)
        if append is not None:
            append_token(append, token)
        if json:
            print_json({"ok": True, "name": name, "role": role.value, "token": secret, "line": token.line})
            return
        out.print(f"token  {secret}")
        out.print("       shown only once: keep it where passwords are kept")
        if append is None:
            out.print(f"line   {token.line}\n       add it to the file of --console-tokens (mode 0600)")
        else:
            out.print(f"added  to {append}; a running agent takes it within seconds")
