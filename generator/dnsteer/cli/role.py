# SPDX-License-Identifier: Apache-2.0
"""Verbs for switches that stand in for each other on one network: `role`; `vrrp` and `forwards`, for keepalived."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dnsteer.cli.output import Json, err, out, print_json, utc
from dnsteer.cli.running_switch import Bridge, DryRun, on_switch
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.spec.errors import escape
from dnsteer.switch.tools import SwitchError, UnavailableError, reworded

if TYPE_CHECKING:
    from dnsteer.deploy.role import RoleChange
    from dnsteer.spec.model.spec import Spec
    from dnsteer.switch.role import RoleName


class RequestedRole(str, Enum):
    """A role, or none."""

    ACTIVE = "active"
    STANDBY = "standby"
    NONE = "none"


Role = Annotated[
    RequestedRole | None,
    typer.Argument(
        metavar="[active|standby|none]",
        show_default=False,
        help="active: answer for the VIPs, and tell neighbours. standby: answer no ARP and no neighbour solicitation. none: "
        "the switch stands alone. Left out: show what it is.",
    ),
]
Fifo = Annotated[
    Path,
    typer.Argument(metavar="FIFO", help="keepalived's vrrp_notify_fifo, which it gives by itself.", show_default=False),
]
Instance = Annotated[
    str | None, typer.Option("--instance", metavar="NAME", help="Follow this VRRP instance or group alone.")
]

ForwardingBridge = Annotated[
    str, typer.Option("--bridge", metavar="NAME", help="The bridge, which OVSDB is not asked for.", show_default=False)
]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command("role")(on_switch(role))
    app.command("vrrp")(on_switch(vrrp))
    app.command("forwards")(on_switch(forwards))


def role(
    switch: TargetSwitch, wanted: Role = None, bridge: Bridge = None, dry_run: DryRun = False, json: Json = False
) -> None:
    """Make this switch the active one of several with the same VIPs, or keep it on standby."""
    if wanted is None:
        _show(switch, bridge, json)
        return
    name: RoleName | None = None if wanted is RequestedRole.NONE else wanted.value
    done = _take(switch, bridge, name, dry_run=dry_run)
    if name is not None and done.before is None:
        _warn_of_unnamed_pair(done.spec)
    changed = done.before != done.after
    if json:
        error = {} if done.failed is None else {"error": str(done.failed)}
        value = {"changed": changed, "bridge": done.bridge, "role": wanted.value, "dry_run": dry_run}
        print_json({"ok": done.failed is None, **error, **value})
        if done.failed is not None:
            raise typer.Exit(1)
        return
    verb = "would be" if dry_run else "is"
    what = f"{verb} {'on standby' if name == 'standby' else 'active' if name else 'without a role'}"
    out.print(escape(f"{done.bridge}: {what}{'' if changed else ' already'}"))
    if done.failed is not None:
        raise reworded(
            done.failed, f"recorded, but the switch does not answer, and may still answer ARP: {done.failed}"
        )


def vrrp(switch: TargetSwitch, fifo: Fifo, instance: Instance = None, bridge: Bridge = None) -> None:
    """Follow keepalived, which starts this as its vrrp_notify_fifo_script: active as its master, else on standby."""
    from dnsteer.deploy.vrrp import follow

    def take(name: RoleName) -> None:
        done = _take(switch, bridge, name)
        if done.failed is not None:
            raise done.failed
        if done.before != done.after:
            out.print(escape(f"{done.bridge}: is {'active' if name == 'active' else 'on standby'}"))

    with fifo.open(errors="replace") as lines:
        follow(lines, instance, take, lambda text: err.print(escape(f"dnsteer: {text}")))


def forwards(switch: TargetSwitch, bridge: ForwardingBridge) -> None:
    """Say whether the switch forwards, for keepalived's vrrp_script: exit code 0 if it does, also without its database."""
    from concurrent.futures import ThreadPoolExecutor

    from dnsteer.switch.silent_bridge import read_silent_bridge

    with ThreadPoolExecutor(1) as beside:
        asking = beside.submit(read_silent_bridge, switch.remote, bridge, switch.timeout)
        try:
            switch.client(bridge).ofctl("get-frags", timeout=switch.timeout)
            out.print(escape(f"{bridge}: forwards"))
        except UnavailableError as error:
            silent = asking.result()
            if silent.fault:
                raise UnavailableError(f"ovs-vswitchd does not answer: {error}; {silent.fault}") from None
            out.print(escape(f"{bridge}: forwards, though ovs-vswitchd answers no OpenFlow, as without its database"))


def _take(switch: TargetSwitch, bridge: str | None, name: RoleName | None, *, dry_run: bool = False) -> RoleChange:
    """Change the role; a switch that becomes active announces its addresses to the neighbours. Raises SwitchError."""
    from dnsteer.deploy.role import change_role

    done = change_role(switch, bridge, name, dry_run=dry_run)
    if name != "standby" and not dry_run and done.failed is None:
        _tell(switch, done)
    return done


def _tell(switch: TargetSwitch, done: RoleChange) -> None:
    """Tell neighbours, once: the agent repeats it. The role is as it should be where that fails: it is only a warning."""
    from dnsteer.agent.gratuitous import notify_neighbors

    try:
        if done.spec is None:
            raise SwitchError("the applied spec cannot be read; apply one")
        notify_neighbors(switch.client(done.bridge), done.spec)
    except (SwitchError, PermissionError) as error:
        err.print(escape(f"warning: neighbours are not told of VIPs and gateways: {error}"))


def _warn_of_unnamed_pair(spec: Spec | None) -> None:
    """Say of a switch that gets its first role that its pair has a name that may change on one switch before the other."""
    from dnsteer.spec.derived import pair_name

    if spec is not None and spec.switch.pair is None and (name := pair_name(spec)):
        err.print(
            f"warning: the applied spec has no switch.pair, so metrics and alerts call this pair {name}, its lowest VIP "
            "address, which may change on one switch before the other; apply specs with the same switch.pair on both"
        )


def _show(switch: TargetSwitch, bridge: str | None, json: bool) -> None:
    from dnsteer.switch.role import known_role

    with switch.session() as session:
        record = session.record_of(bridge)
    known = known_role(record, switch.remote)
    if json:
        print_json({"ok": True, "bridge": record.bridge, **known})
        return
    since = f", told to be {known['told']} at {utc(known['since'])} by {known['by']}" if "told" in known else ""
    out.print(escape(f"{record.bridge}: {known['role']}{since}"))
