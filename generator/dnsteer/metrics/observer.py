# SPDX-License-Identifier: Apache-2.0
"""Observers of the agent: what it does is reported once to all of them, the log, the metrics, and the snapshots of pages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from dnsteer.deploy.spec_differences import entries_text
from dnsteer.events.event import EventLevel, EventName
from dnsteer.slots.maintenance import FoundNeighbor
from dnsteer.spec.model.spec import Spec
from dnsteer.status.agent_knowledge import UnannouncedPrefix, UnannouncedVip
from dnsteer.status.bonds import BondView
from dnsteer.status.kept_connections import KeptConnections
from dnsteer.switch.state import AppliedState, BridgeRecord

if TYPE_CHECKING:
    from dnsteer.deploy.overlay_change import OverlayChange

Check = tuple[str, str, str]
"""Pool, backend and kind of check."""
Duration = Literal["decision_wait", "effect", "loop"]
Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class AppliedBridge:
    """A bridge with the state that is applied to it, and the spec of that state."""

    bridge: str
    state: AppliedState
    spec: Spec


@dataclass(frozen=True)
class CheckTurn:
    """A target has become healthy, or unhealthy, and *why*: the *check* of it *at* an address.

    *services* are those that it is for alone, such as `853/tcp`; the empty one, or none: all. The result came after *took*
    seconds and led to the *decision*.
    """

    check: Check
    healthy: bool
    why: str = ""
    services: tuple[str, ...] = ()
    at: str = ""
    took: float = 0.0
    decision: str = ""


@dataclass(frozen=True)
class PanicChange:
    """The slots of a pool, or of its *service* alone, went into panic, or out of it.

    Then the *backends* of them fail, *stay* in service all the same, or pass and are *idle*, since people have them out.
    """

    service: str
    begins: bool
    backends: tuple[str, ...] = ()
    stay: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeptChange:
    """Of a pool, or of its *service* alone, other *backends* than before stay in service for *keep_at_least* only."""

    service: str
    keep_at_least: int
    backends: tuple[str, ...]


@dataclass(frozen=True)
class SwitchInspection:
    """The result of an inspection of the switch: what differs in words, what is only warned of, and the flows of others.

    *flows* is how many flows and groups differ, *settings* how many other things. Tables that an *other_version* of dnsteer
    made are not compared.
    """

    words: tuple[str, ...] = ()
    flows: int = 0
    settings: int = 0
    warnings: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    other_version: str = ""


@dataclass(frozen=True)
class ListChange:
    """A file of access lists has changed: the entries that it has more, and those that it has no longer, of so many now."""

    name: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    entries: int

    @property
    def text(self) -> str:
        """In words, with the first entries."""
        return f"{self.name}: {entries_text(self.added, self.removed) or 'its entries are in another order'}"


class AgentObserver:
    """Callbacks for what the agent does, on its event loop. This class ignores all.

    A callback that means a trouble calls `report_trouble` or `end_trouble`, for all observers alike. *what* names the
    trouble, such as `the balance`; reporting the same again changes nothing.
    """

    def say(self, text: str, event: EventName = "progress", level: EventLevel = "info", /, **fields: object) -> None:
        """Log a line that no other callback is about. By any thread."""

    def report_trouble(self, what: str, said: str, level: Severity = "warning") -> None:
        """A trouble has begun; *said* is its text. It lasts until it ends or is forgotten."""

    def end_trouble(self, what: str, said: str) -> None:
        """A trouble has ended; *said* is logged if there was one."""

    def forget_troubles(self, *begins: str) -> None:
        """Drop the troubles whose names begin so, without a word in the log."""

    def claim_changed(self, name: str, *, held: bool, switch: str = "") -> None:
        """The agent's claim of a bridge: *held*, it acts; else it stands by. *switch* is its name in the record."""

    def adopted(self, known: AppliedBridge, checks: Sequence[Check], failing: Sequence[CheckTurn] = ()) -> None:
        """Another state is applied, with these checks, one for each target. Those that are *failing* did so before."""

    def followed(self, record: BridgeRecord, decision: str = "") -> None:
        """The record was read; *decision* is the one that led to its overlay last, where that is known."""

    def checked(self, check: Check, took: float, *, good: bool, decision: str = "") -> None:
        """A check of a backend has a result after *took* seconds, which led to a decision."""

    def turned(self, turn: CheckTurn) -> None:
        """A check has turned."""

    def panicked(
        self, pool: str, services: tuple[str, ...], decision: str = "", change: PanicChange | None = None
    ) -> None:
        """The services for which a pool is in panic now, such as `853/tcp`; the empty one: all without slots of their own.

        *change* is what a *decision* changed of that; None where another state is followed, without a decision.
        """

    def kept(self, pool: str, backends: Collection[str], decision: str = "", change: KeptChange | None = None) -> None:
        """These backends of a pool fail, and stay in service only since too few others pass (`keep_at_least`).

        *change* as in `panicked`.
        """

    def overlay_changed(self, change: OverlayChange, decision: str, seconds: float) -> None:
        """The agent has changed the overlay by a decision; until flows and record had it took so many *seconds*."""

    def neighbor_moved(self, title: str, found: FoundNeighbor, decision: str) -> None:
        """A neighbour has another MAC address, by a decision, or the first one: flows and record have it."""

    def neighbors_heard(self, answers: Mapping[str, bool]) -> None:
        """Whether the neighbours that are asked for their MAC addresses answer, by address; all of them."""

    def connections_counted(self, found: KeptConnections | None) -> None:
        """The connections that the tracker keeps were counted; None: it keeps none, or they cannot be counted."""

    def bonds_seen(self, bonds: Sequence[BondView]) -> None:
        """The bonds of uplinks as they are now: called at first, and when a link or the active member changes."""

    def drain_ended(self, pool: str, backend: str) -> None:
        """A drained backend has lost the last connection that was kept."""

    def load_measured(self, metric: Mapping[tuple[str, str], float]) -> None:
        """The load of backends, by pool and name, in the metric by which it is balanced; that of all others is unknown."""

    def announcements_changed(
        self,
        vips: Mapping[str, bool],
        held: Mapping[str, float],
        unannounced: Mapping[str, UnannouncedVip],
        prefixes: Mapping[str, UnannouncedPrefix | None],
    ) -> None:
        """These VIPs are announced to routers, or withdrawn; all others are not to be announced. Those that work, but are
        *held* back, are so until then, in seconds of Unix time. Those *unannounced* should be announced, and why not; so of
        *prefixes*, with None for those that are announced."""

    def role(self, *, standby: bool) -> None:
        """The record says that the switch is on standby, or active."""

    def inspected(self, found: SwitchInspection, *, repaired: bool, seconds: float, decision: str = "") -> None:
        """The switch was inspected, in so many *seconds*; what was found was *repaired* by a decision, if it was."""
        if found.other_version:
            said = f"dnsteer {found.other_version} made the tables; apply the spec to have them watched"
            self.report_trouble("the version", said)
        else:
            self.end_trouble("the version", "the tables are watched")

    def lists_changed(self, changes: Sequence[ListChange], state: int, decision: str, seconds: float) -> None:
        """The agent has applied changes of files of access lists as a *state*, by a decision, in so many *seconds*."""

    def lists_wrong(self, said: str) -> None:
        """A change of the files of access lists is not applied, as is *said*; empty: what is applied is what they hold."""
        if said:
            self.report_trouble("the access lists", said)
        else:
            self.end_trouble("the access lists", "the access lists are right again")

    def took(self, what: Duration, seconds: float, decision: str = "") -> None:
        """Something took so long, for a decision if it was for one."""

    def failed(self, why: str) -> None:
        """Something could not be done on the switch, and why."""

    def defect(self, part: str, said: str = "") -> None:
        """A part of the agent has failed in a way that nobody foresaw, and is tried again. Without *said* that is only
        counted: it is told otherwise."""
        if said:
            self.report_trouble(f"the part {part}", said, "error")

    def unrecorded(self, said: str) -> None:
        """Flows have decisions about health that the record could not be given, as is *said*; empty: the record has all."""
        if said:
            self.report_trouble("the record", said, "error")
        else:
            self.end_trouble("the record", "the record has all that was decided")


class Observers(AgentObserver):
    """Several observers as one. All are called, whatever one raises; the first exception is raised after that."""

    def __init__(self, *observers: AgentObserver) -> None:
        self._observers = observers


def _notify_all(name: str) -> Callable[..., None]:
    def notify(self: Observers, *args: Any, **named: Any) -> None:
        failed: Exception | None = None
        for observer in self._observers:
            try:
                getattr(observer, name)(*args, **named)
            except Exception as err:  # noqa: BLE001  raised below
                failed = failed or err
        if failed is not None:
            raise failed

    return notify


CALLBACKS = tuple(name for name in vars(AgentObserver) if not name.startswith("_"))
"""The methods of an observer."""
for _name in CALLBACKS:
    setattr(Observers, _name, _notify_all(_name))
