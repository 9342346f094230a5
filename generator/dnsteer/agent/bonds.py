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
from dnsteer.spec.model.spec import Switch
from dnsteer.status.bonds import BondView, bonds_of, view_bonds
from dnsteer.switch.tools import SwitchError

LOOK = 0.5
"""Seconds between two looks at the links, in the replica of the database."""
_TROUBLE = "the bonds"


class BondFollower:
    """Looks at the links of bonds. *tell* sends what tells neighbours where the VIPs are."""

    def __init__(self, switch: HeldSwitch, tell: Callable[[FollowedState], None], observer: AgentObserver) -> None:
        self._switch, self._tell, self._observer = switch, tell, observer
        self._seen: dict[str, BondView] = {}

    async def run(
        self, work: SwitchThread, known: Callable[[], FollowedState | None], is_standby: Callable[[], bool]
    ) -> None:
        """Look until cancelled; *known* is the applied state while this agent acts. On standby nobody is told."""
        while True:
            await self._look(work, known(), is_standby())
            await asyncio.sleep(LOOK)

    async def _look(self, work: SwitchThread, followed: FollowedState | None, standby: bool) -> None:
        before = self._seen
        if followed is None or not bonds_of(followed.spec.switch):
            if before:
                self._seen = {}
                self._observer.bonds_seen(())
            self._observer.forget_troubles(_TROUBLE)
            return
        try:
            found = await work(partial(self._read, followed.bridge, followed.spec.switch))
        except (SwitchError, PermissionError):
            return  # the main loop says that
        self._seen = {bond.name: bond for bond in found}
        if self._seen == before:
            return
        self._observer.bonds_seen(found)
        backups = (bond for bond in found if bond.mode == "active-backup")
        if not standby and any(bond.active and bond.active != _active_before(bond, before) for bond in backups):
            self._tell(followed)
        said = [_words(bond) for bond in found if bond.down or not bond.active]
        if said:
            self._observer.report_trouble(_TROUBLE, "; ".join(said))
        else:
            self._observer.end_trouble(_TROUBLE, "all members of bonds are up again")

    def _read(self, bridge: str, switch: Switch) -> tuple[BondView, ...]:
        with self._switch.database() as database:
            return view_bonds(switch, database.bridge(bridge))


def _active_before(bond: BondView, before: Mapping[str, BondView]) -> tuple[str, ...]:
    """The members that were active when it was seen last; at first the network counts with the preferred one."""
    return before[bond.name].active if bond.name in before else (bond.members[0].name,)


def _words(bond: BondView) -> str:
    active = f"{', '.join(bond.active) or 'no member'} {'are' if len(bond.active) > 1 else 'is'} active"
    if not bond.down:
        return f"{active} of {bond.name}: no partner answers by LACP"
    return f"{', '.join(bond.down)} of {bond.name} {'is' if len(bond.down) == 1 else 'are'} down, {active}"
