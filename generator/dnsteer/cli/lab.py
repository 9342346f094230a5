# SPDX-License-Identifier: Apache-2.0
"""`dnsteer lab`: a network in namespaces with real name servers, to run a spec on real traffic. Needs root."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dnsteer.cli.output import Exit, Json, SpecFile, Verbose, load_and_warn, out, print_json, reporting
from dnsteer.cli.spec_inputs import reads_spec

app = typer.Typer(help="Run a spec in network namespaces with real name servers. Needs root.", no_args_is_help=True)


def register(parent: typer.Typer) -> None:
    """Add the verbs to the command."""
    parent.add_typer(app, name="lab")


def _say(text: str) -> None:
    out.print(text)


@app.command()
@reads_spec
def up(spec: SpecFile, verbose: Verbose = False) -> None:
    """Build the spec's network, and start name servers and a private Open vSwitch. Next: dnsteer apply."""
    from dnsteer import lab

    with reporting():
        lab.up(load_and_warn(spec, verbose=verbose).spec, progress=_say)


@app.command()
def down() -> None:
    """Remove the lab, or what a crashed one left behind."""
    from dnsteer import lab

    with reporting():
        lab.down(progress=_say)


@app.command()
def status(json: Json = False) -> None:
    """Show what runs in the lab."""
    from dnsteer import lab
    from dnsteer.lab import agent as lab_agent

    with reporting(json):
        state = lab.status()
        agent = lab_agent.running()
        if json:
            console = agent.console if agent is not None else None
            print_json({**asdict(state), "console": console} if state is not None else None)
            return
        lab.print_status(out.rich, state)
        if agent is not None:
            out.print(f"agent: process {agent.pid}, console at {agent.console}")


@app.command()
def agent() -> None:
    """Start dnsteer agent beside the lab's switch, with its console on this machine, until `lab down`."""
    from dnsteer.lab import agent as lab_agent

    with reporting():
        found = lab_agent.start(_say)
    out.print(f"agent: process {found.pid}, log {lab_agent.LOG}, console at {found.console}")


Report = Annotated[Path, typer.Option("--report", metavar="FILE", help="Where to write the figures.")]
_REPORT = Path("build/demo/report.json")
Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Also write a page with charts of all figures in that file."),
]


@app.command()
@reads_spec
def demo(
    spec: SpecFile,
    report: Report = _REPORT,
    seconds: Annotated[float, typer.Option(min=4, metavar="S", help="Seconds of load through the VIPs.")] = 24.0,
    html: Html = None,
    verbose: Verbose = False,
) -> None:
    """Send real queries, in turn through the VIPs and straight to one server, and compare the rates."""
    from dnsteer.lab import demo as lab_demo

    with reporting():
        _check_page(html)
        loaded = load_and_warn(spec, verbose=verbose)
        result = lab_demo.run(loaded.spec, report, console=out.rich, seconds=seconds, file=loaded.file)
        _write_page(report, html)
    if not result.ok:
        raise typer.Exit(Exit.ERROR)


@app.command()
@reads_spec
def failover(spec: SpecFile, report: Report = _REPORT, html: Html = None, verbose: Verbose = False) -> None:
    """Under load, with dnsteer agent running, kill a name server and start it again."""
    from dnsteer.lab import failover as lab_failover

    with reporting():
        _check_page(html)
        loaded = load_and_warn(spec, verbose=verbose)
        result = lab_failover.run(loaded.spec, report, console=out.rich, file=loaded.file)
        _write_page(report, html)
    if not result.ok:
        raise typer.Exit(Exit.ERROR)


def _check_page(html: Path | None) -> None:
    if html is not None:
        from dnsteer.cli.report import refuse_unwritable

        refuse_unwritable("--html", html)


def _write_page(report: Path, html: Path | None) -> None:
    if html is None:
        return
    from dnsteer.lab.demo_page import write_demo_page

    write_demo_page(report, html)
    out.print(f"charts: {html.absolute()}")
