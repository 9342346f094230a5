"""The verb that proves a spec on a private switch: `check`. No root needed."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from dnsteer.cli.output import Exit, Json, SpecFile, err, load, out, print_json, reporting


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("check")(check)


def check(
    spec: SpecFile,
    json: Json = False,
    sample: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Send packets for N slots of each service instead of all; for huge specs."
        ),
    ] = None,
) -> None:
    """Prove the spec on a private ovs-vswitchd: every byte of every kind of packet, both ways."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from dnsteer.proof.check import check as run_check

    with reporting(json):
        loaded = load(spec, json)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.completed} packets through the private switch"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=err.rich, transient=True, disable=json or not sys.stderr.isatty()) as progress:
            task = progress.add_task("check", total=None)
            report = run_check(loaded, per_service=sample, progress=lambda n: progress.advance(task, n))
    if json:
        print_json(report.as_json())
        raise typer.Exit(Exit.OK if report.ok else Exit.ERROR)
    for failure in report.failures:
        out.print(f"FAILED {failure.vector} at {failure.port}: {failure.problem}")
        for line in failure.detail:
            out.print(f"    {line}")
    for complaint in report.complaints:
        out.print(f"FAILED the switch's log: {complaint}")
    kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(report.packets.items()))
    total = sum(report.packets.values())
    out.print(f"{loaded.file}: {report.flows} flows, {report.groups} groups on Open vSwitch {report.ovs}")
    out.print(f"  {total} packets ({kinds})")
    out.print(
        f"  {report.megaflows} megaflows, {report.masks} masks, {report.recirculations} recirculations "
        f"for queries and answers"
    )
    if report.extension:
        out.print(f"  {report.extended} packets through the extension, {report.extension}")
    if report.ok:
        out.print(f"  every byte as the spec says; {report.seconds:.1f} s")
        return
    out.print(f"  {report.failed} packets did not fare as the spec says; {report.seconds:.1f} s")
    raise typer.Exit(Exit.ERROR)
