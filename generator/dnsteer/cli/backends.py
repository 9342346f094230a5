# SPDX-License-Identifier: Apache-2.0
"""Verbs that take backends out and back in: `drain`, `undrain`, `down`, `up`, and `reconcile` for the timer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dnsteer.cli.completion import backends
from dnsteer.cli.output import Exit, Json, err, out, print_json
from dnsteer.cli.running_switch import Bridge, DryRun, NeverAsks, Note, Yes, confirm, on_switch, progress, seconds
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.slots.maintenance import DRAINED, STATE_WORDS, Kind
from dnsteer.spec.errors import escape, some_of
from dnsteer.switch.tools import SwitchError, UnavailableError, merged_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dnsteer.deploy.overlay_change import Edit, OverlayChange
    from dnsteer.status.quiet_backends import Busy


def _names(out: Kind | None = None) -> Any:
    """The argument with the names; shells complete the backends that are *out* by that verb, or all."""
    about = "The backends, in one change; with workers, all of them or BACKEND.I."
    return typer.Argument(metavar="POOL/BACKEND...", help=about, show_default=False, autocompletion=backends(out))


Names = Annotated[list[str], _names()]
Drained = Annotated[list[str], _names("drain")]
Down = Annotated[list[str], _names("down")]
Lasts = Annotated[
    float | None,
    typer.Option(
        "--for", metavar="TIME", parser=seconds, help="End it after this time (15m, 2h); `reconcile` does that."
    ),
]
Over = Annotated[
    float | None,
    typer.Option("--over", metavar="TIME", parser=seconds, help="Move the slots away in steps over this time (60s)."),
]
Wait = Annotated[
    float | None,
    typer.Option(
        "--wait",
        metavar="TIME",
        parser=seconds,
        help="Then wait until no packet goes to them any more and they have no connection that is kept, at most this long "
        "(10m); exit code 3: some still do.",
    ),
]
_BACK = {"drain": "undrain", "down": "up"}


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    for verb in (drain, undrain, down, up, reconcile):
        app.command(verb.__name__)(on_switch(verb))
    # The deprecated name of `reconcile`, which units of earlier releases call every 10 s: it prints no warning.
    app.command("due", hidden=True)(on_switch(reconcile))


def drain(
    switch: TargetSwitch,
    names: Names,
    over: Over = None,
    lasts: Lasts = None,
    wait: Wait = None,
    note: Note = "",
    bridge: Bridge = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Drain backends: their slots, and no others, move to the other backends of their pools.

    Of several all are drained, in one change of the switch, or none.
    """
    if over and lasts and lasts <= over:
        raise typer.BadParameter("--for must be longer than --over, or the drain ends before its last slots have left")
    from dnsteer.deploy.overlay_edits import take_out

    # A dry run shows the final state of a gradual drain.
    edits = [take_out(name, "drain", over=over or 0, lasts=lasts or 0, note=note, to_the_end=dry_run) for name in names]
    change = change_backends(switch, names, edits, bridge, yes, dry_run, json)
    follow_change(switch, change, names, "drain", dry_run, json)
    already = f"{names_text(names)} drained already"
    if wait is None or dry_run:
        report_change(change, names, dry_run, json, already)
        return
    busy = _report_and_wait(switch, change, names, wait, json, already)
    if json:
        left = {name: one.as_json() for name, one in busy.items()}
        report_change(change, names, dry_run, json, already, {"quiet": not busy, "busy": left})
    if busy:
        raise typer.Exit(Exit.ATTENTION)


def _report_and_wait(
    switch: TargetSwitch, change: OverlayChange, names: Sequence[str], wait: float, json: bool, already: str
) -> Mapping[str, Busy]:
    """Those that still serve somebody after the time to *wait*, in seconds, with what they have; it is said of them.

    What was done is reported before, but as JSON. Raises SwitchError or KeyboardInterrupt, which say that the drain stays.
    """
    drained = {(entry.pool, entry.backend) for name in names for entry in change.entries(name, "drain")}
    say, stays = progress(json), f"{names_text(names)} drained; nothing waits until nobody is served there"
    try:
        if not json:
            report_change(change, names, False, json, already)
        from dnsteer.status.quiet_backends import busy_text, wait_until_quiet

        busy = wait_until_quiet(switch, change.bridge, drained, wait, say)
    except SwitchError as failed:
        raise merged_error([failed], [stays]) from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt(stays) from None
    say(
        f"after {wait:g} s {busy_text(busy)}"
        if busy
        else "no packet goes there any more, and no connection is kept there"
    )
    return busy


def undrain(
    switch: TargetSwitch,
    names: Drained,
    bridge: Bridge = None,
    yes: NeverAsks = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Bring drained backends back in: each gets exactly its own slots back."""
    _bring_back(switch, names, "drain", bridge, dry_run, json)


def down(
    switch: TargetSwitch,
    names: Names,
    lasts: Lasts = None,
    note: Note = "",
    bridge: Bridge = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Take failed backends out at once: their slots move to the other backends of their pools."""
    from dnsteer.deploy.overlay_edits import take_out

    edits = [take_out(name, "down", lasts=lasts or 0, note=note) for name in names]
    change = change_backends(switch, names, edits, bridge, yes, dry_run, json)
    report_change(change, names, dry_run, json, f"{names_text(names)} down already")


def up(
    switch: TargetSwitch,
    names: Down,
    bridge: Bridge = None,
    yes: NeverAsks = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Bring backends that are down back in."""
    _bring_back(switch, names, "down", bridge, dry_run, json)


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
        report_change(change, [], dry_run, json, "")
    if failed:
        raise failed


def _bring_back(
    switch: TargetSwitch, names: Sequence[str], kind: Kind, bridge: str | None, dry_run: bool, json: bool
) -> None:
    from dnsteer.deploy.overlay_edits import bring_back

    # They get their own slots back and no others, so there is nothing to ask.
    edits = [bring_back(name, kind) for name in names]
    change = change_backends(switch, names, edits, bridge, True, dry_run, json)
    is_not = []
    for name in names:
        other = next(iter(change.entries(name, "down" if kind == "drain" else "drain")), None)
        hint = f", it is {STATE_WORDS[other.kind]}: dnsteer {_BACK[other.kind]} {name}" if other else ""
        is_not.append(f"{name} is not {STATE_WORDS[kind]}{hint}")
    report_change(change, names, dry_run, json, some_of(is_not, "; "))


def names_text(names: Sequence[str]) -> str:
    """Their names, the first few of many, and the verb: `farm/ns1 is`, `farm/ns1 and farm/ns2 are`."""
    *others, last = dict.fromkeys(names)
    if len(others) < 2:
        return f"{others[0]} and {last} are" if others else f"{last} is"
    return f"{some_of([*others, last])} are"


def change_backends(
    switch: TargetSwitch,
    names: Sequence[str],
    edits: Sequence[Edit],
    bridge: str | None,
    yes: bool,
    dry_run: bool,
    json: bool,
) -> OverlayChange:
    """Change what the overlay has of the backends *names* (POOL/BACKEND), by all *edits* or none. Raises SwitchError."""
    from dnsteer.deploy.overlay_change import change_overlay
    from dnsteer.deploy.overlay_edits import combine_edits

    return change_overlay(
        switch,
        bridge,
        combine_edits(edits),
        pools={name.partition("/")[0] for name in names},
        dry_run=dry_run,
        confirm=confirm(yes, json),
        progress=progress(json),
    )


def follow_change(
    switch: TargetSwitch, change: OverlayChange, names: Sequence[str], kind: Kind, dry_run: bool, json: bool
) -> None:
    """Wait for the end of the gradual changes of that kind that are under way for *names*."""
    entries = [entry for name in dict.fromkeys(names) for entry in change.entries(name, kind)]
    under_way = [entry for entry in entries if entry.gone < DRAINED or entry.returns]
    if not dry_run and under_way:
        from dnsteer.deploy.gradual_change import finish_gradual_change

        finish_gradual_change(switch, change, some_of(dict.fromkeys(names)), under_way, progress(json))


def report_change(
    change: OverlayChange,
    names: Sequence[str],
    dry_run: bool,
    json: bool,
    nothing: str,
    more: Mapping[str, object] | None = None,
) -> None:
    """Print what was done about the backends *names*; without names: about several. As JSON with *more*."""
    if json:
        parts = [name.partition("/") for name in names]
        about = [{"pool": pool, "backend": name, "slots": change.slots.get(pool)} for pool, _, name in parts]
        alone = about[0] if len(about) == 1 else {}
        named = {"backends": about} if names else {}
        print_json({**change.as_json(), **alone, **named, "dry_run": dry_run, **(more or {})})
        return
    from dnsteer.deploy.bounded_lists import bounded_alike

    how = "--json" if dry_run else ""
    for warning in bounded_alike(change.warnings, how=how):
        err.print(f"warning: {warning}")
    if not change.edited:
        out.print(f"{change.bridge}: {change.repair_text(dry_run=dry_run) or 'nothing to change'}; {nothing}")
        return
    verb = "would change" if dry_run else "changed"
    lines = bounded_alike(change.words(), how=how)
    out.print("\n".join(f"{change.bridge}: {verb}: {escape(line)}" for line in lines))
