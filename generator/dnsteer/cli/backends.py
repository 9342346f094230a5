"""Verbs that take backends out and back in: `drain`, `undrain`, `down`, `up`, and `reconcile` for the timer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dnsteer.cli.output import Exit, Json, err, out, print_json
from dnsteer.cli.running_switch import Bridge, DryRun, NeverAsks, Note, Yes, confirm, on_switch, progress, seconds
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.slots.maintenance import DRAINED, STATE_WORDS, Kind
from dnsteer.spec.errors import escape
from dnsteer.switch.tools import UnavailableError, merged_error

if TYPE_CHECKING:
    from dnsteer.deploy.overlay_change import Edit, OverlayChange

Name = Annotated[
    str,
    typer.Argument(
        metavar="POOL/BACKEND", help="The backend; with workers, all of them or BACKEND.I.", show_default=False
    ),
]
Lasts = Annotated[
    float | None,
    typer.Option("--for", metavar="TIME", parser=seconds, help="End it after this time (15m, 2h); `reconcile` does that."),
]  # fmt: skip
Over = Annotated[
    float | None,
    typer.Option("--over", metavar="TIME", parser=seconds, help="Move the slots away in steps over this time (60s)."),
]
_BACK = {"drain": "undrain", "down": "up"}


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    for verb in (drain, undrain, down, up, reconcile):
        app.command(verb.__name__)(on_switch(verb))
    # The deprecated name of `reconcile`, which units of earlier releases call every 10 s: it prints no warning.
    app.command("due", hidden=True)(on_switch(reconcile))


def drain(
    switch: TargetSwitch, name: Name, over: Over = None, lasts: Lasts = None, note: Note = "", bridge: Bridge = None,
    yes: Yes = False, dry_run: DryRun = False, json: Json = False,
) -> None:  # fmt: skip
    """Drain a backend: its slots, and no others, move to the other backends of its pool."""
    if over and lasts and lasts <= over:
        raise typer.BadParameter("--for must be longer than --over, or the drain ends before its last slots have left")
    from dnsteer.deploy.overlay_edits import take_out

    # A dry run shows the final state of a gradual drain.
    edit = take_out(name, "drain", over=over or 0, lasts=lasts or 0, note=note, to_the_end=dry_run)
    change = change_backend(switch, name, edit, bridge, yes, dry_run, json)
    under_way = [entry for entry in change.entries(name, "drain") if entry.gone < DRAINED]
    if not dry_run and under_way:
        from dnsteer.deploy.gradual import go_to_the_end

        go_to_the_end(switch, change, name, under_way, progress(json))
    report_change(change, name, dry_run, json, f"{name} is drained already")


def undrain(
    switch: TargetSwitch,
    name: Name,
    bridge: Bridge = None,
    yes: NeverAsks = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Bring a drained backend back in: it gets exactly its own slots back."""
    _bring_back(switch, name, "drain", bridge, dry_run, json)


def down(
    switch: TargetSwitch, name: Name, lasts: Lasts = None, note: Note = "", bridge: Bridge = None, yes: Yes = False,
    dry_run: DryRun = False, json: Json = False,
) -> None:  # fmt: skip
    """Take a failed backend out at once: its slots move to the other backends of its pool."""
    from dnsteer.deploy.overlay_edits import take_out

    edit = take_out(name, "down", lasts=lasts or 0, note=note)
    change = change_backend(switch, name, edit, bridge, yes, dry_run, json)
    report_change(change, name, dry_run, json, f"{name} is down already")


def up(
    switch: TargetSwitch,
    name: Name,
    bridge: Bridge = None,
    yes: NeverAsks = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Bring a backend that is down back in."""
    _bring_back(switch, name, "down", bridge, dry_run, json)


def reconcile(switch: TargetSwitch, bridge: Bridge = None, dry_run: DryRun = False, json: Json = False) -> None:
    """End maintenance whose time is over, advance gradual drains, and restore tables that a restart of ovs-vswitchd emptied;
    remove mirrors that a killed capture has left.
    For a timer: prints nothing when there is nothing to do.
    """
    from dnsteer.deploy.reconcile import reconcile as run_reconcile

    done = run_reconcile(switch, bridge, dry_run=dry_run, progress=progress(json))
    failed = merged_error(done.failed) if done.failed else None
    if json:
        value = {
            "changed": done.changed,
            "restored": done.restored,
            "loaded": done.loaded,
            "captures": [name for name, _ in done.captures],
            "changes": [c.as_json() for c in done.changes],
        }
        error = {"error": str(failed)} if failed else {}
        print_json({"ok": failed is None, **error, **value, "dry_run": dry_run})
        if failed:
            raise typer.Exit(Exit.UNAVAILABLE if isinstance(failed, UnavailableError) else Exit.ERROR)
        return
    for name in done.restored:
        what = f"{'would be' if dry_run else 'are'} brought back"
        out.print(f"{name}: the tables differed from the record and {what}")
    for name in done.loaded:
        what = "would get" if dry_run else "has"
        out.print(f"{name}: the extension did not have the recorded program and {what} it again")
    for name, what in done.captures:
        gone = "would be" if dry_run else "are"
        out.print(escape(f"{name}: the {what} has ended; its mirrors were left and {gone} removed"))
    for change in done.changes:
        report_change(change, "", dry_run, json, "")
    if failed:
        raise failed


def _bring_back(switch: TargetSwitch, name: str, kind: Kind, bridge: str | None, dry_run: bool, json: bool) -> None:
    from dnsteer.deploy.overlay_edits import bring_back

    # It gets its own slots back and no others, so there is nothing to ask.
    change = change_backend(switch, name, bring_back(name, kind), bridge, True, dry_run, json)
    other = next(iter(change.entries(name, "down" if kind == "drain" else "drain")), None)
    hint = f", it is {STATE_WORDS[other.kind]}: dnsteer {_BACK[other.kind]} {name}" if other else ""
    report_change(change, name, dry_run, json, f"{name} is not {STATE_WORDS[kind]}{hint}")


def change_backend(
    switch: TargetSwitch, name: str, edit: Edit, bridge: str | None, yes: bool, dry_run: bool, json: bool
) -> OverlayChange:
    """Change what the overlay has of the backend *name* (POOL/BACKEND). Raises SwitchError."""
    from dnsteer.deploy.overlay_change import change_overlay

    return change_overlay(
        switch, bridge, edit, pool=name.partition("/")[0], dry_run=dry_run, confirm=confirm(yes, json),
        progress=progress(json),
    )  # fmt: skip


def report_change(change: OverlayChange, name: str, dry_run: bool, json: bool, nothing: str) -> None:
    """Print what was done about the backend *name*; empty: about several."""
    if json:
        pool, _, backend = name.partition("/")
        about = {"pool": pool, "backend": backend, "slots": change.slots.get(pool)} if name else {}
        print_json({**change.as_json(), **about, "dry_run": dry_run})
        return
    for warning in change.warnings:
        err.print(f"warning: {warning}")
    if not change.edited:
        out.print(f"{change.bridge}: {change.repair_text(dry_run=dry_run) or 'nothing to change'}; {nothing}")
        return
    verb = "would change" if dry_run else "changed"
    out.print("\n".join(f"{change.bridge}: {verb}: {escape(line)}" for line in change.words()))
