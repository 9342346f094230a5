# SPDX-License-Identifier: Apache-2.0
"""Bonds of uplinks: their members, and what stands for them on the bridge and beside it."""

from __future__ import annotations

from typing import NamedTuple

from dnsteer.spec.model.part import Device
from dnsteer.spec.model.spec import Switch, Uplink


def is_lag(uplink: Uplink) -> bool:
    """Whether an uplink is a bond by LACP: a port of the bridge, behind which Open vSwitch has a bond of its own."""
    return uplink.members is not None and uplink.mode == "lacp"


def bond_members(switch: Switch, name: str) -> tuple[str, ...]:
    """The ports of the bridge of which flows choose one, the preferred one first; none where *name* is a port itself."""
    uplink = switch.uplinks.get(name)
    return tuple(uplink.members) if uplink is not None and uplink.members and not is_lag(uplink) else ()


def uplink_ports(switch: Switch) -> dict[str, Device]:
    """The ports of the bridge by which queries come in: each uplink, or in its place the members that flows choose of."""
    found: dict[str, Device] = {}
    for name, uplink in switch.uplinks.items():
        if is_lag(uplink):
            found[name] = Device(type="patch", options={"peer": lag_names(name).peer})
        else:
            found |= uplink.members or {name: uplink}
    return found


def uplink_devices(switch: Switch) -> dict[str, Device]:
    """The devices by which queries come in: each uplink, or in its place the members of a bond of either kind."""
    found: dict[str, Device] = {}
    for name, uplink in switch.uplinks.items():
        found |= uplink.members or {name: uplink}
    return found


class LagNames(NamedTuple):
    """What stands for a bond by LACP in OVSDB: its bridge, the bond there, and the patch port there."""

    bridge: str
    bond: str
    peer: str


def lag_names(uplink: str) -> LagNames:
    """The names of a bond by LACP, whose patch port of the balancer's bridge has the name of the *uplink*."""
    return LagNames(f"{uplink}-lag", f"{uplink}-bond", f"{uplink}-peer")
