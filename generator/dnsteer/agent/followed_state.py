# SPDX-License-Identifier: Apache-2.0
"""The state that the agent follows: its spec, the rules of its pools, and what is to be probed.

While a state that was applied cannot be followed, some of the one before goes on. Checks of pools that are the same in both
are right for the new state too, so failover goes on there; all other pools are left as they are. Of the addresses only
those stay announced that the new state wants to be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dnsteer.agent.health_decision import PoolRules
from dnsteer.agent.probes.targets import ProbeTarget, probe_targets, slots_name
from dnsteer.deploy.recorded_spec import spec_of
from dnsteer.spec.backups import standby_weights
from dnsteer.spec.errors import SpecError
from dnsteer.spec.health_checks import own_slots
from dnsteer.spec.model.spec import Pool, Spec, State
from dnsteer.spec.read import parse_recorded
from dnsteer.switch.session import Session
from dnsteer.switch.state import AppliedState, BridgeRecord
from dnsteer.switch.tools import SwitchError


@dataclass(frozen=True)
class FollowedState:
    """State *number* of *bridge*, with what its spec says about health. *rules* are by the names of slots, of
    pools with checks only; *state* is the state as recorded."""

    bridge: str
    number: int
    spec: Spec
    rules: dict[str, PoolRules]
    targets: tuple[ProbeTarget, ...]
    state: AppliedState


def read_followed_state(session: Session, record: BridgeRecord) -> FollowedState:
    """Read the state that is applied. Raises SwitchError."""
    state = session.state(record, record.number)
    spec = spec_of(state)
    rules = {
        slots_name(name, service): _rules(spec, name, pool, service)
        for name, pool in spec.pools.items()
        if pool.health
        for service in ("", *own_slots(spec, name))
    }
    return FollowedState(record.bridge, record.number, spec, rules, tuple(probe_targets(spec)), state)


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


def carry_over(before: FollowedState, state: AppliedState) -> FollowedState:
    """Return what of the state *before*, the last that was followed, holds for *state* as well."""
    same = _same_pools(before.state, state)
    rules = {name: rules for name, rules in before.rules.items() if rules.pool in same}
    return replace(before, number=state.number, rules=rules, spec=_still_announced(before.spec, state))


def _still_announced(before: Spec, state: AppliedState) -> Spec:
    """The spec *before* with what *state* says of announcing its VIPs, and without addresses that are no longer there.

    VIPs that are new are not announced: it is not known whether they work.
    """
    try:
        after = spec_of(state)
    except SwitchError:
        return before
    addresses = {address for vip in after.vips.values() for address in vip.addresses}
    vips = {
        name: vip.model_copy(
            update={
                "addresses": [address for address in vip.addresses if address in addresses],
                "announce": after.vips[name].announce if name in after.vips else vip.announce,
            }
        )
        for name, vip in before.vips.items()
        if addresses.intersection(vip.addresses)
    }
    switch = before.switch.model_copy(update={"announce": after.switch.announce})
    return before.model_copy(update={"switch": switch, "vips": vips})


def _same_pools(before: AppliedState, after: AppliedState) -> set[str]:
    old, new = _written(before), _written(after)
    if old.get("switch") != new.get("switch"):
        return set()  # how the backends are asked may be another way
    pools = {name for name, pool in _part(old, "pools").items() if _part(new, "pools").get(name) == pool}
    every = pools == _part(old, "pools").keys() == _part(new, "pools").keys()
    return {
        name
        for name in pools
        if _of_pool(old, name) == _of_pool(new, name)
        and [m for m in before.members if m.pool == name] == [m for m in after.members if m.pool == name]
        and (every or "backup" not in _part(old, "pools")[name])  # its backends are another pool's
    }


def _written(state: AppliedState) -> Mapping[str, Any]:
    """The spec as it is written; nothing where it is no mapping."""
    try:
        value = parse_recorded(state.file, state.text).value
    except SpecError:
        return {}
    return value if isinstance(value, dict) else {}


def _part(spec: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = spec.get(key)
    return found if isinstance(found, dict) else {}


def _of_pool(spec: Mapping[str, Any], pool: str) -> Mapping[str, Any]:
    return {name: vip for name, vip in _part(spec, "vips").items() if isinstance(vip, dict) and vip.get("pool") == pool}
