# SPDX-License-Identifier: Apache-2.0
"""The verb `report`: all about a running switch in one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dnsteer.cli.output import Exit, err, fail, out, status_exit_code
from dnsteer.cli.running_switch import Bridge, Interval, on_switch
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.report.masking import Maskable
from dnsteer.spec.errors import escape

Output = Annotated[
    Path, typer.Option("-o", "--output", metavar="FILE", help="The HTML file to write; - for standard output.")
]
Without = Annotated[
    list[Maskable] | None,
    typer.Option(
        "--without",
        help="Leave out: addresses (IPv4-1, MAC-2 instead), notes, people (who did what), or the spec; repeat for several. "
        "Without notes or people the spec is left out too, for its comments.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("report")(on_switch(report))


def report(
    switch: TargetSwitch,
    output: Output,
    bridge: Bridge = None,
    interval: Interval = "1s",  # type: ignore[assignment]
    without: Without = None,
) -> None:
    """Write everything about a switch, as it is now, to one HTML file for a ticket.

    It has what needs attention, VIPs, pools, drift, datapath and spec.

    Changes nothing, and needs no agent. What cannot be read is named in it. The exit code is that of status.
    """
    from dnsteer.render.atomic_files import write_file
    from dnsteer.report.gather import gather
    from dnsteer.report.report_content import report_items, state_line
    from dnsteer.report.report_content import report_page as make
    from dnsteer.view.attention_item import bridge_options

    standard = output == Path("-")
    if not standard:
        refuse_unwritable("-o", output)
    facts = gather(switch, bridge, interval)
    options = bridge_options(bridge)
    text = make(facts, without or (), options)
    if standard:
        out.write_document(text)
        out.flush()
    else:
        write_file(output, text)
        out.print(f"{output}: written ({len(text.encode()) / 1000:,.0f} kB); {state_line(facts)}")
    status = facts.status
    for what, why in facts.unread if status is not None else ():
        err.print(f"warning: without {what}: {escape(why)}")
    if status is None or status.unreachable:
        fail(status.unreachable if status is not None else facts.unread[0][1], Exit.UNAVAILABLE)
    for error in status.errors:
        err.print(f"error: {escape(error)}")
    raise typer.Exit(status_exit_code(status, report_items(facts)))


def refuse_unwritable(option: str, file: Path) -> None:
    """Exit before the work where the file that an option names could not be written after it."""
    if file.is_dir():
        fail(f"{option}: {file} is a folder; expected a file", Exit.ERROR)
    if not file.parent.is_dir():
        fail(f"{option}: there is no folder {file.parent}", Exit.ERROR)
