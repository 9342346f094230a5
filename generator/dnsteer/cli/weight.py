# SPDX-License-Identifier: Apache-2.0
"""The verb `weight`: another weight for a backend of a running switch, and the spec's again."""

from __future__ import annotations

from typing import Annotated

import typer

from dnsteer.cli.backends import Lasts, change_backends, follow_change, report_change
from dnsteer.cli.completion import backends
from dnsteer.cli.output import Json
from dnsteer.cli.running_switch import Bridge, DryRun, Note, Yes, on_switch, seconds
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.slots.maintenance import MAX_WEIGHT
from dnsteer.spec.errors import some_of


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("weight")(on_switch(weight))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= MAX_WEIGHT):
        raise typer.BadParameter(f"found {text!r}; expected a whole number from 0 to {MAX_WEIGHT}, as in the spec")
    return int(text)


Words = Annotated[
    list[str],
    typer.Argument(
        metavar="POOL/BACKEND... N",
        show_default=False,
        autocompletion=backends(),
        help="The backends, in one change, and their weight (0: no queries), which --undo does without.",
    ),
]
Over = Annotated[
    float | None,
    typer.Option("--over", metavar="TIME", parser=seconds, help="Move the slots in steps over this time (60s)."),
]


def weight(
    switch: TargetSwitch,
    words: Words,
    over: Over = None,
    lasts: Lasts = None,
    undo: Annotated[bool, typer.Option("--undo", help="Back to the weight of the spec.")] = False,
    note: Note = "",
    bridge: Bridge = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Give backends another weight than the spec's: the slots for their new shares move, and no others.

    Of several all get it, in one change of the switch, or none.
    """
    from dnsteer.deploy.overlay_edits import give_weight, take_weight_back

    names, number = words, None
    if (not undo and "/" not in words[-1]) or words[-1].isdigit():
        names, number = words[:-1], _number(words[-1])
    if (number is None) != undo or not names:
        raise typer.BadParameter("expected POOL/BACKEND and a weight, or --undo for that of the spec")
    if undo and (lasts or note):
        raise typer.BadParameter("--undo takes neither --for nor --note: nothing is left that they would be about")
    if over and lasts and lasts <= over:
        raise typer.BadParameter(
            "--for must be longer than --over, or the weight ends before its last slots have moved"
        )
    edits = [
        take_weight_back(name, over=over or 0, to_the_end=dry_run)
        if number is None
        else give_weight(name, number, over=over or 0, lasts=lasts or 0, note=note, to_the_end=dry_run)
        for name in names
    ]
    change = change_backends(switch, names, edits, bridge, yes, dry_run, json)
    follow_change(switch, change, names, "weight", dry_run, json)
    has = []
    for name in names:
        weight = next((f"weight {entry.weight}" for entry in change.entries(name, "weight")), "the spec's weight")
        has.append(f"{name} has {weight} already")
    report_change(change, names, dry_run, json, some_of(has, "; "))
