"""What the agent tells of its work. This one keeps nothing: that of metrics/agent.py does, where metrics are wanted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dnsteer.spec.model.spec import Spec
from dnsteer.status.agent_knowledge import Trouble, UnannouncedVip
from dnsteer.switch.state import AppliedState, BridgeRecord

Check = tuple[str, str, str]
"""Pool, backend and kind of check."""
Duration = Literal["decision_wait", "effect", "loop", "look"]


@dataclass(frozen=True)
class Known:
    """What the agent works with: its bridge, the state that is applied and its spec."""

    bridge: str
    state: AppliedState
    spec: Spec


class Recorder:
    """Takes notice of what the agent does, on its event loop."""

    def tell(self, bridge: str) -> Any:
        """What is known of a bridge, as the control socket tells it, by any thread; None where nothing is, or of another
        bridge than the agent's.
        """
        return None

    def bridge_is(self, name: str, *, held: bool, switch: str = "") -> None:
        """The agent is that of this bridge, and acts or stands by. *switch*: what the record calls the switch."""

    def adopted(self, known: Known, checks: Iterable[Check]) -> None:
        """Another state is applied, with these checks, one for each target."""

    def followed(self, record: BridgeRecord, decision: str = "") -> None:
        """The record was read; *decision* is the one that led to its overlay last, where that is known."""

    def checked(self, check: Check, took: float, *, good: bool, decision: str = "") -> None:
        """A check of a backend has a result after *took* seconds, which led to a decision."""

    def turned(
        self, check: Check, *, healthy: bool, why: str = "", services: tuple[str, ...] = (), at: str = ""
    ) -> None:
        """A target, by a *check* *at* an address, has become healthy, or unhealthy, and why: for these services alone, such
        as `853/tcp`; the empty one, or none: for all."""

    def panicked(self, pool: str, *, panics: bool, decision: str = "") -> None:
        """A pool went into panic, or out of it, by a decision."""

    def panics_for(self, pool: str, services: tuple[str, ...]) -> None:
        """The services for which a pool is in panic, such as `853/tcp`; the empty one: all without slots of their own."""

    def kept(self, pool: str, backends: Collection[str]) -> None:
        """These backends of a pool fail, and stay in service only since too few others pass (`keep_at_least`)."""

    def bears(self, metric: Mapping[tuple[str, str], float]) -> None:
        """By the metrics that load is balanced by, pools and backends bear so much; of all others nothing is known."""

    def announces(self, vips: Mapping[str, bool], held: Mapping[str, float]) -> None:
        """These VIPs are announced to routers, or withdrawn; all others are not to be announced. Those that work, but are
        *held* back, are so until then, in seconds of Unix time."""

    def unannounced(self, vips: Mapping[str, UnannouncedVip]) -> None:
        """These VIPs are to be announced and are not, and why; all others are, or need not be."""

    def troubled(self, trouble: Trouble) -> None:
        """Something does not work, such as BIRD. It stays so until it is relieved."""

    def relieved(self, about: str) -> None:
        """It works again."""

    def role(self, *, standby: bool) -> None:
        """The switch is on standby, or active."""

    def moved(self, slots: int) -> None:
        """The agent has moved so many slots."""

    def looked(self, flows: int, settings: int, foreign: int, *, repaired: bool) -> None:
        """A look at the switch has found so many differences and flows of others."""

    def took(self, what: Duration, seconds: float, decision: str = "") -> None:
        """Something took so long, for a decision if it was for one."""

    def failed(self, why: str = "") -> None:
        """Something could not be done on the switch, and why."""

    def defect(self, part: str) -> None:
        """A part of the agent has failed in a way that nobody foresaw, and is tried again."""

    def unrecorded(self, now: bool) -> None:
        """Whether flows have decisions about health that the record could not be given."""
