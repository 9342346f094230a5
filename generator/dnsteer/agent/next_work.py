# SPDX-License-Identifier: Apache-2.0
"""What the agent does next, and until when it waits: a pure function of what it knows of its own work, and the time.

The agent works in turns. In each it reads the record, unless something is to be decided at once, and then does what is due
on the switch, step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import IntEnum, auto
from math import inf

from dnsteer.slots.maintenance import NO_OVERLAY, Overlay
from dnsteer.switch.state import BridgeRecord

TICK = 1.0
"""Seconds between two readings of the record, and between two steps of what is under way."""
PAUSE = 0.2
"""Seconds after a turn that failed, whatever wakes the agent: a change that fails does so itself."""


_QUIET = 0.05
"""Seconds without a change, after which a change is over: an apply is many."""
_LATEST = 0.3
"""Seconds after a change in which it must be quiet; then the look comes all the same."""
_REGULAR = 30.0
"""Seconds between looks without a change: not everything is announced."""
_SHARE = 0.2
"""Share of the time that looks may take where changes do not end."""
_REGULAR_SHARE = 0.003
"""Share of the time that regular looks may take: no backend can be taken out meanwhile."""
_IN_A_ROW = 5
"""Looks in a row that found differences, after which somebody is fighting the agent, and looks are spaced."""
_SPACED = 1.0
"""Seconds between looks then."""
_AGAIN = 0.2
"""Seconds until a look that failed is tried again."""


class LookTimes:
    """All times are in seconds of one steady clock. *events* count what was noticed of the switch."""

    def __init__(self) -> None:
        self._seen = -1
        self._events = -1
        self._first = self._last = 0.0
        self._earliest = self._regular = 0.0
        self._in_a_row = 0
        self.failing = False
        """Whether the last look could not be done."""

    def notice(self, events: int, now: float) -> None:
        """So many events are counted now."""
        if events != self._events:
            self._first = now if self._events == self._seen else self._first
            self._events, self._last = events, now

    @property
    def due(self) -> float:
        """When the next look is to be, by the events that were noticed."""
        if self._events != self._seen:
            return max(self._earliest, min(self._last + _QUIET, self._first + _LATEST))
        return self._regular

    def due_in(self, events: int, now: float) -> float:
        """Notice what is counted, and return the seconds until the next look; 0 or less: now."""
        self.notice(events, now)
        return self.due - now

    def done(self, events: int, began: float, ended: float, *, differed: bool) -> None:
        """A look is done, with *events* counted when it began."""
        self.failing = False
        self._seen = events
        self._events = max(self._events, events)
        self._first = ended
        self._in_a_row = self._in_a_row + 1 if differed else 0
        took = ended - began
        self._earliest = ended + (_SPACED if self._in_a_row >= _IN_A_ROW else took / _SHARE if not differed else 0)
        self._regular = ended + max(_REGULAR, took / _REGULAR_SHARE)

    def failed(self, now: float) -> None:
        """A look could not be done."""
        self.failing = True
        self._earliest = self._regular = now + _AGAIN


class AgentStep(IntEnum):
    """The steps of a turn, in their order."""

    READ_RECORD = auto()
    """Follow the record, and take the claim if it is free."""
    START_TASKS = auto()
    """Start what goes on beside the turns."""
    DECIDE = auto()
    """Decide about slots whose health has changed, or who are under way, and change the switch."""
    RECORD_KEPT = auto()
    """Record what was decided while the record could not be written."""
    ADVANCE = auto()
    """End maintenance whose time is over, and advance what is gradual."""
    LOOK = auto()
    """Compare the whole switch with the record."""
    KEEP_PROBE_PORT = auto()
    """Set the port of probes up again, where a look has put it back."""
    REMOVE_MIRRORS = auto()
    """Remove mirrors that a capture has left."""
    RECORD_FAILURES = auto()
    """Record which checks fail again and again."""


_WITHOUT_SWITCH = (AgentStep.LOOK, AgentStep.KEEP_PROBE_PORT)
"""Steps that are tried though another one found the switch away: a look says so, and it needs less than others."""


@dataclass
class AgentState:
    """What the agent knows of its own work. Times are in seconds on the clock of its event loop."""

    is_following: bool = False
    """Whether there is a state that it follows."""
    has_claim: bool = False
    is_standing_by: bool = False
    """Whether another agent had the claim at the last reading, so that this one has nothing to do but to read the record."""
    tasks_started: bool = False
    taken_over: bool = False
    """Whether it is known what an earlier agent could not record."""

    done: AgentStep | None = None
    """The last step of the present turn that was done, or tried."""
    unread: bool = False
    """Whether the record could not be followed in the present turn."""
    away: bool = False
    """Whether a step of the present turn found the switch away."""
    paused_until: float = -inf
    """Until when the agent pauses, since a turn has failed."""
    ticked: float = -inf
    """When what is under way became due."""

    read_first: bool = False
    """Whether the record is to be read before what is due is done."""
    read_at: float = -inf
    """When the record was read last."""
    record: BridgeRecord | None = None
    overlay: Overlay = NO_OVERLAY
    """The overlay of the record, with what could not be written yet."""
    captured: bool = False
    """Whether the record has a capture, whose mirrors may be left."""
    timed: bool = False
    """Whether maintenance in the record ends or goes on now."""
    stepped: float = -inf
    """When maintenance was advanced last."""

    due: set[str] = field(default_factory=set)
    """Names of slots to decide about now (`slots_name`)."""
    changed: float | None = None
    """When health changed first of what is due."""
    decision: str = ""
    """The id of the decision about what is due, once health has changed."""
    turned: dict[str, str] = field(default_factory=dict)
    """The ids of checks that have turned, by slots of which nothing was changed yet: others have to answer first."""
    under_way: set[str] = field(default_factory=set)
    """Names of slots about which more is to be decided soon: a backend is coming back, or unhealthy and in service."""

    looks: LookTimes = field(default_factory=LookTimes)
    busy_since: float | None = None
    """When others began to change the bridge, which puts looks off."""
    differences: int = 0
    """Flows, groups and settings that were not as applied."""

    @property
    def is_acting(self) -> bool:
        """Whether this agent is the one that acts on the switch, as far as is known."""
        return not self.is_standing_by

    def begin_turn(self, now: float) -> None:
        """Begin a turn. What is under way becomes due once a second, also where something wakes the agent all the time."""
        self.done, self.unread, self.away = None, False, False
        if now >= self.ticked + TICK:
            self.ticked = now
            self.due |= self.under_way

    def failed(self, step: AgentStep, *, away: bool) -> None:
        """A step has failed; *away*: since the switch, or OVSDB, cannot be reached."""
        self.unread = self.unread or step is AgentStep.READ_RECORD
        self.away = self.away or away

    def turn_due(self, slots: Collection[str], now: float, *, ill: bool, new_id: Callable[[], str]) -> None:
        """A check of these slots has turned. The decision that is due has the id of the first one, else a *new_id*.

        One that is *ill* joins a check of the same slots that has turned before and led to nothing yet.
        """
        pending = next((self.turned[name] for name in slots if name in self.turned), "") if ill else ""
        self.decision = self.decision or pending or new_id()
        self.changed = self.changed or now
        self.due.update(slots)
        self.turned |= dict.fromkeys(slots, self.decision)

    def take_due(self) -> tuple[set[str], str]:
        """Take what is due, and the id of the decision about it; empty where health has not changed."""
        due, self.due = self.due, set()
        decision, self.decision = self.decision, ""
        return due, decision or next((self.turned[name] for name in due if name in self.turned), "")

    def put_back(self, due: set[str], decision: str) -> None:
        """Decide about it again, as nothing came of it."""
        self.due |= due
        self.decision = self.decision or decision  # a check that turned meanwhile has been given another


@dataclass(frozen=True)
class NextWork:
    """The *step* to do now. None: wait until *until*, or until something wakes the agent, if it may; then begin a turn.

    A wait that nothing ends is a pause: what comes next is to be asked again after it.
    """

    step: AgentStep | None
    until: float
    can_wake: bool = True


def next_work(state: AgentState, now: float) -> NextWork:
    """Return what the agent does next."""
    for step in AgentStep:
        if (state.done is None or step > state.done) and _is_due(step, state, now):
            return NextWork(step, now)
    if now < state.paused_until:
        return NextWork(None, state.paused_until, can_wake=False)
    if state.is_following and state.is_acting:
        return NextWork(None, min(now + TICK, max(now, state.looks.due)))
    return NextWork(None, now + TICK)


def _is_due(step: AgentStep, state: AgentState, now: float) -> bool:
    """Whether a step that the present turn has not come to yet is to be done in it."""
    if step is AgentStep.READ_RECORD:
        fresh = not state.read_first and now < state.read_at + TICK
        decides = bool(state.due) and state.has_claim and state.is_following and state.is_acting
        return not (fresh and decides)  # what is due comes first
    if state.unread or not state.is_following or not state.is_acting:
        return False
    if state.away and step not in _WITHOUT_SWITCH:
        return False
    match step:
        case AgentStep.START_TASKS:
            return not state.tasks_started
        case AgentStep.DECIDE:
            return bool(state.due)
        case AgentStep.ADVANCE:
            return state.timed and now >= state.stepped + TICK
        case AgentStep.LOOK:
            return now >= state.looks.due
        case AgentStep.REMOVE_MIRRORS:
            return state.captured
        case _:
            return True
