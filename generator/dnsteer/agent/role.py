# SPDX-License-Identifier: Apache-2.0
"""Whether this agent acts on its bridge, by the claim, and whether its switch is active or on standby, by the role."""

from __future__ import annotations

from dnsteer.agent.followed_state import FollowedState
from dnsteer.agent.gratuitous import NeighborNotices
from dnsteer.agent.held_switch import HeldSwitch
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.metrics.observer import AgentObserver
from dnsteer.switch.role import is_standby
from dnsteer.switch.session import Session
from dnsteer.switch.state import BridgeRecord, DamagedError
from dnsteer.switch.tools import SwitchError


class RoleFollower:
    """Follows the role in the record. A look at the switch brings its flows there, which this asks for."""

    def __init__(self, switch: HeldSwitch, notices: NeighborNotices, observer: AgentObserver) -> None:
        self._switch, self._notices, self._observer = switch, notices, observer
        self.standby = False

    def record(self, record: BridgeRecord, followed: FollowedState | None) -> None:
        """Take in the record; *followed* is the state that is followed."""
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
        if followed is not None and not standby:
            self._notices.begin(followed, taking_over=True)


class Claim:
    """The claim of an agent on its bridge, or on the only one there is. It ends with the connection.

    One agent works on a bridge at a time: who holds the claim, a lock of OVSDB's, acts; another stands by until it is free.
    It is not the lock of changes, which the agent takes for each change, so that people's verbs work beside it.
    """

    def __init__(self, switch: TargetSwitch, bridge: str | None) -> None:
        self._switch, self._bridge = switch, bridge
        self._session: Session | None = None
        self.held = False

    def record(self) -> BridgeRecord:
        """Return the bridge's record, and take the claim if it is free. Raises SwitchError."""
        if self._session is None:
            self.held = False
            self._session = self._switch.session()
        try:
            record = self._session.record_of(self._bridge)
            if not self.held:
                self.held = self._session.claim(record.bridge)
        except SwitchError:
            self.close()
            raise
        return record

    def session(self) -> Session:
        """Return the connection of the last record."""
        assert self._session is not None
        return self._session

    def close(self) -> None:
        """End the connection, and with it the claim."""
        session, self._session, self.held = self._session, None, False
        if session is not None:
            session.close()
