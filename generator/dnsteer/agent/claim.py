"""One agent works on a bridge at a time: who holds the claim, a lock of OVSDB's, acts; another stands by until it is free.

It is not the lock of changes, which the agent takes for each change like everybody, so that people's verbs work beside it.
"""

from __future__ import annotations

from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.switch.session import Session
from dnsteer.switch.state import BridgeRecord
from dnsteer.switch.tools import SwitchError


class Claim:
    """The claim of an agent on its bridge, or on the only one there is. It ends with the connection."""

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
