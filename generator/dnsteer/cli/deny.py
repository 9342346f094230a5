# SPDX-License-Identifier: Apache-2.0
"""Verbs that deny clients on the running switch: `deny` and `undeny`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from dnsteer.cli.backends import report_change
from dnsteer.cli.completion import denied, vips
from dnsteer.cli.output import Json
from dnsteer.cli.running_switch import Bridge, DryRun, NeverAsks, Note, Yes, confirm, on_switch, progress, seconds
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.spec.errors import some_of

if TYPE_CHECKING:
    from dnsteer.deploy.overlay_change import Edit, OverlayChange

Prefixes = Annotated[
    list[str],
    typer.Argument(metavar="PREFIX...", help="Clients: prefixes of either family, or single addresses; in one change."),
]
Denied = Annotated[
    list[str],
    typer.Argument(metavar="PREFIX...", help="The prefixes that are denied.", autocompletion=denied),
]
Port = Annotated[
    int | None, typer.Option("--port", min=1, max=65535, help="Only queries to this port, UDP and TCP; else to all.")
]
Vip = Annotated[
    str | None, typer.Option("--vip", metavar="VIP", help="Only queries to this VIP; else to all.", autocompletion=vips)
]
Lasts = Annotated[
    float | None,
    typer.Option(
        "--for", metavar="TIME", parser=seconds, help="End it after this time (15m, 2h); `reconcile` does that."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command("deny")(on_switch(deny))
    app.command("undeny")(on_switch(undeny))


def deny(
    switch: TargetSwitch,
    prefixes: Prefixes,
    port: Port = None,
    vip: Vip = None,
    lasts: Lasts = None,
    note: Note = "",
    bridge: Bridge = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Deny clients at once: their queries are dropped, whatever the access lists of the spec say.

    It stays over `apply` and `rollback` until `undeny`, or the time of --for.
    """
    from dnsteer.deploy.denials import clients_of, deny_clients

    clients = list(dict.fromkeys(map(clients_of, prefixes)))
    edit = deny_clients(clients, port=port or 0, vip=vip or "", lasts=lasts or 0, note=note)
    change = _change(switch, edit, bridge, yes, dry_run, json)
    change.warnings += _costs(change)
    named = some_of(list(map(str, clients)))
    already = f"{named} {'is' if len(clients) == 1 else 'are'} denied already"
    report_change(change, [], dry_run, json, already, _as_json(change))


def undeny(
    switch: TargetSwitch,
    prefixes: Denied,
    port: Port = None,
    vip: Vip = None,
    bridge: Bridge = None,
    yes: NeverAsks = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """End denials of clients: the access lists of the spec alone count again."""
    from dnsteer.deploy.denials import admit_clients, clients_of

    edit = admit_clients(list(dict.fromkeys(map(clients_of, prefixes))), port=port or 0, vip=vip or "")
    change = _change(switch, edit, bridge, True, dry_run, json)
    report_change(change, [], dry_run, json, "", _as_json(change))


def _change(
    switch: TargetSwitch, edit: Edit, bridge: str | None, yes: bool, dry_run: bool, json: bool
) -> OverlayChange:
    from dnsteer.deploy.overlay_change import change_overlay

    return change_overlay(switch, bridge, edit, dry_run=dry_run, confirm=confirm(yes, json), progress=progress(json))


def _as_json(change: OverlayChange) -> dict[str, object]:
    """What is denied by hand after a change."""
    return {"denials": [asdict(denial) for denial in change.after.denials]}


def _costs(change: OverlayChange) -> list[str]:
    """Warnings about masks and datapath flows, where denials make more of them than `lint` accepts and than there were."""
    if change.wanted is None:
        return []
    from dnsteer.lint.access_lists import exceeded_bounds
    from dnsteer.plan.build import build_plan

    loaded, plan = change.wanted.loaded, change.wanted.plan
    found = exceeded_bounds(loaded.spec, plan)
    if not found:
        return []
    known = exceeded_bounds(loaded.spec, build_plan(loaded, change.before))
    return [text for bound, text in found.items() if bound not in known]
