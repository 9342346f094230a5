# SPDX-License-Identifier: Apache-2.0
"""Verbs about states that were applied: `history`, `show`, `rollback` and `restore`."""

from __future__ import annotations

from collections.abc import Container, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dnsteer.cli.completion import states
from dnsteer.cli.deploy import EveryChange, Grace, finish_deployed, print_summary
from dnsteer.cli.output import Json, err, out, print_json, utc
from dnsteer.cli.running_switch import Bridge, DryRun, Note, Yes, confirm, on_switch, progress
from dnsteer.cli.spec_inputs import reads_spec
from dnsteer.deploy.target_switch import GRACE, TargetSwitch
from dnsteer.spec.errors import escape, some_of

if TYPE_CHECKING:
    from dnsteer.switch.state import AppliedState


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command("history")(on_switch(history))
    app.command("show")(reads_spec(on_switch(show_state)))
    app.command("rollback")(on_switch(rollback))
    app.command("restore")(on_switch(restore))


def history(switch: TargetSwitch, bridge: Bridge = None, json: Json = False) -> None:
    """List the states that were applied last, newest first; `rollback` goes back to any of them."""
    from dnsteer.deploy.rollback import rolled_back
    from dnsteer.switch.state import AppliedState

    with switch.session() as session:
        record = session.record_of(bridge)
        found = session.states(record)
    left = rolled_back(found)
    if json:
        states = [
            _as_json(s, record.number, s.number in left) if isinstance(s, AppliedState) else {"damaged": str(s)}
            for s in found
        ]
        print_json({"ok": True, "bridge": record.bridge, "current": record.number, "states": states})
        return
    for why in (s for s in found if not isinstance(s, AppliedState)):
        out.print(f"{why.word}: {escape(str(why))}")
    kept = [s for s in found if isinstance(s, AppliedState)]
    if kept:
        _print_states(kept, record.number, left)
    if not found:
        out.print(f"{record.bridge}: no state is recorded")


def _print_states(states: Sequence[AppliedState], current: int, left: Container[int]) -> None:
    from dnsteer.cli.tables import TableColumn, table_of

    rows = []
    for s in states:
        ended = f"(ended: {some_of(a.title for a in s.ended)})" if s.ended else ""
        words = [s.note, "(rolled back)" if s.number in left else "", ended]
        mark = "*" if s.number == current else " "
        rows.append(
            (
                f"{mark} {s.number}",
                _second(s.time),
                escape(s.by),
                escape(s.file),
                escape(s.digest[:12]),
                escape(" ".join(filter(None, words))),
                escape(s.decision),
            )
        )
    columns = [
        TableColumn("state"),
        TableColumn("applied (UTC)", leaves=3),
        TableColumn("by", leaves=4),
        TableColumn("spec", narrows=24),
        TableColumn("digest", leaves=1),
        TableColumn("note", narrows=24),
        TableColumn("decision", leaves=2),
    ]
    out.rich.print(table_of(columns, rows, out.rich.width), soft_wrap=False)


def _second(time: str) -> str:
    """A recorded time, in UTC, to the second."""
    try:
        return datetime.fromisoformat(time).astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return escape(time)


def _target_as_json(state: AppliedState) -> dict[str, Any]:
    return {
        "state": state.number,
        "applied": state.time,
        "by": state.by,
        "note": state.note,
        "spec_file": state.file,
    }


def _as_json(state: AppliedState, current: int, rolled_back: bool) -> dict[str, Any]:
    return {
        **_target_as_json(state),
        "digest": state.digest,
        "version": state.version,
        "current": state.number == current,
        "rolled_back": rolled_back,
        "restores": state.restores or None,
        "decision": state.decision or None,
        "ended": [
            {"pool": a.pool, "backend": a.backend, "kind": a.kind, "weight": a.weight, "note": a.note}
            for a in state.ended
        ],
    }


def show_state(
    switch: TargetSwitch,
    number: Annotated[
        str, typer.Argument(metavar="N", help="Number of the state, or `current`.", autocompletion=states)
    ] = "current",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the spec to this file.")
    ] = None,
    effective: Annotated[
        Path | None,
        typer.Option(
            "--effective",
            metavar="SPEC",
            help="Print this spec instead, in one piece: with all files that it includes, its variables and its defaults, "
            "and on each line where that is written.",
        ),
    ] = None,
    bridge: Bridge = None,
) -> None:
    """Print the spec of a state that was applied: as it was written, or in one piece where it has several files."""

    if effective is not None:
        if number != "current" or bridge is not None:
            raise typer.BadParameter("found --effective with a state or a bridge; expected the spec alone")
        _print_effective(effective, output)
        return
    if number != "current" and not (number.isascii() and number.isdigit()):
        raise typer.BadParameter(f"found {number!r}; expected the number of a state, or current")
    with switch.session() as session:
        record = session.record_of(bridge)
        state = session.state(record, record.number if number == "current" else int(number))
    _print_document(state.text, output)


def _print_effective(file: Path, output: Path | None) -> None:
    """Print the effective spec in *file*, also where a check refuses it; it is written to a file only if none does."""
    from dnsteer.cli.output import check_and_warn
    from dnsteer.spec.parts.effective_text import without_lists
    from dnsteer.spec.read import read_effective

    document = read_effective(file)
    text = without_lists(document.text)
    on_screen = output is None or output == Path("-")
    if on_screen:
        out.write_document(text)
    check_and_warn(document)
    if not on_screen:
        _print_document(text, output)


def _print_document(text: str, output: Path | None) -> None:
    if output is None or output == Path("-"):
        out.write_document(text)
    else:
        from dnsteer.render.atomic_files import write_file

        write_file(output, text)


def rollback(
    switch: TargetSwitch,
    number: Annotated[
        int | None,
        typer.Argument(metavar="N", help="Number of the state, of any that `history` lists.", autocompletion=states),
    ] = None,
    bridge: Bridge = None,
    note: Note = "",
    grace: Grace = GRACE,
    yes: Yes = False,
    dry_run: DryRun = False,
    verbose: EveryChange = False,
    json: Json = False,
) -> None:
    """Go back to an earlier applied state, and name it first. Drains and downs stay in force, also of removed backends.

    Without a number it is the last one before, with another spec, that nobody has rolled back from; after a rollback, one
    before the state that it restored.
    """
    from dnsteer.deploy.rollback import StateSource, target_of_rollback
    from dnsteer.deploy.run import Options, deploy, preview

    target = target_of_rollback(switch, bridge, number)
    said = {"target": _target_as_json(target)} if json else {}
    why = f": {target.note}" if target.note else ""
    progress(json)(
        escape(f"back to state {target.number}, applied {utc(target.time)} UTC by {target.by} from {target.file}{why}")
    )
    # By its number: it is the one that was named, also where the switch has changed since.
    source, options = StateSource(bridge, target.number), Options(adopt=True, rename=True, note=note, grace=grace)
    if dry_run:
        print_summary(preview(source, switch, options), verbose=verbose, flows=False, json=json, more=said)
        return
    done = deploy(source, switch, options, confirm=confirm(yes, json), progress=progress(json))
    finish_deployed(done, switch, json, more=said, verbose=verbose)


def restore(
    switch: TargetSwitch,
    bridge: Bridge = None,
    arm: Annotated[
        bool,
        typer.Option(
            "--arm", help="Only make ovs-vswitchd, which is about to start, wait for its flows (flow-restore-wait)."
        ),
    ] = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Restore the last applied state and its overlay, after ovs-vswitchd or the machine was restarted."""
    from dnsteer.deploy.restore import arm as run_arm
    from dnsteer.deploy.restore import restore as run_restore

    done = (run_arm if arm else run_restore)(switch, bridge, dry_run=dry_run, progress=progress(json))
    if json:
        bridges = [d.as_json() for d in done]
        print_json({"ok": True, "changed": any(d.changed for d in done), "bridges": bridges, "dry_run": dry_run})
        return
    for d in done:
        for warning in d.warnings:
            err.print(f"warning: {d.bridge}: {escape(warning)}")
        out.print(f"{d.bridge}: {d.text}")
