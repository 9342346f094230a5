"""What the console takes notice of in the agent's work, beside the metrics: who fails and why, panics, drift, changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from dnsteer.console.seen import DriftCounts, Seen, Side
from dnsteer.deploy.times import now
from dnsteer.metrics.agent import AgentMetrics
from dnsteer.metrics.recorder import Check, Duration, Known
from dnsteer.switch.state import PENDING_KEY, BridgeRecord, DamagedError

_MAX_STEPS = 1000
"""Steps that wait to be read; older ones are then left out, as the first and the last tell what has changed."""


class ConsoleRecorder(AgentMetrics):
    """Keeps what the console shows. *changed* is called on the event loop when any of it does."""

    def __init__(self, clock: Callable[[], datetime] = now) -> None:
        super().__init__()
        self.changed: Callable[[], None] = lambda: None
        self._clock = clock
        self.started = clock()
        self._side: Side | None = None
        self._steps: list[Side] = []
        self._trouble, self._troubled = "", None  # type: tuple[str, datetime | None]
        self._failed_now = False
        self._pending: datetime | None = None
        self._drift = DriftCounts()
        self._in_panic: dict[str, str] = {}
        self._whys: dict[Check, str] = {}
        self._stands_by = False

    def seen(self) -> Seen:
        """What is known now."""
        failing: dict[tuple[str, str], dict[str, str]] = {}
        for (pool, backend, check), why in self._whys.items():
            failing.setdefault((pool, backend), {})[check] = why
        side = None if self._stands_by else self._side
        return Seen(
            self.started, self.bridge, self._stands_by, side, self.record, self._trouble, self._troubled, self._pending,
            self._drift, frozenset(self._in_panic), failing, dict(self._in_panic),
        )  # fmt: skip

    def steps(self) -> list[Side]:
        """The sides since the last call, each another than the one before it."""
        found, self._steps = self._steps, []
        return found

    def bridge_is(self, name: str, *, held: bool) -> None:
        """See Recorder."""
        super().bridge_is(name, held=held)
        if self._stands_by is held:
            self._stands_by = not held
            self.changed()

    def adopted(self, known: Known, checks: Iterable[Check]) -> None:
        """See Recorder."""
        super().adopted(known, checks)
        self._whys = {}
        self._in_panic = {pool: id for pool, id in self._in_panic.items() if pool in known.spec.pools}
        self.changed()

    def followed(self, record: BridgeRecord, decision: str = "") -> None:
        """See Recorder."""
        super().followed(record, decision)
        known = self.known
        try:
            overlay = record.overlay
            same = known is not None and known.state.number == record.number
        except DamagedError:
            return
        if known is None or not same:
            return
        pending = (self._pending or self._clock()) if record.ids.get(PENDING_KEY) else None
        side = self._side
        if side is None or side.known is not known or side.overlay != overlay:
            self._side = Side(known, overlay, self._clock(), decision)
            self._steps = [*self._steps[-_MAX_STEPS:], self._side]
        if self._side is not side or pending != self._pending:
            self._pending = pending
            self.changed()

    def turned(self, check: Check, *, healthy: bool, why: str = "") -> None:
        """See Recorder."""
        super().turned(check, healthy=healthy)
        if self._unhealthy[check]:
            self._whys[check] = why or self._whys.get(check, "")
        else:
            self._whys.pop(check, None)
        self.changed()

    def panicked(self, pool: str, *, panics: bool, decision: str = "") -> None:
        """See Recorder."""
        super().panicked(pool, panics=panics, decision=decision)
        if panics:
            self._in_panic.setdefault(pool, decision)
        else:
            self._in_panic.pop(pool, None)
        self.changed()

    def looked(self, flows: int, settings: int, foreign: int, *, repaired: bool) -> None:
        """See Recorder."""
        super().looked(flows, settings, foreign, repaired=repaired)
        drift = DriftCounts(flows, settings, foreign, repaired)
        if drift != self._drift:
            self._drift = drift
            self.changed()

    def failed(self, why: str = "") -> None:
        """See Recorder."""
        super().failed(why)
        self._failed_now = True
        if why != self._trouble:
            self._troubled = self._troubled or self._clock()
            self._trouble = why
            self.changed()

    def took(self, what: Duration, seconds: float, decision: str = "") -> None:
        """See Recorder. A turn of the loop in which nothing failed ends what troubled it."""
        super().took(what, seconds, decision)
        if what != "loop":
            return
        if self._trouble and not self._failed_now:
            self._trouble, self._troubled = "", None
            self.changed()
        self._failed_now = False
