"""The verb `top`: the switch at a glance, live."""

from __future__ import annotations

import json as json_module
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from dnsteer.cli.output import Json, out, print_json
from dnsteer.cli.running_switch import Bridge, on_switch
from dnsteer.cli.status import Interval, exit_code, look_again
from dnsteer.deploy.target_switch import TargetSwitch

if TYPE_CHECKING:
    from dnsteer.cli.top_frame import Sort, TopFrame

_FIRST = 1.0
"""Seconds over which the first rates are measured: nobody looks at an empty screen for long."""
_SORTS = ("rate", "name", "state", "difference")


def _sort(text: str) -> str:
    if text not in _SORTS:
        raise typer.BadParameter(f"found {text!r}; expected one of {', '.join(_SORTS)}")
    return text


SortBy = Annotated[
    str,
    typer.Option(
        "--sort",
        metavar="ORDER",
        callback=_sort,
        help="rate: the busiest first; name; state: backends that are not up first; difference: those whose packets differ "
        "most from their slots. Also by the keys r, n, s and d.",
    ),
]
Matching = Annotated[
    str,
    typer.Option(
        "--filter",
        metavar="TEXT",
        help="Only VIPs and backends with this in their name, their pool's, an address or a state. Also by the key /.",
    ),
]
Once = Annotated[bool, typer.Option("--once", help="Print one frame and end, as where the output is no terminal.")]


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("top")(on_switch(top))


def top(
    switch: TargetSwitch,
    bridge: Bridge = None,
    interval: Interval = "2s",  # type: ignore[assignment]
    sort: SortBy = "rate",
    matching: Matching = "",
    once: Once = False,
    json: Json = False,
) -> None:
    """Watch a switch: what needs attention, queries by VIP, packets by backend against slots and weights, and the datapath.

    It reads the record and the counters, and asks the agent, if there is one. It does not look for drift: `status` does. `q`
    ends it, `/` filters, and the arrow and page keys scroll. Exit codes of --once are those of status; 130: ended by Ctrl-C;
    69: the switch cannot be reached at the start.
    """
    from dnsteer.cli.top_frame import DatapathWatch, make_frame
    from dnsteer.status.report import Observer

    order: Sort = sort  # type: ignore[assignment]
    observer, datapath = Observer(switch, bridge, check=False, rates=False), DatapathWatch(switch)
    first = make_frame(observer.observe(), datapath)  # without rates, which need a second look
    observer.rates, observer.interval = True, min(interval, _FIRST)

    def look() -> TopFrame | str:
        found = look_again(observer)
        observer.interval = interval
        return found if isinstance(found, str) else make_frame(found, datapath)

    terminal = out.rich.is_terminal and not out.rich.is_dumb_terminal
    if once or not (terminal or json):
        observer.interval = interval
        frame = make_frame(observer.observe(), datapath)
        print_json(frame.as_json(order, matching)) if json else _print(frame, order, matching)
        raise typer.Exit(exit_code(frame.status, frame.items))
    if json:
        while True:
            found = look()
            value = {"ok": False, "error": found} if isinstance(found, str) else found.as_json(order, matching)
            sys.stdout.write(json_module.dumps(value) + "\n")
            sys.stdout.flush()
    from dnsteer.cli.top_screen import show_frames

    show_frames(first, look, order, interval, matching)


def _print(frame: TopFrame, sort: Sort, matching: str) -> None:
    """Print a frame: in a terminal as large as that, else as wide as a file may be, with all VIPs and backends."""
    from dnsteer.cli.top_view import Size, top_view

    lines = os.environ.get("LINES", "")
    height = out.rich.height if out.rich.is_terminal else int(lines) if lines.isdecimal() else 0
    out.rich.print(top_view(frame, Size(out.rich.width, height), sort, matching=matching), soft_wrap=False)
