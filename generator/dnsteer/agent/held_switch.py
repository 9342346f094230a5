"""The switch as the agent has it: its OVSDB replicated, the flows that it should have, and whether it is known to have them.

The verbs that the agent runs for people use the same, so they read neither spec nor tables again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from dnsteer.deploy.decision import DECISION
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.deploy.wanted import Wanted
from dnsteer.render.flows import Flow
from dnsteer.slots.maintenance import Overlay, marker
from dnsteer.switch.agent_answer import AgentAnswer
from dnsteer.switch.database import Database
from dnsteer.switch.session import Session
from dnsteer.switch.state import AppliedState, BridgeRecord, DamagedError
from dnsteer.switch.table_changes import TableChanges
from dnsteer.switch.tools import SwitchError, UnavailableError, UnwrittenError

_OF_THE_RECORD = {
    "Bridge": frozenset({"external_ids"}),
    "Open_vSwitch": frozenset({"cur_cfg", "next_cfg"}),
}
"""Columns that dnsteer itself writes with each change."""


_MAX_DECISIONS = 64


class SwitchMemory:
    """What is known of a switch and its bridge. *on_change* is called, by any thread, whenever it may have changed."""

    def __init__(self, tell: Callable[[str], Any] = lambda bridge: None) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self.tell = tell
        """Returns what the agent knows of a bridge, as its control socket tells it; None of another one. By any thread."""
        self.events = 0
        """How often OpenFlow or OVSDB has reported a change, or was lost; what the agent has *sent* is not counted."""
        self.sent: frozenset[str] = frozenset()
        """The flows that the last change of slots has sent, as ovs-ofctl monitor prints them."""
        self.seen: tuple[str, int, int] | None = None
        """Bridge, marker and number of events, of the last look at all tables that found them right."""
        self.wanted: Wanted | None = None
        """What was wanted last."""
        self.fault: str | None = None
        """What is wrong with the switch's tables, or that it does not answer; empty: they were found right; None: nothing is
        known yet."""
        self.doubt = ""
        """Why looks do not tell whether the tables are right, where they do not."""
        self.database: Database | None = None
        self.state: tuple[str, AppliedState] | None = None
        """The state that was read last, with the UUID of its row, which is written once."""
        self.lock = threading.Lock()
        self._decisions: dict[Overlay, str] = {}
        """The decision that led to each of the last overlays: the record says it only of entries that stay."""

    def notice(self, table: str = "", columns: frozenset[str] = frozenset()) -> None:
        """Take notice of a change: of a row of OVSDB, or of the bridge's OpenFlow."""
        if not columns or columns - _OF_THE_RECORD.get(table, frozenset()):
            self.events += 1
        self.on_change()

    def silent(self, why: str) -> None:
        """ovs-vswitchd does not answer. Its tables must be looked at before they are known to be right again."""
        self.fault = f"ovs-vswitchd does not answer: {why}"
        self.notice()

    def looked(self, differences: int, other_version: str, *, repaired: bool) -> None:
        """A look has found so many differences, and *repaired* them or not. Tables that an *other_version* of
        dnsteer made were not compared."""
        if not other_version:
            self.fault = f"{differences} differences from the record" if differences and not repaired else ""
        elif self.fault:  # of before: whether it still holds, no look tells
            self.fault = None
        self.doubt = (
            f"dnsteer {other_version} made the tables, which are not compared: apply the spec" if other_version else ""
        )

    def not_looked(self, err: Exception) -> None:
        """A look has failed. That the switch is away, or its record damaged, says nothing about the tables."""
        if isinstance(err, SwitchError) and not isinstance(err, UnavailableError | DamagedError | UnwrittenError):
            self.fault = f"its tables cannot be made as they were applied: {err}"

    def decided(self, overlay: Overlay, decision: str) -> None:
        """Remember which decision has led to an overlay."""
        self._decisions.pop(overlay, None)
        self._decisions[overlay] = decision
        for old in list(self._decisions)[:-_MAX_DECISIONS]:
            self._decisions.pop(old, None)  # another thread may have

    def decision_of(self, overlay: Overlay) -> str:
        """The decision that led to an overlay last; empty if that is not known."""
        return self._decisions.get(overlay, "")

    def close(self) -> None:
        """End the connections."""
        with self.lock:
            database, self.database = self.database, None
        if database is not None:
            database.close()


@dataclass(frozen=True)
class HeldSwitch(TargetSwitch):
    """A switch with a memory."""

    memory: SwitchMemory = field(default_factory=SwitchMemory, compare=False)

    def session(self) -> Session:
        """A connection to the record, to be closed. States that were read are known."""
        return _RememberingSession(self)

    @contextmanager
    def database(self) -> Iterator[Database]:
        """The replica of the switch's OVSDB. It is made anew after a failure."""
        memory = self.memory
        with memory.lock:
            if memory.database is None:
                memory.database = Database(self.remote, self.timeout, memory.notice)
            database = memory.database
        try:
            yield database
        except UnavailableError:
            memory.close()
            raise

    def ask_agent(self, bridge: str) -> AgentAnswer:
        """What this agent knows: no need to ask at its socket."""
        known = self.memory.tell(bridge)
        return AgentAnswer(known) if known is not None else super().ask_agent(bridge)

    def wanted(self, state: AppliedState, overlay: Overlay) -> Wanted:
        """Return what a recorded state and an overlay mean, from what is known as far as possible. Raises SwitchError."""
        known = self.memory.wanted
        if known is None or known.applied != state:
            wanted = replace(super().wanted(state, overlay), applied=state)
        else:
            wanted = known if known.overlay == overlay else known.with_overlay(state, overlay)
        self.memory.wanted = wanted
        return wanted

    def is_intact(self, bridge: str, marker: int) -> bool:
        """Whether the tables were right when last looked at, and no event came since."""
        return self.memory.seen == (bridge, marker, self.memory.events)

    @contextmanager
    def moving(self, bridge: str, state: AppliedState, overlay: Overlay, todo: TableChanges) -> Iterator[None]:
        """Know the tables as changed, without another look. A change that fails leads to one."""
        memory = self.memory
        memory.decided(overlay, DECISION.get())
        memory.sent = frozenset(map(monitored, (*todo.add, *todo.replace)))
        try:
            yield
        except BaseException:
            memory.sent = frozenset()
            memory.notice()
            raise
        memory.seen = bridge, marker(state.digest, overlay), memory.events


def monitored(flow: Flow) -> str:
    """A flow as ovs-ofctl monitor prints it after the event: without its priority."""
    actions = f"actions={flow.actions}" if flow.actions != "drop" else ""
    return " ".join(filter(None, (f"table={flow.table} cookie=0x{flow.cookie:x}", flow.match, actions)))


class _RememberingSession(Session):
    def __init__(self, switch: HeldSwitch) -> None:
        super().__init__(switch.remote, switch.timeout)
        self._memory = switch.memory

    def state(self, record: BridgeRecord, number: int) -> AppliedState:
        """One recorded state; the one that was read last is not read again. Raises as the original."""
        row = self.row_of(record, number)
        known = self._memory.state
        if known is None or known[0] != row:
            known = self._memory.state = row, super().state(record, number)
        return known[1]
