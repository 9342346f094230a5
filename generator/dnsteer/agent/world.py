"""What the agent works with: the state that is applied to its bridge, the rules of its pools, and what is to be probed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dnsteer.agent.decide import PoolRules
from dnsteer.agent.probes.targets import ProbeTarget, probe_targets, rounds, slots_name
from dnsteer.deploy.recorded import spec_of
from dnsteer.spec.backups import standby_weights
from dnsteer.spec.checked_services import own_slots
from dnsteer.spec.model.spec import Pool, Spec, State
from dnsteer.switch.session import Session
from dnsteer.switch.state import AppliedState, BridgeRecord

_LONGEST = 60.0
"""Seconds at most, however seldom a check asks: failures that are further apart have causes of their own."""


@dataclass(frozen=True)
class World:
    """State *number* of *bridge*, with what its spec says about health. *rules* are by the names of slots, of
    pools with checks only; *state* is the state as recorded."""

    bridge: str
    number: int
    spec: Spec
    rules: dict[str, PoolRules]
    targets: tuple[ProbeTarget, ...]
    state: AppliedState


def read_world(session: Session, record: BridgeRecord) -> World:
    """Read the state that is applied. Raises SwitchError."""
    state = session.state(record, record.number)
    spec = spec_of(state)
    targets = tuple(probe_targets(spec))
    noticed = _times_to_notice(targets)
    rules = {
        slots_name(name, service): _rules(spec, name, pool, service, noticed.get(slots_name(name, service), 0.0))
        for name, pool in spec.pools.items()
        if pool.health
        for service in ("", *own_slots(spec, name))
    }
    return World(record.bridge, record.number, spec, rules, targets, state)


def _rules(spec: Spec, name: str, pool: Pool, service: str, noticed: float) -> PoolRules:
    joining = standby_weights(spec, pool)
    own = {b.name: b.weight for b in pool.backends if b.state is State.UP and b.name not in joining}
    return PoolRules(
        name,
        own,
        pool.panic / 100,
        pool.slow_start,
        joining if not service else {},
        pool.backup.below if pool.backup and not service else 0,
        service,
        pool.keep_at_least,
        noticed,
    )


def _times_to_notice(targets: Iterable[ProbeTarget]) -> dict[str, float]:
    """Return in how many seconds the checks notice a fault that all backends have, by the names of slots."""
    out: dict[str, float] = {}
    for group in rounds(targets):
        check = group[0].check
        intervals = check.fall + max(0, len(group) - 2)  # of several VIPs those after the first take turns
        longest = intervals * check.interval * (1 + check.jitter / 100) + check.timeout
        for name in group[0].slots:
            out[name] = min(max(out.get(name, 0.0), longest), _LONGEST)
    return out
