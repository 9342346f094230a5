# SPDX-License-Identifier: Apache-2.0
"""The pools of a switch: state, slots and rates of their backends, from the record and the counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal

from dnsteer.slots.assignment import quotas
from dnsteer.slots.maintenance import DRAINED, Maintenance, Overlay
from dnsteer.slots.membership import Member, Membership
from dnsteer.slots.owners import owners_of
from dnsteer.slots.weights import weights_in_the_end
from dnsteer.spec.errors import some_of
from dnsteer.spec.networks import has_vlans, vlan_of
from dnsteer.status.agent_knowledge import NOTHING_KNOWN, AgentKnowledge, FailingCheck
from dnsteer.status.counters import BackendKey
from dnsteer.status.kept_connections import KeptConnections
from dnsteer.status.rates import Rate, Rates, total
from dnsteer.tables.vip import PROTOCOLS

if TYPE_CHECKING:
    from dnsteer.spec.model.spec import Spec

BackendState = Literal["up", "draining", "drained", "down", "unhealthy", "returning", "unknown"]


@dataclass(frozen=True)
class BackendView:
    """A backend of a pool. *drained* is the part of a drain that is done, *entry* what decides about its state.

    *slots* is how many it holds now, *own* how many it holds when everybody is up, *given* the weight that it has instead of
    the spec's. The state and slots are `unknown` and None when the record of what was taken out is damaged.
    """

    name: str
    weight: int
    state: BackendState
    drained: float
    in_spec: bool
    slots: int | None
    own: int
    rate: Rate
    entry: Maintenance | None
    overdue: bool
    given: Maintenance | None = None
    failing: tuple[FailingCheck, ...] = ()
    """The checks that it fails, by the agent."""
    connections: int | None = None
    """Its open connections that the tracker keeps, of all its services; None where none are kept or counted."""
    vlan: int | None = None
    """Its VLAN, 0 for untagged; None where the spec has no VLANs."""

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        entry = self.entry
        return {
            "name": self.name,
            "weight": self.weight,
            "given_weight": self.given.weight if self.given else None,
            "state": self.state,
            "drained": self.drained,
            "down_in_spec": self.in_spec,
            "slots": self.slots,
            "own_slots": self.own,
            **self.rate.as_json(),
            "by": entry.by if entry else None,
            "note": entry.note if entry else None,
            "since": entry.since if entry else None,
            "until": (entry.until or None) if entry else None,
            "overdue": self.overdue,
            "decision": (entry.decision or None) if entry else None,
            "failing": [
                {"check": c.check, "services": [*c.services], "why": c.why, "since": c.since.isoformat()}
                for c in self.failing
            ],
            **({} if self.connections is None else {"connections": self.connections}),
            **({} if self.vlan is None else {"vlan": self.vlan}),
        }

    @property
    def fails_in_service(self) -> bool:
        """Whether it has slots though it fails a check."""
        return bool(self.failing and self.slots)


@dataclass(frozen=True)
class PoolView:
    """A pool, or a pool in one family where its families have different backends."""

    name: str
    title: str
    selection: str
    slots: int
    backends: tuple[BackendView, ...]

    @property
    def rate(self) -> Rate:
        """The rate of its backends together."""
        return total(b.rate for b in self.backends)

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "name": self.name,
            "title": self.title,
            "selection": self.selection,
            "slots": self.slots,
            **self.rate.as_json(),
            "backends": [b.as_json() for b in self.backends],
        }


def view_pools(
    members: Iterable[Membership],
    overlay: Overlay | None,
    rates: Rates,
    now: datetime,
    agent: AgentKnowledge = NOTHING_KNOWN,
    connections: KeptConnections | None = None,
) -> list[PoolView]:
    """All pools, in the order of the spec. *overlay* is None when it cannot be read; *agent* says who fails, and of which
    *connections* are kept, where these are not given."""
    connections = connections or agent.connections
    counts = connections.by_backend if connections is not None else {}
    return [_pool(m, overlay, rates, now, agent, counts) for m in members]


def _pool(
    pool: Membership,
    overlay: Overlay | None,
    rates: Rates,
    now: datetime,
    agent: AgentKnowledge,
    connections: Mapping[tuple[str, str], int],
) -> PoolView:
    entries = overlay.of(pool.pool) if overlay is not None else ()
    maintenance = [a for a in entries if a.service in ("", pool.service)]
    given = {a.backend: a for a in maintenance if a.weight is not None}
    weights = weights_in_the_end(pool.weights, list(given.values()))
    own = quotas(weights, pool.slots) if any(weights.values()) else {}
    held: Mapping[str, int] | None = None
    if overlay is not None:
        # Nobody is out: counting them takes no table of slots, of which there may be hundreds.
        held = Counter(owners_of(pool, maintenance)) if maintenance or pool.down else own
    views = []
    for member in pool.members:
        state, drained, entry = _state(member, maintenance)
        if overlay is None and not member.down:
            state = "unknown"
        keys = [BackendKey(pool.number, member.number, protocol) for protocol in PROTOCOLS]
        overdue = any(a.expired(now) for a in maintenance if a.backend == member.name)
        slots = None if held is None else held.get(member.name, 0)
        checks = agent.by_backend.get((pool.pool, member.name), ())
        failing = tuple(c for c in checks if not c.services or pool.service in c.services)
        views.append(
            BackendView(
                name=member.name,
                weight=member.weight,
                state=state,
                drained=drained,
                in_spec=member.down,
                slots=slots,
                own=own.get(member.name, 0),
                rate=rates.of(keys),
                entry=entry,
                overdue=overdue,
                given=given.get(member.name),
                failing=failing,
                connections=connections.get((pool.pool, member.name)) if pool.keeps else None,
            )
        )
    return PoolView(pool.pool, pool.title, pool.selection, pool.slots, tuple(views))


def with_vlans(pools: Iterable[PoolView], spec: Spec) -> list[PoolView]:
    """The same with the VLAN of each backend, where the spec has any."""
    if not has_vlans(spec):
        return list(pools)
    found = []
    for view in pools:
        pool = spec.pools.get(view.name)
        names = (view.name, pool.backup.pool) if pool is not None and pool.backup is not None else (view.name,)
        known = [b for name in names if name in spec.pools for b in spec.pools[name].backends]
        vlans = {b.name: vlan_of(spec.switch, b) for b in reversed(known)}
        found.append(replace(view, backends=tuple(replace(b, vlan=vlans.get(b.name)) for b in view.backends)))
    return found


def _state(member: Member, maintenance: Iterable[Maintenance]) -> tuple[BackendState, float, Maintenance | None]:
    """Return the state, the part of its slots that is gone, and the entry behind it: down, then unhealthy, then drained."""
    mine = {a.kind: a for a in maintenance if a.backend == member.name}
    drain = mine.get("drain")
    drained = drain.gone / DRAINED if drain else 0.0
    if "down" in mine or member.down:
        return "down", drained, mine.get("down") or drain
    health = mine.get("health")
    if health is not None:
        return ("returning" if health.returns else "unhealthy"), health.gone / DRAINED, health
    if drain is None:
        return "up", 0.0, None
    return ("drained" if drain.gone >= DRAINED else "draining"), drained, drain


def backups_of(spec: Spec) -> dict[str, str]:
    """The pools that help, by the name of the one that they help."""
    return {name: pool.backup.pool for name, pool in spec.pools.items() if pool.backup is not None}


def backups_in_use(overlay: Overlay) -> list[str]:
    """Warnings about pools whose backups serve: since when, and why."""
    found: dict[str, list[Maintenance]] = {}
    for entry in overlay:
        if entry.kind == "backup":
            found.setdefault(entry.pool, []).append(entry)
    out = []
    for pool, entries in found.items():
        first = min(entries, key=lambda a: datetime.fromisoformat(a.since))
        since = datetime.fromisoformat(first.since).astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        names = some_of(a.backend for a in entries)
        leave = "; they leave, since enough are back" if all(a.returns for a in entries) else ""
        out.append(f"pool {pool}: its backup is in use since {since} ({first.note}): {names}{leave}")
    return out


def overdue(overlay: Overlay, now: datetime) -> list[str]:
    """Warnings about maintenance that should have ended."""
    return [
        f"{a.name} was to be {a.state} only until {a.until}, and still is; run dnsteer reconcile"
        for a in overlay
        if a.expired(now)
    ]


def overdue_denials(overlay: Overlay, now: datetime) -> list[str]:
    """Warnings about denials by hand that should have ended."""
    return [
        f"{denial.title} should have ended at {denial.until}; dnsteer reconcile ends it"
        for denial in overlay.denials
        if denial.expired(now)
    ]
