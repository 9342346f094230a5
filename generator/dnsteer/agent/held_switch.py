# SPDX-License-Identifier: Apache-2.0
"""The switch as the agent has it: its OVSDB replicated, the flows that it should have, and whether it is known to have them.

The verbs that the agent runs for people use the same, so they read neither spec nor tables again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any, Protocol, TypeVar

from dnsteer.agent.health import Result
from dnsteer.agent.unrecorded_overlay import UnrecordedOverlay
from dnsteer.deploy.decision import DECISION
from dnsteer.deploy.settle import overlay_in_tables
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.deploy.wanted_switch import WantedSwitch
from dnsteer.metrics.observer import AgentObserver
from dnsteer.render.flows import Flow
from dnsteer.slots.maintenance import Overlay, marker
from dnsteer.switch.agent_answer import AgentAnswer
from dnsteer.switch.database import Database
from dnsteer.switch.session import Session
from dnsteer.switch.silent_bridge import SilentBridge
from dnsteer.switch.state import REMOVED, AppliedState, BridgeRecord, BusyError, DamagedError
from dnsteer.switch.table_changes import TableChanges
from dnsteer.switch.tools import SwitchError, UnavailableError, UnwrittenError

_COLUMNS_OF_RECORD = {
    "Bridge": frozenset({"external_ids"}),
    "Open_vSwitch": frozenset({"cur_cfg", "next_cfg"}),
}
"""Columns that dnsteer itself writes with each change."""


_MAX_DECISIONS = 64
_PATIENCE = 1.0
"""Seconds to wait for another dnsteer, before what is kept is recorded at the next turn."""


_RECENT = 5.0
"""Seconds for which an answer to a probe through the bridge tells that the bridge forwards."""


T = TypeVar("T")


class SwitchThread(Protocol):
    """Runs a function in the thread that changes the switch."""

    def __call__(self, do: Callable[[], T], /) -> Awaitable[T]:
        """Return the result of *do*."""


class SwitchMemory:
    """What is known of a switch and its bridge. *on_change* is called, by any thread, whenever it may have changed."""

    def __init__(self, remote: str = "", tell: Callable[[str], Any] = lambda bridge: None) -> None:
        self.unrecorded = UnrecordedOverlay(remote)
        self.on_change: Callable[[], None] = lambda: None
        self.tell = tell
        """Returns what the agent knows of a bridge, as its control socket tells it; None of another one. By any thread."""
        self.events = 0
        """How often OpenFlow or OVSDB has reported a change, or was lost; what the agent has *sent* is not counted."""
        self.sent: frozenset[str] = frozenset()
        """The flows that the last change of slots has sent, as ovs-ofctl monitor prints them."""
        self.intact_at: tuple[str, int, int] | None = None
        """Bridge, marker and number of events, of the last look at all tables that found them right."""
        self.wanted: WantedSwitch | None = None
        """What was wanted last."""
        self.fault: str | None = None
        """What is wrong with the switch's tables, or that it does not answer; empty: they were found right; None: nothing is
        known yet."""
        self.doubt = ""
        """Why looks do not tell whether the tables are right, where they do not."""
        self.silence = ""
        """What is said of an ovs-vswitchd that answers no OpenFlow, but forwards; empty: it answers, or does not forward."""
        self.database_lost = False
        """Whether the database has ended, and was not seen again."""
        self._deaf = False
        """Whether packets from the port for probes are not taken, while those of clients are."""
        self._hears_since = self._passed = -inf
        """Since when they are taken again, and when a probe through the bridge was answered last."""
        self.database: Database | None = None
        self.state: tuple[str, AppliedState] | None = None
        """The state that was read last, with the UUID of its row, which is written once."""
        self.lock = threading.Lock()
        self._decisions: dict[Overlay, str] = {}
        """The decision that led to each of the last overlays: the record says it only of entries that stay."""

    def notice(self, table: str = "", columns: frozenset[str] = frozenset()) -> None:
        """Take notice of a change: of a row of OVSDB, or of the bridge's OpenFlow."""
        if not columns or columns - _COLUMNS_OF_RECORD.get(table, frozenset()):
            self.events += 1
        self.on_change()

    def note_slow_answer(self, found: SilentBridge) -> None:
        """An answer of OpenFlow does not come at once. Until it does, packets are taken from the ports that were *found*."""
        probe = self.wanted.loaded.spec.switch.probe if self.wanted is not None else None
        skipped = probe is not None and found.polled != frozenset() and not found.can_receive_from(probe.port)
        self._deaf = skipped and (self._deaf or self.database_lost)  # else it is only busy

    def note_silence(self, why: str, found: SilentBridge) -> None:
        """ovs-vswitchd does not answer, and what forwards was *found*. Where nothing does, its tables must be looked at
        before they are known to be right again."""
        self.note_slow_answer(found)
        answered = self._passed > time.monotonic() - _RECENT
        if found.fault and (found.asked or not answered):
            self.fault = f"ovs-vswitchd does not answer: {why}; {found.fault}"
            self.silence = ""
        else:
            self.silence = "ovs-vswitchd answers no OpenFlow, as without its database, but the switch forwards"
        self.notice()

    @property
    def judgement(self) -> tuple[str | None, str, str]:
        """What is wrong with the switch, why that is not known, and what is said of its silence."""
        return self.fault, self.doubt, self.silence

    def note_answer(self) -> None:
        """Note that ovs-vswitchd answers."""
        if self._deaf:
            self._deaf, self._hears_since = False, time.monotonic()
        if self.silence:
            self.silence = ""
            self.notice()

    def accept_result(self, result: Result) -> bool:
        """Whether the result of a probe through the bridge says something about the backend. Its clock is time.monotonic."""
        if result.good:
            self._passed = result.time
        return result.good or not (self._deaf or result.time - result.took < self._hears_since)

    def note_look(self, differences: int, other_version: str, *, repaired: bool) -> None:
        """A look has found so many differences, and *repaired* them or not. Tables that an *other_version* of
        dnsteer made were not compared."""
        if not other_version:
            self.fault = f"{differences} differences from the record" if differences and not repaired else ""
        elif self.fault:  # of before: whether it still holds, no look tells
            self.fault = None
        self.doubt = (
            f"dnsteer {other_version} made the tables, which are not compared: apply the spec" if other_version else ""
        )

    def note_failed_look(self, err: Exception) -> None:
        """A look has failed. That the switch is away, or its record damaged, says nothing about the tables."""
        if isinstance(err, SwitchError) and not isinstance(err, UnavailableError | DamagedError | UnwrittenError):
            self.fault = f"its tables cannot be made as they were applied: {err}"

    def note_decision(self, overlay: Overlay, decision: str) -> None:
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

    @property
    def follows_neighbors(self) -> bool:
        """It does."""
        return True

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

    def wanted(self, state: AppliedState, overlay: Overlay) -> WantedSwitch:
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
        return self.memory.intact_at == (bridge, marker, self.memory.events)

    def keep_overlay(self, session: Session, bridge: str, overlay: Overlay, why: UnwrittenError) -> Callable[[], None]:
        """Keep an overlay that OVSDB refuses to write. From now on its sessions read the record as if it had it."""
        return self.memory.unrecorded.keep(_as_written(session, bridge), overlay, str(why))

    def keep_pending(self, session: Session, bridge: str, why: UnwrittenError) -> None:
        """Keep what a pending change has made of the tables. Raises SwitchError where they do not tell."""
        record = _as_written(session, bridge)
        overlay = overlay_in_tables(self, record)
        if overlay is None:
            raise why
        self.memory.unrecorded.keep(record, overlay, str(why))

    def take_over(self, bridge: str) -> None:
        """Take over what an earlier agent could not record. Raises SwitchError."""
        with self.session() as session:
            self.memory.unrecorded.load(_as_written(session, bridge))

    def record_kept(self, bridge: str) -> bool:
        """Record what is kept, and return whether it still counted: somebody else may have written the record meanwhile.

        Raises UnwrittenError while OVSDB refuses to write, BusyError while others change the bridge.
        """
        kept = self.memory.unrecorded
        with replace(self, timeout=min(self.timeout, _PATIENCE)).session() as session:
            session.lock(bridge)
            record = _as_written(session, bridge)
            overlay = kept.overlay(record)
            if overlay is not None:
                session.put_overlay(record, overlay)
            kept.forget(bridge)
        return overlay is not None

    @contextmanager
    def moving(self, bridge: str, state: AppliedState, overlay: Overlay, todo: TableChanges) -> Iterator[None]:
        """Know the tables as changed, without another look. A change that fails leads to one."""
        memory = self.memory
        memory.note_decision(overlay, DECISION.get())
        memory.sent = frozenset(map(monitor_line, (*todo.add, *todo.replace)))
        try:
            yield
        except BaseException:
            memory.sent = frozenset()
            memory.notice()
            raise
        memory.intact_at = bridge, marker(state.digest, overlay), memory.events


def monitor_line(flow: Flow) -> str:
    """A flow as ovs-ofctl monitor prints it after the event: without its priority."""
    actions = f"actions={flow.actions}" if flow.actions != "drop" else ""
    return " ".join(filter(None, (f"table={flow.table} cookie=0x{flow.cookie:x}", flow.match, actions)))


def _as_written(session: Session, bridge: str) -> BridgeRecord:
    """The bridge's record as it stands in OVSDB. Raises SwitchError when the bridge is gone."""
    record = session.as_written(bridge) if isinstance(session, _RememberingSession) else session.record(bridge)
    if record is None:
        raise SwitchError(REMOVED.format(bridge))
    return record


class _RememberingSession(Session):
    def __init__(self, switch: HeldSwitch) -> None:
        super().__init__(switch.remote, switch.timeout)
        self._memory = switch.memory

    def record(self, bridge: str) -> BridgeRecord | None:
        """The bridge's record, with what the agent has decided while it could not be written."""
        record = self.as_written(bridge)
        return self._memory.unrecorded.completed(record) if record is not None else None

    def as_written(self, bridge: str) -> BridgeRecord | None:
        """The bridge's record as it stands in OVSDB."""
        return super().record(bridge)

    def state(self, record: BridgeRecord, number: int) -> AppliedState:
        """One recorded state; the one that was read last is not read again. Raises as the original."""
        known = self._memory.state
        if known is None or known[1].number != number or known[0] not in record.flow_tables.values():
            state = super().state(record, number)
            known = self._memory.state = self.row_of(record, number), state
        return known[1]


async def record_kept(switch: HeldSwitch, bridge: str, work: SwitchThread, observer: AgentObserver) -> bool:
    """Record what is kept, if something is and OVSDB can be written. Return whether it still counts: others may have written
    the record meanwhile. Raises SwitchError."""
    kept, counts = switch.memory.unrecorded, True
    if kept.why:
        with suppress(BusyError, UnwrittenError):
            counts = await work(partial(switch.record_kept, bridge))
    left = f"; nor can it be kept for the next agent: {kept.unsaved}" if kept.unsaved else ""
    text = f"backends go out and come back without the record, which follows once it can be written: {kept.why}{left}"
    observer.unrecorded(text if kept.why else "")
    return counts
