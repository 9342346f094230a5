"""What the agent works with: the state that is applied to its bridge, the rules of its pools, and what is to be probed."""

from __future__ import annotations

from dataclasses import dataclass

from dnsteer.agent.decide import PoolRules
from dnsteer.agent.probes.targets import ProbeTarget, probe_targets, slots_name
from dnsteer.deploy.recorded import spec_of
from dnsteer.spec.backups import standby_weights
from dnsteer.spec.health_checks import own_slots
from dnsteer.spec.model.spec import Pool, Spec, State
from dnsteer.switch.session import Session
from dnsteer.switch.state import AppliedState, BridgeRecord


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
    rules = {
        slots_name(name, service): _rules(spec, name, pool, service)
        for name, pool in spec.pools.items()
        if pool.health
        for service in ("", *own_slots(spec, name))
    }
    return World(record.bridge, record.number, spec, rules, tuple(probe_targets(spec)), state)


def _rules(spec: Spec, name: str, pool: Pool, service: str) -> PoolRules:
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
    )
