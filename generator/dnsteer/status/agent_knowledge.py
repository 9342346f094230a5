# SPDX-License-Identifier: Apache-2.0
"""What the agent of a bridge knows, and whether there is an agent that can be asked.

The agent tells it at its control socket as JSON (`TargetSwitch.ask_agent`), from memory, whatever else it does. The other
sign of an agent is its claim, a lock of OVSDB's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.spec.announced import announced_vips
from dnsteer.spec.model.spec import Spec
from dnsteer.switch.agent_record import note_of
from dnsteer.switch.state import BridgeRecord
from dnsteer.switch.tools import SwitchError

Presence = Literal["acts", "silent", "absent", "hidden", "remote", "unknown"]
"""acts: it answers. silent: it does not, though its socket is open. absent: no agent has the bridge's claim. hidden: one has
it, and cannot be asked. remote: one has it, and its socket is on another machine. unknown: that could not be found out."""


WARNS = "-warn"
"""How the kind of a check ends that only warns."""


@dataclass(frozen=True)
class FailingCheck:
    """A check that a backend fails, with its last failure. *services*: only of these, such as `853/tcp`; empty: of all."""

    pool: str
    backend: str
    check: str
    why: str
    since: datetime
    services: tuple[str, ...] = ()

    @property
    def only_warns(self) -> bool:
        """Whether it leaves the backend in service."""
        return self.check.endswith(WARNS)


@dataclass(frozen=True)
class PoolPanic:
    """A pool that keeps backends in service although they fail. *services*: only for these; empty: for all."""

    pool: str
    since: datetime
    decision: str = ""
    services: tuple[str, ...] = ()


@dataclass(frozen=True)
class UnannouncedVip:
    """A VIP that is to be announced by BGP and is not. *until* is when it may come back at the earliest, where it is held.

    *by_people*: it was asked for (`dnsteer withdraw`). *withdrawn*: the agent has withdrawn it; else BIRD does not have its
    routes, or it is not known yet whether it works.
    """

    vip: str
    why: str
    since: datetime
    until: datetime | None = None
    by_people: bool = False
    withdrawn: bool = True


@dataclass(frozen=True)
class UnannouncedPrefix:
    """A prefix that is to be announced by BGP and is not. *by_people*: they have withdrawn VIPs that it needs."""

    prefix: str
    why: str
    since: datetime
    by_people: bool = False


@dataclass(frozen=True)
class Trouble:
    """Something that does not work for the agent, such as BIRD, in words."""

    about: str
    text: str
    since: datetime
    level: Literal["error", "warning"] = "warning"


@dataclass(frozen=True)
class AgentKnowledge:
    """What an agent knows. *state* is the number of the state that it follows, 0 where it follows none."""

    state: int = 0
    failing: tuple[FailingCheck, ...] = ()
    panics: tuple[PoolPanic, ...] = ()
    unannounced: tuple[UnannouncedVip, ...] = ()
    unannounced_prefixes: tuple[UnannouncedPrefix, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    kept: tuple[str, ...] = ()
    """Failing backends (`POOL/BACKEND`) that stay in service only since too few others pass (`keep_at_least`)."""

    @cached_property
    def by_backend(self) -> Mapping[tuple[str, str], tuple[FailingCheck, ...]]:
        """The checks that fail, by pool and backend, without those that only warn."""
        found: dict[tuple[str, str], tuple[FailingCheck, ...]] = {}
        for check in (check for check in self.failing if not check.only_warns):
            key = check.pool, check.backend
            found[key] = (*found.get(key, ()), check)
        return found

    def reasons(self, pool: str, backend: str) -> str:
        """The last failures of a backend; empty where it fails no check."""
        return ", ".join(dict.fromkeys(check.why for check in self.by_backend.get((pool, backend), ())))

    def to_value(self) -> Any:
        """As JSON."""
        return _JSON.dump_python(self, mode="json")

    @staticmethod
    def from_value(value: object) -> AgentKnowledge:
        """Read what `to_value` made; of keys that are not known nothing is taken. Raises ValueError."""
        return _JSON.validate_python(value)


_JSON = TypeAdapter(AgentKnowledge)
NOTHING_KNOWN = AgentKnowledge()


@dataclass(frozen=True)
class AgentView:
    """The agent of a bridge as seen from outside. *needed*: the spec has what only an agent does. *why* says more."""

    presence: Presence
    needed: bool = False
    why: str = ""
    knowledge: AgentKnowledge | None = None

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        knows = self.knowledge.to_value() if self.knowledge is not None else None
        return {"presence": self.presence, "needed": self.needed, "reason": self.why or None, "knows": knows}


def view_agent(switch: TargetSwitch, record: BridgeRecord, spec: Spec | None) -> AgentView:
    """Ask the agent of the record's bridge what it knows. *spec* is the applied one, where it can be read."""
    bridge, needed = record.bridge, spec is not None and needs_agent(spec)
    answer = switch.ask_agent(bridge)
    if answer.value is not None:
        try:
            return AgentView("acts", needed, knowledge=AgentKnowledge.from_value(answer.value))
        except ValidationError as err:
            why = f"its answer is not understood: {err.errors()[0]['msg']}; is it another version of dnsteer?"
            return AgentView("hidden", needed, why)
    if answer.connected:
        return AgentView("silent", needed, answer.why)
    try:
        with switch.session() as session:
            claimed = session.is_claimed(bridge)
    except SwitchError as err:
        return AgentView("unknown", needed, str(err))
    if claimed and answer.remote:
        return AgentView("remote", needed, answer.why, _noted(record))
    return AgentView("hidden" if claimed else "absent", needed, answer.why)


def _noted(record: BridgeRecord) -> AgentKnowledge:
    """What the record has of what the agent knows."""
    try:
        return AgentKnowledge.from_value(note_of(record) or {})
    except ValidationError:
        return NOTHING_KNOWN  # it was changed by hand, or another version wrote it


def needs_agent(spec: Spec) -> bool:
    """Whether the spec has something that only an agent does: health checks, balance, or the announcement of VIPs."""
    return bool(announced_vips(spec)) or any(pool.health or pool.balance for pool in spec.pools.values())
