"""Bring the switch to what was decided: the agent's entries of the overlay, in one bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from dnsteer.agent.backup import decide_with_backup
from dnsteer.agent.decide import Decision, PoolRules
from dnsteer.agent.probes.targets import slots_name
from dnsteer.deploy.backends import Change, Edit, change_overlay
from dnsteer.deploy.caller import operator_name
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.slots.maintenance import Overlay
from dnsteer.switch.state import AppliedState


@dataclass(frozen=True)
class Effect:
    """What was done, with the decision behind it of each pool. *outdated*: another state was applied meanwhile."""

    change: Change | None
    decisions: Mapping[str, Decision]
    outdated: bool = False


class _OutdatedError(Exception):
    """Another state is applied than the one whose rules are known."""


def carry_out(
    switch: TargetSwitch,
    bridge: str,
    number: int,
    rules: Sequence[PoolRules],
    unhealthy: Mapping[str, Mapping[str, str]],
) -> Effect:
    """Decide by *rules* on the overlay as it is under the lock, and change the switch.

    *number* is the state that the rules are of; *unhealthy* backends are by the names of slots. Raises SwitchError.
    """
    decisions: dict[str, Decision] = {}

    def edit(overlay: Overlay, state: AppliedState, time: datetime) -> Overlay:
        if state.number != number:
            raise _OutdatedError
        for pool in rules:
            name = slots_name(pool.pool, pool.service)
            decisions[name] = decide_with_backup(pool, overlay.of(pool.pool), unhealthy[name], operator_name(), time)
        return merged(overlay, decisions)

    checked: Edit = edit
    try:
        return Effect(change_overlay(switch, bridge, checked), decisions)
    except _OutdatedError:
        return Effect(None, {}, outdated=True)


def merged(overlay: Overlay, decisions: Mapping[str, Decision]) -> Overlay:
    """Return the overlay with the entries that were decided; those that stay keep their place."""
    wanted = {(entry.name, entry.kind, entry.service): entry for d in decisions.values() for entry in d.entries}
    ours = [e for e in overlay if e.kind in ("health", "backup") and slots_name(e.pool, e.service) in decisions]
    gone = [e for e in ours if (e.name, e.kind, e.service) not in wanted]
    out = overlay.without(gone)
    for entry in wanted.values():
        out = out.put(entry)
    return out
