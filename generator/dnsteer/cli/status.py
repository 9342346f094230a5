"""The verb `status`: the status of a switch, once or repeatedly."""

from __future__ import annotations

import json as json_module
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from dnsteer.cli.name_completion import all_names
from dnsteer.cli.output import Exit, Json, out, print_json
from dnsteer.cli.running_switch import Bridge, on_switch, progress, seconds
from dnsteer.deploy.target_switch import Progress, TargetSwitch
from dnsteer.deploy.times import now
from dnsteer.spec.errors import escape
from dnsteer.switch.tools import SwitchError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dnsteer.status.report import Observer, Status
    from dnsteer.view.attention_item import AttentionItem

_PAUSE = 1.0
"""Seconds between two looks of --wait."""
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
Wait = Annotated[
    float | None,
    typer.Option(
        "--wait", metavar="TIME", parser=seconds,
        help="Wait until the exit code is 0, at most this long (5m), and say on standard error what is waited for.",
    ),
]  # fmt: skip
All = Annotated[
    bool,
    typer.Option("-v", "--verbose", help="Show every pool, backend and VIP, also of a large switch in a terminal."),
]
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
    switch: TargetSwitch,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME...]", help="Only these pools and VIPs, or backends (POOL/BACKEND).", show_default=False,
            autocompletion=all_names,
        ),
    ] = None,
    bridge: Bridge = None, interval: Interval = "1s",  # type: ignore[assignment]
    watch: Watch = False, wait: Wait = None, no_verify: NoVerify = False, no_rates: NoRates = False,
    verbose: All = False, json: Json = False,
) -> None:  # fmt: skip
    """Show the status of a switch: what was applied, which backends fail or are out, what goes where, and what drifted.

    With NAMEs it shows these, and the exit code is about them and the switch as a whole.

    Exit code 2: it differs, a change was cut off, or it waits for its flows; 3: it serves, but something needs attention,
    such as a backend that fails, or no agent; 4: a VIP does not serve; of several the highest. 1: something cannot be read
    or checked, and no VIP is known not to serve. 69: it cannot be reached; 130: ended by Ctrl-C.
    """
    from dnsteer.status.report import Observer

    for one, other, both in (("--watch", "--no-rates", watch and no_rates), ("--watch", "--wait", watch and wait)):
        if both:
            raise typer.BadParameter(f"found {one} and {other}; expected one of them")
    observer = Observer(switch, bridge, interval=interval, check=not no_verify, rates=not no_rates)
    look = StatusLook(observer, tuple(names or ()), verbose)
    if watch:
        _watch(look, json)
    found = look.wait(wait, progress(json)) if wait is not None else look.first()
    if json:
        print_json(found.as_json())
    else:
        found.print(out.rich.is_terminal and not verbose)
    raise typer.Exit(found.exit_code)


@dataclass(frozen=True)
class StatusFound:
    """What a look has found: the status, and what needs attention, of all or of the *names*."""

    status: Status
    items: list[AttentionItem]
    names: tuple[str, ...] = ()

    @property
    def exit_code(self) -> Exit:
        """That of the verb."""
        return exit_code(self.status, self.items)

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "ok": self.exit_code is Exit.OK,
            "attention": [item.as_json() for item in self.items],
            **self.status.as_json(),
        }

    def print(self, bounded: bool) -> None:
        """Print it, of a large switch what matters most if *bounded*."""
        from dnsteer.cli.status_view import view

        out.rich.print(view(self.status, out.rich.width, self.items, bounded=bounded), soft_wrap=False)


@dataclass(frozen=True)
class StatusLook:
    """Looks at a switch, once or again and again, and shows what is about the *names*; without names all."""

    observer: Observer
    names: tuple[str, ...]
    verbose: bool

    def first(self) -> StatusFound:
        """The first look. Raises SwitchError, also for a name that there is not."""
        return self._narrowed(self.observer.observe())

    def again(self) -> StatusFound | str:
        """The next look, or why there is none."""
        found = look_again(self.observer)
        try:
            return found if isinstance(found, str) else self._narrowed(found)
        except SwitchError as err:  # it was removed meanwhile
            return str(err)

    def wait(self, seconds: float, say: Progress) -> StatusFound:
        """Look until the exit code is 0, for so many *seconds* at most; the last look. *say* tells what is waited for."""
        rates, self.observer.rates = self.observer.rates, False
        end, said, why = time.monotonic() + seconds, "", ""
        while True:
            try:
                found = self.first()
                why = "" if found.exit_code is Exit.OK else _waits_for(found)
            except UnavailableError as err:  # as after a restart of the machine
                why = str(err)
            if not why or time.monotonic() >= end:
                break
            if why != said:
                say(f"waiting: {why}")
                said = why
            time.sleep(min(_PAUSE, max(0.0, end - time.monotonic())))
        if why:
            say(f"not in order after {seconds:g} s: {why}")
        self.observer.rates = rates
        return self.first()

    def _narrowed(self, status: Status) -> StatusFound:
        if not self.names:
            return StatusFound(status, items_of(status))
        from dnsteer.status.narrow import narrow

        narrowed = narrow(status, self.names)
        return StatusFound(narrowed, _about(narrowed, items_of(status)), self.names)


def _waits_for(found: StatusFound) -> str:
    """What keeps a status from being in order, in one line."""
    item = next((item for item in found.items if item.level != "note"), None)
    if item is None:
        return "the tables differ from the record" if not found.status.unreachable else found.status.unreachable
    return escape(" ".join(item.line.split()))


def _about(narrowed: Status, items: list[AttentionItem]) -> list[AttentionItem]:
    """The items about the pools, backends and VIPs of a narrowed status, and about the switch as a whole."""
    backends = {pool.name: {backend.name for backend in pool.backends} for pool in narrowed.pools}
    vips = {vip.name: vip.pool for vip in narrowed.vips}

    def is_about(item: AttentionItem) -> bool:
        if item.pool and item.pool not in backends:
            return False
        if item.backend and item.backend not in backends[item.pool]:
            return False
        # Of a pool that is shown for its backends alone no VIP is shown, and all of them count.
        shown = {name for name, pool in vips.items() if not item.pool or pool == item.pool}
        its = {vip.partition(" ")[0] for vip in item.vips}  # a service may follow
        return not its or bool(its & shown) or bool(item.pool and not shown)

    return [item for item in items if is_about(item)]


def items_of(found: Status) -> list[AttentionItem]:
    """What needs attention of a switch with this status."""
    from dnsteer.view.status_attention import status_items

    return status_items(found, now())


def exit_code(found: Status, items: Sequence[AttentionItem]) -> Exit:
    """The exit code that says how a switch is, by what needs attention of it. Notes and settings of others do not count."""
    from dnsteer.view.status_attention import needs_attention

    if found.unreachable:
        return Exit.UNAVAILABLE
    if any(item.vips for item in items):
        return Exit.NOT_SERVING
    if found.errors:
        return Exit.ERROR
    if needs_attention(found, items):
        return Exit.ATTENTION
    return Exit.DIFFERENT if found.different else Exit.OK


def _watch(look: StatusLook, json: bool) -> NoReturn:
    """Look until Ctrl-C. A switch that goes away is waited for, but the first look must succeed."""
    found = look.first()
    if json:
        _watch_as_json(look, found)
    _watch_on_screen(look, found)


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


def _watch_as_json(look: StatusLook, found: StatusFound | str) -> NoReturn:
    while True:
        value: dict[str, Any] = {"ok": False, "error": found} if isinstance(found, str) else found.as_json()
        sys.stdout.write(json_module.dumps(value) + "\n")
        sys.stdout.flush()
        found = look.again()


def _watch_on_screen(look: StatusLook, last: StatusFound) -> NoReturn:
    if not out.rich.is_terminal or out.rich.is_dumb_terminal:
        _watch_as_text(look, last)
    from rich.live import Live

    from dnsteer.cli.charset_console import screen_console
    from dnsteer.cli.status_view import view

    screen, away = screen_console(), ""
    with Live(console=screen, auto_refresh=False, screen=True, vertical_overflow="crop") as live:
        while True:
            shown = view(last.status, screen.width, last.items, away=away, height=screen.height)
            live.update(screen.fitted(shown), refresh=True)
            found = look.again()
            away = found if isinstance(found, str) else ""
            last = last if isinstance(found, str) else found


def _watch_as_text(look: StatusLook, found: StatusFound | str) -> NoReturn:
    while True:
        if isinstance(found, str):
            out.print(f"away: {escape(found)}")
        else:
            found.print(False)
        sys.stdout.flush()
        found = look.again()
