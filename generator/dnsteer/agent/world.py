"""What the agent works with: the state that is applied to its bridge, the rules of its pools, and what is to be probed."""

from __future__ import annotations

from dataclasses import dataclass

from dnsteer.agent.decide import PoolRules
from dnsteer.agent.probes.targets import Target, targets
from dnsteer.deploy.recorded import spec_of
from dnsteer.spec.backups import standby_weights
from dnsteer.spec.model.spec import Spec, State
from dnsteer.switch.session import Session
from dnsteer.switch.state import BridgeRecord


@dataclass(frozen=True)
class World:
    """State *number* of *bridge*, with what its spec says about health. *rules* are by pool, of pools with checks only."""

    bridge: str
    number: int
    spec: Spec
    rules: dict[str, PoolRules]
    targets: tuple[Target, ...]


def read_world(session: Session, record: BridgeRecord) -> World:
    """Read the state that is applied. Raises SwitchError."""
    spec = spec_of(session.state(record, record.number))
    rules = {
        name: PoolRules(
            name,
            tuple(b.name for b in pool.backends if b.weight and b.state is State.UP),
            pool.panic / 100,
            pool.slow_start,
            standby_weights(spec, pool),
            pool.backup.below if pool.backup else 0,
        )
        for name, pool in spec.pools.items()
        if pool.health
    }
    return World(record.bridge, record.number, spec, rules, tuple(targets(spec)))
