"""Whether this switch is the active one of several, or on standby, as the record says: what the agent does about it."""

from __future__ import annotations

from dnsteer.agent.gratuitous import NeighborNotices
from dnsteer.agent.held_switch import HeldSwitch
from dnsteer.agent.report import Reporter
from dnsteer.agent.world import World
from dnsteer.metrics.recorder import Recorder
from dnsteer.switch.role import is_standby
from dnsteer.switch.state import BridgeRecord, DamagedError


class RoleFollower:
    """Follows the role in the record. A look at the switch brings its flows there, which this asks for."""

    def __init__(self, switch: HeldSwitch, notices: NeighborNotices, report: Reporter, recorder: Recorder) -> None:
        self._switch, self._notices, self._report, self._recorder = switch, notices, report, recorder
        self.standby = False

    def record(self, record: BridgeRecord, world: World | None) -> None:
        """Take in the record; *world* is the state that is followed."""
        try:
            standby = is_standby(record, self._switch.remote)
        except DamagedError as err:  # it stays what it was
            self._report.fails("the role", str(err))
            return
        self._report.works("the role", "the role can be read again")
        self._recorder.role(standby=standby)
        if standby == self.standby:
            return
        self.standby = self._notices.standby = standby
        role = "standby" if standby else "active"
        self._report.say(f"this switch is {'on standby' if standby else 'active'} now", "role", role=role)
        self._switch.memory.notice()
        if world is not None and not standby:
            self._notices.begin(world, taking_over=True)
