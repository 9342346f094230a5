"""The verb `status`: the status of a switch, once or repeatedly."""

from __future__ import annotations

import json as json_module
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from dnsteer.cli.output import Exit, Json, out, print_json
from dnsteer.cli.running_switch import Bridge, on_switch, seconds
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.spec.errors import escape
from dnsteer.switch.tools import SwitchError

if TYPE_CHECKING:
    from dnsteer.status.report import Observer, Status

_LEAST = 0.5
"""Shortest interval, in seconds: the switch does not add up its counters more often."""


def _interval(text: str) -> float:
    value = seconds(text)
    if value < _LEAST:
        raise typer.BadParameter(f"found {text!r}; expected at least {_LEAST:g} s: switches do not count more often")
    return value


Interval = Annotated[
    float,
    typer.Option(
        "--interval", metavar="TIME", parser=_interval,
        help="Time over which rates are measured. The switch updates its counters about every half second, and status waits "
        "for that (up to 0.6 s before and after): rates over 1 s are right within a few per cent.",
    ),
]  # fmt: skip
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Refresh until Ctrl-C (exit code 130).")]
NoVerify = Annotated[
    bool, typer.Option("--no-verify", help="Do not check for drift, which takes long on a large switch.")
]
NoRates = Annotated[
    bool, typer.Option("--no-rates", help="Show no rates, to answer at once, for scripts. Not with --watch.")
]


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("status")(on_switch(status))


def status(
    switch: TargetSwitch, bridge: Bridge = None, interval: Interval = "1s",  # type: ignore[assignment]
    watch: Watch = False, no_verify: NoVerify = False, no_rates: NoRates = False, json: Json = False,
) -> None:  # fmt: skip
    """Show the status of a switch: what was applied, which backends are in maintenance, what goes where, and what drifted.

    Exit code 2: it differs, a change was cut off, or it waits for its flows; 69: it cannot be reached;
    130: ended by Ctrl-C.
    """
    from dnsteer.status.report import Observer

    if watch and no_rates:
        raise typer.BadParameter("found --watch and --no-rates; expected one of them")
    observer = Observer(switch, bridge, interval=interval, check=not no_verify, rates=not no_rates)
    if watch:
        _watch(observer, json)
    found = observer.observe()
    if json:
        print_json(found.as_json())
    else:
        _print(found)
    raise typer.Exit(exit_code(found))


def _print(found: Status) -> None:
    from dnsteer.cli.status_view import view

    out.rich.print(view(found, out.rich.width), soft_wrap=False)


def exit_code(found: Status) -> Exit:
    """The exit code that says how a switch is."""
    if found.unreachable:
        return Exit.UNAVAILABLE
    if found.errors:
        return Exit.ERROR
    return Exit.DIFFERENT if found.different else Exit.OK


def _watch(observer: Observer, json: bool) -> NoReturn:
    """Look until Ctrl-C. A switch that goes away is waited for, but the first look must succeed."""
    found = observer.observe()
    if json:
        _watch_as_json(observer, found)
    _watch_on_screen(observer, found)


def look_again(observer: Observer) -> Status | str:
    """The next look, or why there is none."""
    start = time.monotonic()
    try:
        found = observer.observe()
    except (SwitchError, OSError) as err:
        if isinstance(err, BrokenPipeError):
            raise
        time.sleep(max(0.0, start + observer.interval - time.monotonic()))
        return str(err)
    if found.unreachable:
        time.sleep(max(0.0, start + observer.interval - time.monotonic()))
    return found


def _watch_as_json(observer: Observer, found: Status | str) -> NoReturn:
    while True:
        value: dict[str, Any] = {"ok": False, "error": found} if isinstance(found, str) else found.as_json()
        sys.stdout.write(json_module.dumps(value) + "\n")
        sys.stdout.flush()
        found = look_again(observer)


def _watch_on_screen(observer: Observer, last: Status) -> NoReturn:
    if not out.rich.is_terminal or out.rich.is_dumb_terminal:
        _watch_as_text(observer, last)
    from rich.console import Console
    from rich.live import Live

    from dnsteer.cli.status_view import view

    screen, away = Console(highlight=False, emoji=False), ""  # unlike `out`, which does not break long lines
    with Live(console=screen, auto_refresh=False, screen=True, vertical_overflow="crop") as live:
        while True:
            live.update(view(last, screen.width, away=away, height=screen.height), refresh=True)
            found = look_again(observer)
            away = found if isinstance(found, str) else ""
            last = last if isinstance(found, str) else found


def _watch_as_text(observer: Observer, found: Status | str) -> NoReturn:
    while True:
        if isinstance(found, str):
            out.print(f"away: {escape(found)}")
        else:
            _print(found)
        sys.stdout.flush()
        found = look_again(observer)
