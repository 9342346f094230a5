"""`dnsteer lab`: a network in namespaces with real name servers, to run a spec on real traffic. Needs root."""

from __future__ import annotations

import typer

app = typer.Typer(help="Run a spec in network namespaces with real name servers. Needs root.", no_args_is_help=True)
