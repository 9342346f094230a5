# SPDX-License-Identifier: Apache-2.0
"""The bonds of a switch while an agent runs: says which members are down, and tells the network where the VIPs are now.

The switch itself changes to another member at once. The network's switches learn it by what leaves there; with direct server
return nothing of the VIPs' MAC address may leave for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from dnsteer.agent.followed_state import FollowedState
from dnsteer.agent.held_switch import HeldSwitch, SwitchThread
from dnsteer.metrics.observer import AgentObserver
from dnsteer.spec import derived
from dnsteer.spec.model.spec import Switch
from dnsteer.switch.bridge_rows import Bridge
from dnsteer.switch.tools import SwitchError

LOOK = 0.5
"""Seconds between two looks at the links, in the replica of the database."""
_TROUBLE = "the bonds"


def bonds_of(switch: Switch) -> dict[str, tuple[str, ...]]:
    """The members of each bond, the preferred one first."""
    return {name: members for name in switch.uplinks if (members := derived.bond_members(switch, name))}


def members_down(bonds: Mapping[str, tuple[str, ...]], bridge: Bridge | None) -> dict[str, tuple[str, ...]]:
    """The members of each bond that have no link: what the database does not say of a port is no reason to say so."""
    ports = bridge.ports if bridge is not None else {}
    return {
        name: tuple(m for m in members if m in ports and ports[m].settings.get("link_state") == "down")
        for name, members in bonds.items()
    }


def active_of(bonds: Mapping[str, tuple[str, ...]], down: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """The member by which all leaves, by bond; empty: none has a link."""
    return {name: next((m for m in members if m not in down[name]), "") for name, members in bonds.items()}


class BondFollower:
    """Looks at the links of bonds. *tell* sends what tells neighbours where the VIPs are."""

    def __init__(self, switch: HeldSwitch, tell: Callable[[FollowedState], None], observer: AgentObserver) -> None:
        self._switch, self._tell, self._observer = switch, tell, observer
        self._active: dict[str, str] = {}

    async def run(self, work: SwitchThread, known: Callable[[], FollowedState | None]) -> None:
        """Look until cancelled; *known* is the applied state while this agent acts."""
        while True:
            followed = known()
            if followed is not None:
                await self._look(work, followed)
            await asyncio.sleep(LOOK)

    async def _look(self, work: SwitchThread, followed: FollowedState) -> None:
        bonds = bonds_of(followed.spec.switch)
        if not bonds:
            self._active = {}
            self._observer.forget_troubles(_TROUBLE)
            return
        try:
            down = await work(partial(self._read, followed.bridge, bonds))
        except (SwitchError, PermissionError):
            return  # the main loop says that
        active, before = active_of(bonds, down), self._active
        self._active = active
        if any(member and before.get(name, bonds[name][0]) != member for name, member in active.items()):
            self._tell(followed)
        said = [
            f"{', '.join(members)} of {name} {'is' if len(members) == 1 else 'are'} down, "
            f"{active[name] + ' is' if active[name] else 'no member is'} active"
            for name, members in down.items()
            if members
        ]
        if said:
            self._observer.report_trouble(_TROUBLE, "; ".join(said))
        else:
            self._observer.end_trouble(_TROUBLE, "all members of bonds are up again")

    def _read(self, bridge: str, bonds: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        with self._switch.database() as database:
            return members_down(bonds, database.bridge(bridge))
