"""What of the state before goes on while the one that was applied cannot be followed: pools that are the same in both.

Their checks are right for the new state too, so that failover goes on there. All other pools are left as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dnsteer.agent.world import World
from dnsteer.spec.document import parse_document
from dnsteer.spec.errors import SpecError
from dnsteer.switch.state import AppliedState


def kept_world(before: World, state: AppliedState) -> World:
    """Return the world *before* with the rules that hold for *state* as well, as what is followed in its place."""
    same = _same_pools(before.state, state)
    rules = {name: rules for name, rules in before.rules.items() if rules.pool in same}
    return replace(before, number=state.number, rules=rules)


def _same_pools(before: AppliedState, after: AppliedState) -> set[str]:
    old, new = _written(before), _written(after)
    if old.get("switch") != new.get("switch"):
        return set()  # how the backends are asked may be another way
    pools = {name for name, pool in _part(old, "pools").items() if _part(new, "pools").get(name) == pool}
    every = pools == _part(old, "pools").keys() == _part(new, "pools").keys()
    return {
        name for name in pools
        if _of_pool(old, name) == _of_pool(new, name)
        and [m for m in before.members if m.pool == name] == [m for m in after.members if m.pool == name]
        and (every or "backup" not in _part(old, "pools")[name])  # its backends are another pool's
    }  # fmt: skip


def _written(state: AppliedState) -> Mapping[str, Any]:
    """The spec as it is written; nothing where it is no mapping."""
    try:
        value = parse_document(state.file, state.text).value
    except SpecError:
        return {}
    return value if isinstance(value, dict) else {}


def _part(spec: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = spec.get(key)
    return found if isinstance(found, dict) else {}


def _of_pool(spec: Mapping[str, Any], pool: str) -> Mapping[str, Any]:
    """The VIPs of a pool."""
    return {name: vip for name, vip in _part(spec, "vips").items() if isinstance(vip, dict) and vip.get("pool") == pool}
