# SPDX-License-Identifier: Apache-2.0
"""The status of a switch at one time, and the part of it that is about some of its pools, backends and VIPs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

from dnsteer.deploy.times import now
from dnsteer.spec.worker_names import host_of, names_of
from dnsteer.status.agent_knowledge import AgentView
from dnsteer.status.bonds import BondView
from dnsteer.status.icmp_errors import PassedErrors
from dnsteer.status.kept_connections import KeptConnections
from dnsteer.status.limit_drops import LimitDrops
from dnsteer.status.limits import LimitView
from dnsteer.status.lists import ListView
from dnsteer.status.pools import PoolView
from dnsteer.status.rates import Rates
from dnsteer.status.record import RecordReading
from dnsteer.status.vips import VipView
from dnsteer.switch.tools import SwitchError

if TYPE_CHECKING:
    from dnsteer.spec.loaded import Loaded
    from dnsteer.status.extension_view import ExtensionView
    from dnsteer.status.verify import Drift


TablesMatch = Literal["recorded", "pending", "other"]
"""Whose number the tables carry: the record's, that of a change that was cut off, or neither's."""


@dataclass
class Status:
    """The status of a switch.

    *tables_match* is None when the tables could not be asked. *drift* is None when it was not looked for, and has at most
    MAX_LISTED_DRIFT of *drift_count* differences. *errors* are what could not be read or checked, with the record's damage.
    *loaded* is the applied spec, None if there is none that this version accepts.
    """

    reading: RecordReading
    unreachable: str = ""
    tables_match: TablesMatch | None = None
    rates: Rates = field(default_factory=Rates)
    vips: list[VipView] = field(default_factory=list)
    pools: list[PoolView] = field(default_factory=list)
    lists: list[ListView] = field(default_factory=list)
    limits: list[LimitView] = field(default_factory=list)
    drift: list[Drift] | None = None
    drift_count: int | None = None
    drift_of_others: int = 0
    """How many of the differences `dnsteer restore` leaves, since they are not dnsteer's."""
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    extension: ExtensionView | None = None
    loaded: Loaded | None = None
    """The spec that is applied, where it can be read."""
    role: dict[str, str] | None = None
    """As `dnsteer role --json` has it; None where the record of it is damaged; a warning says so."""
    withdrawn: dict[str, dict[str, str | None]] | None = None
    """The VIPs that people have withdrawn from routing."""
    agent: AgentView = field(default_factory=lambda: AgentView("unknown"))
    connections: KeptConnections | None = None
    """The connections that the tracker keeps; None where it keeps none, or they cannot be counted: a warning says so."""
    bonds: tuple[BondView, ...] = ()
    """The bonds of uplinks, with the links of their members."""
    errors_passed: PassedErrors | None = None
    """The ICMP errors that backends got; None where they get none, or the switch could not be asked."""
    limited: list[LimitDrops] = field(default_factory=list)
    """The limits of VIPs that dropped packets in the interval of the rates, those first that dropped most."""
    on_purpose: list[str] = field(default_factory=list)
    """Those of the warnings that are of what people did on purpose."""
    of_others: list[str] = field(default_factory=list)
    """Those of the warnings that are of settings of others."""

    @property
    def different(self) -> bool:
        """Whether the switch differs from its record."""
        tables_differ = self.tables_match not in (None, "recorded")
        strange = self.extension is not None and not self.extension.ok
        return bool(self.drift_count) or self.reading.cut_off or tables_differ or strange or self.reading.record.waits

    @property
    def interrupted(self) -> str:
        """The pending change in words; empty if there is none."""
        if not self.reading.cut_off:
            return ""
        pending, record = self.reading.pending, self.reading.record
        what = "a change"
        if pending is not None and self.reading.state is not None:
            same = pending.number == self.reading.state.number
            what = "a maintenance change" if same else f"a change to state {pending.number}"
        tables = {
            "recorded": "the tables do not have it yet",
            "pending": "the tables already have it, unlike what is shown here",
            "other": "the tables are neither those before the change nor those after it",
            None: "the tables could not be read to see how far it got",
        }[self.tables_match]
        return f"{what} of bridge {record.bridge} is pending: {tables}; the next command that changes the switch settles it"

    def as_json(self) -> dict[str, Any]:
        """As a JSON object. Without what needs attention (`view/status_attention.py`)."""
        record = self.reading.record
        file = self.reading.state.file if self.reading.state is not None else ""
        return {
            "bridge": record.bridge,
            "switch": record.name or None,
            "state": self._state_as_json(),
            "reachable": not self.unreachable,
            "reason": self.unreachable or None,
            "tables": self.tables_match,
            "flow_restore_wait": record.waits,
            "interrupted": self._interrupted_as_json(),
            "interval": None if self.rates.seconds is None else round(self.rates.seconds, 3),
            "vips": [v.as_json() for v in self.vips],
            "pools": [p.as_json() for p in self.pools],
            "access": [one.as_json() for one in self.lists],
            "limits": [one.as_json() for one in self.limits],
            "limited": [each.as_json() for each in self.limited],
            "overlay": self._overlay_as_json(),
            "denials": self._denials_as_json(),
            **({"bonds": [bond.as_json() for bond in self.bonds]} if self.bonds else {}),
            **({} if self.errors_passed is None else {"icmp_errors": self.errors_passed.as_json()}),
            **self._neighbors_as_json(),
            **self._connections_as_json(),
            **({} if self.extension is None else {"extension": self.extension.as_json()}),
            "agent": self.agent.as_json(),
            "role": self.role,
            "withdrawn": self.withdrawn,
            "drift": None if self.drift is None else [d.as_json(file) for d in self.drift],
            "drift_count": self.drift_count,
            "warnings": self.warnings,
            "errors": self.errors,
        }

    def _state_as_json(self) -> dict[str, Any] | None:
        state = self.reading.state
        if state is None:
            return None
        return {
            "state": state.number,
            "applied": state.time,
            "by": state.by,
            "note": state.note,
            "spec_file": state.file,
            "digest": state.digest,
            "version": state.version,
            "decision": state.decision or None,
        }

    def _interrupted_as_json(self) -> dict[str, Any] | None:
        if not self.reading.cut_off:
            return None
        pending = self.reading.pending
        return {"state": pending.number if pending else None, "tables": self.tables_match, "text": self.interrupted}

    def _neighbors_as_json(self) -> dict[str, Any]:
        """The MAC addresses of neighbours that were found out; nothing where none are."""
        found = self.reading.overlay.neighbors if self.reading.overlay is not None else None
        return {"neighbors": [asdict(each) for each in found]} if found is not None else {}

    def _connections_as_json(self) -> dict[str, Any]:
        """The connections that are kept, and how old the count is in seconds; nothing where there is none."""
        found = self.connections
        return {} if found is None else {"connections": {**found.as_json(), "age": round(found.age(now()), 1)}}

    def _overlay_as_json(self) -> list[dict[str, Any]] | None:
        if self.reading.overlay is None:
            return None
        time_now, workers = now(), self.reading.state.workers if self.reading.state else {}
        return [
            {
                **asdict(entry),
                "until": entry.until or None,
                "gone": entry.gone / 1000,
                "overdue": entry.expired(time_now),
                "decision": entry.decision or None,
                "host": host_of(workers, entry.pool, entry.backend),
            }
            for entry in self.reading.overlay
        ]

    def _denials_as_json(self) -> list[dict[str, Any]] | None:
        if self.reading.overlay is None:
            return None
        time_now = now()
        return [
            {
                **asdict(denial),
                "port": denial.port or None,
                "vip": denial.vip or None,
                "until": denial.until or None,
                "seconds_left": denial.seconds_left(time_now),
                "overdue": denial.expired(time_now),
                "decision": denial.decision or None,
            }
            for denial in self.reading.overlay.denials
        ]


def narrow(status: Status, names: Sequence[str]) -> Status:
    """The status with the named pools, their VIPs, and the named VIPs with their pools; of POOL/BACKEND that backend alone.

    Without *names* all of it. What is about the switch as a whole stays. Raises SwitchError for a name that there is not.
    """
    if not names:
        return status
    chosen = _choose(status, names)
    whole = chosen.pools | {vip.pool for vip in status.vips if vip.name in chosen.vips}
    in_part = {pool for pool, _ in chosen.backends} - whole
    pools = list[PoolView]()
    for pool in status.pools:
        if pool.name in whole:
            pools.append(pool)
        elif pool.name in in_part:
            backends = tuple(b for b in pool.backends if (pool.name, b.name) in chosen.backends)
            pools.append(replace(pool, backends=backends))
    pools = [pool for pool in pools if pool.backends]  # a family in which no named backend is
    kept = [(pool.name, b.name) for pool in pools for b in pool.backends]
    overlay = status.reading.overlay
    if overlay is not None:
        denials = tuple(denial for denial in overlay.denials if not denial.vip or denial.vip in chosen.vips)
        kept_entries = tuple(a for a in overlay if (a.pool, a.backend) in kept)
        overlay = replace(overlay, entries=kept_entries, denials=denials)
    vips = [vip for vip in status.vips if vip.name in chosen.vips or vip.pool in chosen.pools]
    shown = {vip.name for vip in vips}
    return replace(
        status,
        pools=pools,
        reading=replace(status.reading, overlay=overlay),
        vips=vips,
        lists=[one for one in status.lists if not one.vips or shown & {*one.vips}],
        limits=[one for one in status.limits if shown & {*one.vips}],
        limited=[one for one in status.limited if not one.vips or shown & {*one.vips}],
    )


@dataclass(frozen=True)
class _Chosen:
    """What was named: pools, VIPs, and single backends, each with its pool."""

    pools: set[str] = field(default_factory=set)
    vips: set[str] = field(default_factory=set)
    backends: set[tuple[str, str]] = field(default_factory=set)


def _choose(status: Status, names: Sequence[str]) -> _Chosen:
    """What *names* stand for; one may be that of a pool and of a VIP. Raises SwitchError for an unknown one."""
    workers = status.reading.state.workers if status.reading.state is not None else {}
    known = {(pool.name, b.name) for pool in status.pools for b in pool.backends}
    pools, vips = {pool.name for pool in status.pools}, {vip.name for vip in status.vips}
    chosen = _Chosen()
    for name in names:
        pool, slash, backend = name.partition("/")
        found = {(pool, each) for each in names_of(workers, pool, backend)} if slash else set[tuple[str, str]]()
        if not (found & known if slash else name in pools | vips):
            raise _unknown(name, status)
        chosen.backends.update(found)
        if name in pools:
            chosen.pools.add(name)
        if name in vips:
            chosen.vips.add(name)
    return chosen


def _unknown(name: str, status: Status) -> SwitchError:
    backends = [f"{pool.name}/{b.name}" for pool in status.pools for b in pool.backends]
    known = [*dict.fromkeys(pool.name for pool in status.pools), *(vip.name for vip in status.vips)]
    near = get_close_matches(name, backends if "/" in name else known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else _some("pools", (pool.name for pool in status.pools))
    return SwitchError(f"found {name!r}; expected the name of a pool or VIP that is applied, or POOL/BACKEND{hint}")


def _some(what: str, names: Iterable[str]) -> str:
    found = list(dict.fromkeys(names))
    more = f" and {len(found) - 4} more" if len(found) > 4 else ""
    return f"; its {what} are {', '.join(found[:4])}{more}" if found else ""
