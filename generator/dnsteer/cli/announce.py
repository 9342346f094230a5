# SPDX-License-Identifier: Apache-2.0
"""Verbs that take VIPs out of routing for maintenance, and back: `withdraw` and `announce`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from dnsteer.cli.completion import vips as complete_vips
from dnsteer.cli.output import Json, err, out, print_json
from dnsteer.cli.running_switch import Bridge, DryRun, Note, on_switch, seconds
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.spec.errors import escape, some_of
from dnsteer.switch.tools import SwitchError

if TYPE_CHECKING:
    from dnsteer.deploy.withdraw import WithdrawalChange

_POLL = 0.05
_PATIENCE = 10.0
"""Seconds that the agent and BIRD may take."""
_NO_AGENT = "is dnsteer agent running? Its log says what it does about VIPs"

Vips = Annotated[
    list[str] | None,
    typer.Argument(metavar="[VIP]...", help="The VIPs.", show_default=False, autocompletion=complete_vips),
]
All = Annotated[bool, typer.Option("--all", help="All VIPs of the spec.")]
Lasts = Annotated[
    float | None, typer.Option("--for", metavar="TIME", parser=seconds, help="End it after this time (15m, 2h).")
]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command("withdraw")(on_switch(withdraw))
    app.command("announce")(on_switch(announce))


def withdraw(
    switch: TargetSwitch,
    vips: Vips = None,
    every: All = False,
    lasts: Lasts = None,
    note: Note = "",
    bridge: Bridge = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Withdraw VIPs from BGP for maintenance: routers send their queries elsewhere until `announce`."""
    from dnsteer.deploy import withdraw as work

    names = _named(vips, every)
    done = work.change_withdrawals(
        switch, bridge, names, lambda found: work.withdraw_edit(found, note, lasts or 0), dry_run=dry_run
    )
    left = None if dry_run else _wait(done, gone=True)
    _report(done, "withdrawn", left, dry_run, json)
    if left:
        raise SwitchError(f"BIRD still has routes to {some_of(sorted(left))} after {_PATIENCE:g} s; {_NO_AGENT}")


def announce(
    switch: TargetSwitch,
    vips: Vips = None,
    every: All = False,
    bridge: Bridge = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Let VIPs be announced again that were withdrawn, as soon as they work."""
    from dnsteer.deploy import withdraw as work

    names = _named(vips, every)
    done = work.change_withdrawals(switch, bridge, names, work.announce_edit, dry_run=dry_run)
    left = None if dry_run else _wait(done, gone=False)
    _report(done, "announced", left, dry_run, json)
    if left and not json:
        err.print(f"BIRD has no routes to {some_of(sorted(left))} yet, which may not work now; {_NO_AGENT}")


def _named(vips: list[str] | None, every: bool) -> list[str]:
    if bool(vips) == every:
        raise typer.BadParameter("expected the names of VIPs, or --all")
    return vips or []


def _wait(done: WithdrawalChange, *, gone: bool) -> set[str] | None:
    """Wait until BIRD has no route to the VIPs, or has all; the others. None: BIRD cannot be asked here."""
    from dnsteer.agent.announce.bird import Bird, BirdError
    from dnsteer.agent.announce.bird_routes import protocols
    from dnsteer.spec.announced import vip_routes

    wanted = {str(route) for name in done.vips for route in vip_routes(done.spec.vips[name])}
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            with Bird(done.announce.control) as bird:
                found = bird.routes(protocols(done.announce))
                late = time.monotonic() > deadline
                unconfirmed = late and bird.is_unconfirmed()
        except BirdError as error:
            err.print(f"warning: it is not known whether BIRD follows: {error}")
            return None
        left = wanted & found if gone else wanted - found
        if left and unconfirmed:
            err.print(
                "warning: BIRD is about to undo its configuration, and routes wait for: birdc configure confirm, or undo"
            )
        if not left or late:
            return left
        time.sleep(_POLL)


def _report(done: WithdrawalChange, state: str, left: set[str] | None, dry_run: bool, json: bool) -> None:
    if json:
        print_json(
            {
                "ok": not (left and state == "withdrawn"),
                "changed": bool(done.changed),
                "bridge": done.bridge,
                "vips": list(done.vips),
                "state": state,
                "left": None if left is None else sorted(left),
                "dry_run": dry_run,
            }
        )
        return
    for name in done.vips:
        verb = "would be" if dry_run else "is"
        what = f"{verb} {state}" if name in done.changed else f"is {state} already, by the record"
        if state == "announced" and name in done.changed:
            what = f"{'may' if not dry_run else 'might'} be announced again"
        out.print(escape(f"{done.bridge}: VIP {name} {what}"))
