"""The verb `weight`: another weight for a backend of a running switch, and the spec's again."""

from __future__ import annotations

from typing import Annotated

import typer

from dnsteer.cli.backends import Lasts, Name, change_backend, report_change
from dnsteer.cli.output import Json
from dnsteer.cli.running_switch import Bridge, DryRun, Note, Yes, on_switch, progress, seconds
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.slots.maintenance import DRAINED, MAX_WEIGHT


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("weight")(on_switch(weight))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= MAX_WEIGHT):
        raise typer.BadParameter(f"found {text!r}; expected a whole number from 0 to {MAX_WEIGHT}, as in the spec")
    return int(text)


Number = Annotated[
    int | None, typer.Argument(metavar="N", parser=_number, help="The weight; 0: no queries.", show_default=False)
]
Over = Annotated[
    float | None,
    typer.Option("--over", metavar="TIME", parser=seconds, help="Move the slots in steps over this time (60s)."),
]


def weight(
    switch: TargetSwitch, name: Name, number: Number = None, over: Over = None, lasts: Lasts = None,
    undo: Annotated[bool, typer.Option("--undo", help="Back to the weight of the spec.")] = False, note: Note = "",
    bridge: Bridge = None, yes: Yes = False, dry_run: DryRun = False, json: Json = False,
) -> None:  # fmt: skip
    """Give a backend another weight than the spec's: the slots for its new share move, and no others."""
    from dnsteer.deploy.weight_edits import give_weight, take_weight_back

    if (number is None) != undo:
        raise typer.BadParameter("expected a weight, or --undo for that of the spec")
    if undo and (lasts or note):
        raise typer.BadParameter("--undo takes neither --for nor --note: nothing is left that they would be about")
    if over and lasts and lasts <= over:
        raise typer.BadParameter(
            "--for must be longer than --over, or the weight ends before its last slots have moved"
        )
    edit = (
        take_weight_back(name, over=over or 0, to_the_end=dry_run)
        if number is None
        else give_weight(name, number, over=over or 0, lasts=lasts or 0, note=note, to_the_end=dry_run)
    )
    change = change_backend(switch, name, edit, bridge, yes, dry_run, json)
    under_way = [entry for entry in change.entries(name, "weight") if entry.gone < DRAINED or entry.returns]
    if not dry_run and under_way:
        from dnsteer.deploy.gradual import go_to_the_end

        go_to_the_end(switch, change, name, under_way, progress(json))
    has = next((f"weight {entry.weight}" for entry in change.entries(name, "weight")), "the spec's weight")
    report_change(change, name, dry_run, json, f"{name} has {has} already")
