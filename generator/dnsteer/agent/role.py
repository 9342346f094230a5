"""Whether this switch is the active one of several, or on standby, as the record says: what the agent does about it."""

from __future__ import annotations

from dnsteer.agent.gratuitous import NeighborNotices
from dnsteer.agent.held_switch import HeldSwitch
from dnsteer.agent.world import World
from dnsteer.metrics.observer import AgentObserver
from dnsteer.switch.role import is_standby
from dnsteer.switch.state import BridgeRecord, DamagedError


class RoleFollower:
    """Follows the role in the record. A look at the switch brings its flows there, which this asks for."""

    def __init__(self, switch: HeldSwitch, notices: NeighborNotices, observer: AgentObserver) -> None:
        self._switch, self._notices, self._observer = switch, notices, observer
        self.standby = False

    def record(self, record: BridgeRecord, world: World | None) -> None:
        """Take in the record; *world* is the state that is followed."""
        try:
            standby = is_standby(record, self._switch.remote)
        except DamagedError as err:  # it stays what it was
            self._observer.report_trouble("the role", str(err))
            return
        self._observer.end_trouble("the role", "the role can be read again")
        self._observer.role(standby=standby)
        if standby == self.standby:
            return
        self.standby = self._notices.standby = standby
        self._switch.memory.notice()
        if world is not None and not standby:
            self._notices.begin(world, taking_over=True)
