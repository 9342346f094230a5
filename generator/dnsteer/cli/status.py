# SPDX-License-Identifier: Apache-2.0
"""The verb `status`: the status of a switch, once or, for programs, repeatedly."""

from __future__ import annotations

import json as json_module
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from dnsteer.cli.completion import all_names
from dnsteer.cli.output import Exit, Json, err, out, print_json, status_exit_code
from dnsteer.cli.running_switch import Bridge, Interval, on_switch, progress, seconds
from dnsteer.deploy.target_switch import Progress, TargetSwitch
from dnsteer.deploy.times import now
from dnsteer.spec.errors import escape
from dnsteer.switch.tools import SwitchError, UnavailableError

if TYPE_CHECKING:
    from dnsteer.status.switch_observer import SwitchObserver
    from dnsteer.status.switch_status import Status
    from dnsteer.view.attention_item import AttentionItem

_PAUSE = 1.0
"""Seconds between two observations of --wait."""
_IS_TOP = "note: status --watch is dnsteer top, which does not look for drift: dnsteer status does"

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME...]",
        help="Only these pools and VIPs, or backends (POOL/BACKEND).",
        show_default=False,
        autocompletion=all_names,
    ),
]
Watch = Annotated[
    bool,
    typer.Option(
        "--watch",
        "-w",
        help="The same as dnsteer top, filtered by the NAMEs. Where the output is no terminal, or with --json, the status "
        "again and again until Ctrl-C (exit code 130).",
    ),
]
Wait = Annotated[
    float | None,
    typer.Option(
        "--wait",
        metavar="TIME",
        parser=seconds,
        help="Wait until the exit code is 0, at most this long (5m), and say on standard error what is waited for.",
    ),
]
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
    names: Names = None,
    bridge: Bridge = None,
    interval: Interval = "1s",  # type: ignore[assignment]
    watch: Watch = False,
    wait: Wait = None,
    no_verify: NoVerify = False,
    no_rates: NoRates = False,
    verbose: All = False,
    json: Json = False,
) -> None:
    """Show the status of a switch: what was applied, which backends fail or are out, what goes where, and what drifted.

    With NAMEs it shows these, and the exit code is about them and the switch as a whole.

    Exit code 2: it differs, a change was cut off, or it waits for its flows; 3: it serves, but something needs attention,
    such as a backend that fails, or no agent; 4: a VIP does not serve; of several the highest. 1: something cannot be read
    or checked, and no VIP is known not to serve. 69: it cannot be reached; 130: ended by Ctrl-C.
    """
    from dnsteer.status.switch_observer import SwitchObserver

    for one, other, both in (("--watch", "--no-rates", watch and no_rates), ("--watch", "--wait", watch and wait)):
        if both:
            raise typer.BadParameter(f"found {one} and {other}; expected one of them")
    if watch and out.has_screen and not json:
        from dnsteer.cli.top import top

        err.print(_IS_TOP)
        top(switch, bridge, interval, matching=",".join(names or ()))
        return
    observer = SwitchObserver(switch, bridge, interval=interval, check=not no_verify, rates=not no_rates)
    reader = StatusReader(observer, tuple(names or ()))
    if watch:
        _print_repeatedly(reader, json)
    result = reader.wait_until_ok(wait, progress(json)) if wait is not None else reader.read()
    if json:
        print_json(result.as_json())
    else:
        result.print(bounded=out.rich.is_terminal and not verbose)
    raise typer.Exit(result.exit_code)


@dataclass(frozen=True)
class StatusResult:
    """The status of a switch, of all of it or of what was named, and what needs attention of that."""

    status: Status
    items: list[AttentionItem]

    @property
    def exit_code(self) -> Exit:
        """That of the verb."""
        return status_exit_code(self.status, self.items)

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "ok": self.exit_code is Exit.OK,
            "attention": [item.as_json() for item in self.items],
            **self.status.as_json(),
        }

    def print(self, *, bounded: bool) -> None:
        """Print it, of a large switch what matters most if *bounded*."""
        from dnsteer.cli.status_view import view

        out.rich.print(view(self.status, out.rich.width, self.items, bounded=bounded), soft_wrap=False)


@dataclass(frozen=True)
class StatusReader:
    """Reads the status of a switch, once or again and again: what is about the *names*; without names all."""

    observer: SwitchObserver
    names: tuple[str, ...]

    def read(self) -> StatusResult:
        """The status now. Raises SwitchError, also for a name that there is not."""
        return self._narrowed(self.observer.observe())

    def read_again(self) -> StatusResult | str:
        """The next status, or why there is none."""
        found = self.observer.observe_again()
        try:
            return found if isinstance(found, str) else self._narrowed(found)
        except SwitchError as err:  # what is named was removed meanwhile
            return str(err)

    def wait_until_ok(self, seconds: float, say: Progress) -> StatusResult:
        """Read until the exit code is 0, for so many *seconds* at most; the last one. *say* tells what is waited for."""
        rates, self.observer.rates = self.observer.rates, False
        end, said, why = time.monotonic() + seconds, "", ""
        while True:
            try:
                found = self.read()
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
        return self.read()

    def _narrowed(self, status: Status) -> StatusResult:
        if not self.names:
            return StatusResult(status, items_of(status, self.observer.bridge))
        from dnsteer.status.switch_status import narrow

        narrowed = narrow(status, self.names)
        return StatusResult(narrowed, _about(narrowed, items_of(status, self.observer.bridge)))


def _waits_for(found: StatusResult) -> str:
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


def items_of(found: Status, bridge: str | None = None) -> list[AttentionItem]:
    """What needs attention of a switch with this status; commands name the *bridge*, if the operator did."""
    from dnsteer.view.attention_item import bridge_options
    from dnsteer.view.status_attention import status_items

    return status_items(found, now(), bridge_options(bridge))


def _print_repeatedly(reader: StatusReader, json: bool) -> NoReturn:
    """Print the status until Ctrl-C. A switch that goes away is waited for, but it must be there at first."""
    found: StatusResult | str = reader.read()
    while True:
        if json:
            value: dict[str, Any] = {"ok": False, "error": found} if isinstance(found, str) else found.as_json()
            sys.stdout.write(json_module.dumps(value) + "\n")
        elif isinstance(found, str):
            out.print(f"unreachable: {escape(found)}")
        else:
            found.print(bounded=False)
        sys.stdout.flush()
        found = reader.read_again()
