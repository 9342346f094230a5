"""What is known of a switch at a time: the applied state, maintenance, what the agent knows, and what differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from dnsteer.metrics.observer import Known
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.model.spec import Vip
from dnsteer.status.agent_knowledge import NOTHING_KNOWN, AgentKnowledge
from dnsteer.switch.state import BridgeRecord


@dataclass(frozen=True)
class Side:
    """The applied state and the overlay on it, at a time."""

    known: Known
    overlay: Overlay
    time: datetime
    decision: str = ""
    """The one that led to the overlay last, where that is known."""


@dataclass(frozen=True)
class DriftCounts:
    """What the last look at the switch found: differences of flows and of settings, and flows of others."""

    flows: int = 0
    settings: int = 0
    foreign: int = 0
    repaired: bool = True


@dataclass(frozen=True)
class Seen:
    """What is known at a time. *now* is None as long as no state is followed.

    *trouble* is why the agent cannot work on the switch, since *troubled*. *pending* is since when a change is begun and not
    ended. *agent* is what the agent knows beside all that.
    """

    started: datetime
    bridge: str = ""
    stands_by: bool = False
    now: Side | None = None
    record: BridgeRecord | None = None
    trouble: str = ""
    troubled: datetime | None = None
    pending: datetime | None = None
    drift: DriftCounts = field(default_factory=DriftCounts)
    agent: AgentKnowledge = NOTHING_KNOWN

    @property
    def vips(self) -> Mapping[str, Vip]:
        """The VIPs of the applied spec; none if it is not known."""
        return self.now.known.spec.vips if self.now is not None else {}

    @cached_property
    def panics(self) -> frozenset[str]:
        """The pools that are in panic."""
        return frozenset(panic.pool for panic in self.agent.panics)

    @cached_property
    def failing(self) -> Mapping[tuple[str, str], Mapping[str, str]]:
        """The last failures, by pool and backend, and by kind of check."""
        return {key: {c.check: c.why for c in checks} for key, checks in self.agent.by_backend.items()}
