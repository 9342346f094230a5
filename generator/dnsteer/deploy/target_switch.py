# SPDX-License-Identifier: Apache-2.0
"""The running switch that a verb works on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dnsteer.slots.maintenance import Overlay
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.session import Session
from dnsteer.switch.state import AppliedState
from dnsteer.switch.tools import openflow_target

if TYPE_CHECKING:
    from dnsteer.deploy.wanted_switch import WantedSwitch
    from dnsteer.switch.agent_answer import AgentAnswer
    from dnsteer.switch.database import Database
    from dnsteer.switch.table_changes import TableChanges
    from dnsteer.switch.tools import UnwrittenError

GRACE = 2.0
"""Seconds that the flows of the way back stay for the answers of a NAT backend that leaves. Resolvers wait about as long."""

Progress = Callable[[str], None]
"""Takes a line about what is being done."""
Confirm = Callable[[list[str], list[str]], None]
"""Takes reasons to ask the operator whether to go on, and what would change, in words; raises when not."""


@dataclass(frozen=True)
class TargetSwitch:
    """A running switch: its OVSDB, optionally the bridge's OpenFlow, and the timeout of answers in seconds.

    *extension* is the control socket of the extension, where it is not the spec's.
    """

    remote: str
    openflow: str | None = None
    timeout: float = 10
    extension: str | None = None

    @property
    def follows_neighbors(self) -> bool:
        """Whether an agent has it, which finds out the MAC addresses of neighbours by itself."""
        return False

    def client(self, bridge: str) -> OpenFlow:
        """The bridge's OpenFlow."""
        return OpenFlow(openflow_target(self.remote, bridge, self.openflow), timeout=self.timeout)

    def session(self) -> Session:
        """A connection to the record, to be closed."""
        return Session(self.remote, self.timeout)

    def database(self) -> AbstractContextManager[Database]:
        """The switch's OVSDB, for the time of a context."""
        from dnsteer.switch.database import Database  # here, since the quick verbs do without

        return Database(self.remote, self.timeout)

    def ask_agent(self, bridge: str) -> AgentAnswer:
        """Ask the agent of the bridge what it knows (`status/agent_knowledge.py`)."""
        from dnsteer.switch.agent_answer import ask_knowledge  # here, since most verbs do without

        return ask_knowledge(self.remote, bridge)

    def wanted(self, state: AppliedState, overlay: Overlay) -> WantedSwitch:
        """What a recorded state and an overlay mean for the bridge. Raises SwitchError."""
        from dnsteer.deploy.recorded_spec import load_state
        from dnsteer.deploy.wanted_switch import WantedSwitch

        return WantedSwitch(load_state(state), overlay)

    def is_intact(self, bridge: str, marker: int) -> bool:
        """Whether it is known, without looking, that the bridge has the tables of *marker* (`slots.maintenance.marker`)."""
        return False

    def keep_overlay(self, session: Session, bridge: str, overlay: Overlay, why: UnwrittenError) -> Callable[[], None]:
        """Keep an overlay that OVSDB refuses to write, so that the tables may have it. Raises SwitchError if it cannot.

        Returns what takes that back, for tables that do not get it.
        """
        raise why

    def keep_pending(self, session: Session, bridge: str, why: UnwrittenError) -> None:
        """Keep what a pending change has made of the tables, where OVSDB refuses to write that. Raises SwitchError."""
        raise why

    def moving(
        self, bridge: str, state: AppliedState, overlay: Overlay, todo: TableChanges
    ) -> AbstractContextManager[None]:
        """In this context *todo* changes the tables of the bridge to another overlay of the state that is applied."""
        return nullcontext()


def silent(_: str) -> None:
    """Progress that is discarded."""
