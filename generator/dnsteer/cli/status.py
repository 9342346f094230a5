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
from dnsteer.deploy.times import now
from dnsteer.spec.errors import escape
from dnsteer.switch.tools import SwitchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dnsteer.console.attention_item import AttentionItem
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
    """Show the status of a switch: what was applied, which backends fail or are out, what goes where, and what drifted.

    Exit code 2: it differs, a change was cut off, or it waits for its flows; 3: it serves, but something needs attention,
    such as a backend that fails, or no agent; 4: a VIP does not serve; of several the highest. 1: something cannot be read
    or checked, and no VIP is known not to serve. 69: it cannot be reached; 130: ended by Ctrl-C.
    """
    from dnsteer.status.report import Observer

    if watch and no_rates:
        raise typer.BadParameter("found --watch and --no-rates; expected one of them")
    observer = Observer(switch, bridge, interval=interval, check=not no_verify, rates=not no_rates)
    if watch:
        _watch(observer, json)
    found = observer.observe()
    if json:
        print_json(_as_json(found))
    else:
        _print(found)
    raise typer.Exit(exit_code(found, items_of(found)))


def items_of(found: Status) -> list[AttentionItem]:
    """What needs attention of a switch with this status."""
    from dnsteer.report.attention import status_items

    return status_items(found, now())


def _as_json(found: Status) -> dict[str, Any]:
    items = items_of(found)
    return {
        "ok": exit_code(found, items) is Exit.OK,
        "attention": [item.as_json() for item in items],
        **found.as_json(),
    }


def _print(found: Status) -> None:
    from dnsteer.cli.status_view import view

    out.rich.print(view(found, out.rich.width, items_of(found)), soft_wrap=False)


def exit_code(found: Status, items: Sequence[AttentionItem]) -> Exit:
    """The exit code that says how a switch is, by what needs attention of it. Notes and settings of others do not count."""
    from dnsteer.report.attention import needs_look

    if found.unreachable:
        return Exit.UNAVAILABLE
    if any(item.vips for item in items):
        return Exit.NOT_SERVING
    if found.errors:
        return Exit.ERROR
    if needs_look(found, items):
        return Exit.ATTENTION
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
        value: dict[str, Any] = {"ok": False, "error": found} if isinstance(found, str) else _as_json(found)
        sys.stdout.write(json_module.dumps(value) + "\n")
        sys.stdout.flush()
        found = look_again(observer)


def _watch_on_screen(observer: Observer, last: Status) -> NoReturn:
    if not out.rich.is_terminal or out.rich.is_dumb_terminal:
        _watch_as_text(observer, last)
    from rich.live import Live

    from dnsteer.cli.charset_console import screen_console
    from dnsteer.cli.status_view import view

    screen, away = screen_console(), ""
    with Live(console=screen, auto_refresh=False, screen=True, vertical_overflow="crop") as live:
        while True:
            shown = view(last, screen.width, items_of(last), away=away, height=screen.height)
            live.update(screen.fitted(shown), refresh=True)
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
