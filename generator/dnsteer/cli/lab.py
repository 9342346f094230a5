"""`dnsteer lab`: a network in namespaces with real name servers, to run a spec on real traffic. Needs root."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dnsteer.cli.output import Exit, Json, SpecFile, Verbose, load, out, print_json, reporting

app = typer.Typer(help="Run a spec in network namespaces with real name servers. Needs root.", no_args_is_help=True)


def register(parent: typer.Typer) -> None:
    """Add the verbs to the command."""
    parent.add_typer(app, name="lab")


def _say(text: str) -> None:
    out.print(text)


@app.command()
def up(spec: SpecFile, verbose: Verbose = False) -> None:
    """Build the spec's network, and start name servers and a private Open vSwitch. Next: dnsteer apply."""
    from dnsteer import lab

    with reporting():
        lab.up(load(spec, verbose=verbose).spec, progress=_say)


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

    with reporting(json):
        state = lab.status()
        if json:
            print_json(asdict(state) if state is not None else None)
        else:
            lab.print_status(out.rich, state)


Report = Annotated[Path, typer.Option("--report", metavar="FILE", help="Where to write the figures.")]
_REPORT = Path("build/demo/report.json")


@app.command()
def demo(
    spec: SpecFile,
    report: Report = _REPORT,
    seconds: Annotated[float, typer.Option(min=4, metavar="S", help="Seconds of load through the VIPs.")] = 24.0,
    verbose: Verbose = False,
) -> None:
    """Send real queries, in turn through the VIPs and straight to one server, and compare the rates."""
    from dnsteer.lab import demo as lab_demo

    with reporting():
        loaded = load(spec, verbose=verbose)
        result = lab_demo.run(loaded.spec, report, console=out.rich, seconds=seconds)
    if not result.ok:
        raise typer.Exit(Exit.ERROR)


@app.command()
def failover(spec: SpecFile, report: Report = _REPORT, verbose: Verbose = False) -> None:
    """Under load, with dnsteer agent running, kill a name server and start it again."""
    from dnsteer.lab import failover as lab_failover

    with reporting():
        loaded = load(spec, verbose=verbose)
        result = lab_failover.run(loaded.spec, report, console=out.rich)
    if not result.ok:
        raise typer.Exit(Exit.ERROR)
