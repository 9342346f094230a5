# SPDX-License-Identifier: Apache-2.0
"""The verb that proves a spec on a private switch: `check`. No root needed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from dnsteer.cli.output import (
    Exit,
    Json,
    SpecFile,
    Verbose,
    err,
    load_and_warn,
    out,
    print_json,
    reporting,
    spec_warnings,
)
from dnsteer.cli.spec_inputs import reads_spec
from dnsteer.spec.errors import counted

if TYPE_CHECKING:
    from dnsteer.proof.check_report import CheckReport


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("check")(reads_spec(check))


def check(
    spec: SpecFile,
    json: Json = False,
    sample: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Send packets for N slots of each service instead of all; for huge specs."
        ),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Prove the spec on a private ovs-vswitchd: every byte of every kind of packet, both ways."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from dnsteer.proof.check import prove as run_check

    with reporting(json):
        loaded = load_and_warn(spec, json, verbose)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=err.rich, transient=True, disable=json or not sys.stderr.isatty()) as progress:
            task, sent = progress.add_task("starting a private switch", total=None), 0

            def show_progress(count: int, queries: int) -> None:
                nonlocal sent
                sent += count
                description = f"{sent:,} packets of about {max(sent, queries):,}"
                progress.update(task, completed=sent, total=max(sent, queries), description=description)

            report = run_check(loaded, per_service=sample, progress=show_progress)
    if json:
        print_json({**report.as_json(), **spec_warnings(loaded)})
        raise typer.Exit(Exit.OK if report.ok else Exit.ERROR)
    _show(report, loaded.file)
    if not report.ok:
        raise typer.Exit(Exit.ERROR)


def _show(report: CheckReport, file: str) -> None:
    for failure in report.failures:
        out.print(f"FAILED {failure.vector} at {failure.port}: {failure.problem}")
        for line in failure.detail:
            out.print(f"    {line}")
    for complaint in report.complaints:
        out.print(f"FAILED the switch's log: {complaint}")
    for note in report.notes:
        out.print(f"note: {note}")
    kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(report.packets.items()))
    total = sum(report.packets.values())
    out.print(
        f"{file}: {counted(report.flows, 'flow')}, {counted(report.groups, 'group')} on Open vSwitch {report.ovs}"
    )
    out.print(f"  {counted(total, 'packet')} ({kinds}); {report.coverage}")
    out.print(
        f"  {counted(report.megaflows, 'megaflow')}, {counted(report.masks, 'mask')}, "
        f"{counted(report.recirculations, 'recirculation')} for queries and answers"
    )
    if report.extension:
        out.print(f"  {counted(report.extended, 'packet')} through the extension, {report.extension}")
    out.print(f"  {verdict(report)}; {report.seconds:.1f} s")


def verdict(report: CheckReport) -> str:
    """The result of a check in one phrase."""
    found = []
    if report.failed:
        found.append(f"{report.failed} {'differences' if report.failed > 1 else 'difference'} from the spec")
    if report.complaints:
        found.append(
            f"{len(report.complaints)} {'warnings' if len(report.complaints) > 1 else 'warning'} of the switch"
        )
    return f"FAILED: {', '.join(found)}" if found else "every byte as the spec says"
