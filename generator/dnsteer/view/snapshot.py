# SPDX-License-Identifier: Apache-2.0
"""Snapshots of a switch, and the recorder that makes them of what the agent reports.

`dnsteer status` gets one by the control socket, and the console shows one. Each value is replaced as a whole and never
changed, so that any thread may read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from dnsteer.deploy.times import now
from dnsteer.metrics.observer import (
    AgentObserver,
    AppliedBridge,
    Check,
    CheckTurn,
    Duration,
    KeptChange,
    PanicChange,
    Severity,
    SwitchInspection,
)
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.model.spec import Vip
from dnsteer.status.agent_knowledge import (
    NOTHING_KNOWN,
    AgentKnowledge,
    FailingCheck,
    PoolPanic,
    Trouble,
    UnannouncedPrefix,
    UnannouncedVip,
)
from dnsteer.status.bonds import BondView
from dnsteer.status.kept_connections import KeptConnections
from dnsteer.switch.state import PENDING_KEY, BridgeRecord, DamagedError


@dataclass(frozen=True)
class StateSnapshot:
    """The applied state and the overlay on it, at a time."""

    known: AppliedBridge
    overlay: Overlay
    time: datetime
    decision: str = ""
    """The one that led to the overlay last, where that is known."""


@dataclass(frozen=True)
class DriftCounts:
    """Counts of the last inspection of the switch: differences of flows and of settings, and flows of others."""

    flows: int = 0
    settings: int = 0
    foreign: int = 0
    repaired: bool = True


@dataclass(frozen=True)
class SwitchSnapshot:
    """What the agent knows of the switch at a time. *applied* is None as long as no state is followed.

    *trouble* is why the agent cannot work on the switch, since *troubled*. *pending* is since when a change is begun and not
    ended. *agent* is what the agent knows beside all that.
    """

    started: datetime
    bridge: str = ""
    is_standby: bool = False
    applied: StateSnapshot | None = None
    record: BridgeRecord | None = None
    trouble: str = ""
    troubled: datetime | None = None
    pending: datetime | None = None
    drift: DriftCounts = field(default_factory=DriftCounts)
    agent: AgentKnowledge = NOTHING_KNOWN
    bonds: tuple[BondView, ...] = ()

    @property
    def vips(self) -> Mapping[str, Vip]:
        """The VIPs of the applied spec; none if it is not known."""
        return self.applied.known.spec.vips if self.applied is not None else {}

    @cached_property
    def panics(self) -> frozenset[str]:
        """The pools that are in panic."""
        return frozenset(panic.pool for panic in self.agent.panics)

    @cached_property
    def failing(self) -> Mapping[tuple[str, str], Mapping[str, str]]:
        """The last failures, by pool and backend, and by kind of check."""
        return {key: {c.check: c.why for c in checks} for key, checks in self.agent.by_backend.items()}


class SnapshotRecorder(AgentObserver):
    """Records what the agent reports. *changed* is called on the event loop when any of it changes."""

    def __init__(self, clock: Callable[[], datetime] = now) -> None:
        self.changed: Callable[[], None] = lambda: None
        self._clock = clock
        self.started = clock()
        self._applied: StateSnapshot | None = None
        self._followed: tuple[str, AppliedBridge | None, BridgeRecord | None] = ("", None, None)
        """The bridge, the state that is followed, and the record that was read last."""
        self._trouble: tuple[str, datetime | None] = ("", None)
        self._failed_now = False
        self._pending: datetime | None = None
        self._drift = DriftCounts()
        self._agent = NOTHING_KNOWN
        self._bonds: tuple[BondView, ...] = ()
        self._checks: frozenset[Check] = frozenset()
        self._failing_targets: dict[Check, dict[str, tuple[str, tuple[str, ...]]]] = {}
        """Of each check the targets that are unhealthy, the last one last: why, and for which services."""
        self._before: dict[Check, datetime] = {}
        """Since when checks failed when another state was adopted: those that go on failing did not begin anew."""
        self._is_standby = False

    def snapshot(self) -> SwitchSnapshot:
        """The snapshot of now."""
        bridge, _, record = self._followed
        applied = None if self._is_standby else self._applied
        return SwitchSnapshot(
            self.started,
            bridge,
            self._is_standby,
            applied,
            record,
            *self._trouble,
            self._pending,
            self._drift,
            self._agent,
            self._bonds,
        )

    def knowledge_of(self, bridge: str) -> Any:
        """The agent's knowledge of a bridge as a value for the control socket; None for another bridge than its own. By any
        thread."""
        if bridge != self._followed[0] or self._is_standby:
            return None
        why, since = self._trouble
        troubles = (
            (Trouble("switch", f"the switch stays as it is: {why}", since, "error"),) if since is not None else ()
        )
        return replace(self._agent, troubles=(*troubles, *self._agent.troubles)).to_value()

    def claim_changed(self, name: str, *, held: bool, switch: str = "") -> None:
        """See AgentObserver."""
        _, known, record = self._followed
        self._followed = (name, known, record) if held else (name, None, None)
        if self._is_standby is held:
            self._is_standby = not held
            self.changed()

    def adopted(self, known: AppliedBridge, checks: Sequence[Check], failing: Sequence[CheckTurn] = ()) -> None:
        """See AgentObserver."""
        bridge, _, record = self._followed
        self._followed = bridge, known, record
        self._checks, self._failing_targets = frozenset(checks), {}
        self._before = {(one.pool, one.backend, one.check): one.since for one in self._agent.failing}
        panics = tuple(one for one in self._agent.panics if one.pool in known.spec.pools)
        self._know(state=known.state.number, failing=(), panics=panics)
        for turn in failing:
            self.turned(turn)

    def followed(self, record: BridgeRecord, decision: str = "") -> None:
        """See AgentObserver."""
        bridge, known, _ = self._followed
        try:
            overlay, number = record.overlay, record.number
        except DamagedError:
            return
        self._followed = bridge, known, record
        if known is None or known.state.number != number:
            return
        pending = (self._pending or self._clock()) if record.ids.get(PENDING_KEY) else None
        applied = self._applied
        if applied is None or applied.known is not known or applied.overlay != overlay:
            self._applied = StateSnapshot(known, overlay, self._clock(), decision)
            self.state_changed(self._applied)
        if self._applied is not applied or pending != self._pending:
            self._pending = pending
            self.changed()

    def state_changed(self, applied: StateSnapshot) -> None:
        """The overlay or the state that is applied has changed."""

    def turned(self, turn: CheckTurn) -> None:
        """See AgentObserver."""
        check = turn.check
        if check not in self._checks:
            return  # of a state that is no longer applied
        failing = self._failing_targets.setdefault(check, {})
        failing.pop(turn.at, None)
        if not turn.healthy:
            failing[turn.at] = turn.why, turn.services
        before = next((c for c in self._agent.failing if (c.pool, c.backend, c.check) == check), None)
        others = tuple(one for one in self._agent.failing if one is not before)
        if not failing:
            self._before.pop(check, None)
            self._know(failing=others)
            return
        of_it = [service for _why, each in failing.values() for service in each or [""]]
        alone = tuple(dict.fromkeys(of_it)) if all(of_it) else ()
        since = before.since if before is not None else self._before.get(check, self._clock())
        reason = next(reversed(failing.values()))[0]
        self._know(failing=(*others, FailingCheck(*check, reason, since, alone)))

    def panicked(
        self, pool: str, services: tuple[str, ...], decision: str = "", change: PanicChange | None = None
    ) -> None:
        """See AgentObserver."""
        before = next((one for one in self._agent.panics if one.pool == pool), None)
        panics = tuple(one for one in self._agent.panics if one is not before)
        if services:
            panic, alone = before or PoolPanic(pool, self._clock(), decision), services if all(services) else ()
            panics = (*panics, replace(panic, services=alone))
        self._know(panics=panics)

    def kept(self, pool: str, backends: Collection[str], decision: str = "", change: KeptChange | None = None) -> None:
        """See AgentObserver."""
        others = [name for name in self._agent.kept if name.partition("/")[0] != pool]
        self._know(kept=(*others, *(f"{pool}/{name}" for name in backends)))

    def connections_counted(self, found: KeptConnections | None) -> None:
        """See AgentObserver."""
        if found != self._agent.connections:
            self._know(connections=found)

    def bonds_seen(self, bonds: Sequence[BondView]) -> None:
        """See AgentObserver."""
        self._bonds = tuple(bonds)
        self.changed()

    def announcements_changed(
        self,
        vips: Mapping[str, bool],
        held: Mapping[str, float],
        unannounced: Mapping[str, UnannouncedVip],
        prefixes: Mapping[str, UnannouncedPrefix | None],
    ) -> None:
        """See AgentObserver."""
        if tuple(unannounced.values()) != self._agent.unannounced:
            self._know(unannounced=tuple(unannounced.values()))
        lacking = tuple(one for one in prefixes.values() if one is not None)
        if lacking != self._agent.unannounced_prefixes:
            self._know(unannounced_prefixes=lacking)

    def report_trouble(self, what: str, said: str, level: Severity = "warning") -> None:
        """See AgentObserver."""
        about = _about(what)
        before = next((one for one in self._agent.troubles if one.about == about), None)
        if before is None or before.text != said:
            others = tuple(one for one in self._agent.troubles if one is not before)
            self._know(troubles=(*others, Trouble(about, said, self._clock(), level)))

    def end_trouble(self, what: str, said: str) -> None:
        """See AgentObserver."""
        self._relieve(lambda about: about == _about(what))

    def forget_troubles(self, *begins: str) -> None:
        """See AgentObserver."""
        self._relieve(lambda about: about.startswith(tuple(map(_about, begins))))

    def _relieve(self, over: Callable[[str], bool]) -> None:
        left = tuple(one for one in self._agent.troubles if not over(one.about))
        if left != self._agent.troubles:
            self._know(troubles=left)

    def inspected(self, found: SwitchInspection, *, repaired: bool, seconds: float, decision: str = "") -> None:
        """See AgentObserver."""
        super().inspected(found, repaired=repaired, seconds=seconds, decision=decision)
        drift = DriftCounts(found.flows, found.settings, len(found.foreign), repaired)
        if drift != self._drift:
            self._drift = drift
            self.changed()

    def failed(self, why: str) -> None:
        """See AgentObserver."""
        self._failed_now = True
        before, since = self._trouble
        if why != before:
            self._trouble = why, since or self._clock()
            self.changed()

    def took(self, what: Duration, seconds: float, decision: str = "") -> None:
        """See AgentObserver. A turn of the loop in which nothing failed ends what troubled it."""
        if what != "loop":
            return
        if self._trouble[0] and not self._failed_now:
            self._trouble = "", None
            self.changed()
        self._failed_now = False

    def _know(self, **changes: Any) -> None:
        self._agent = replace(self._agent, **changes)
        self.changed()


def _about(what: str) -> str:
    """What a trouble is about, as it is shown."""
    return what.removeprefix("the ")
