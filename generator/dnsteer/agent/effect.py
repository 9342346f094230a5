# SPDX-License-Identifier: Apache-2.0
"""Bring the switch to what was decided: the agent's entries of the overlay, in one bundle."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from dnsteer.agent.health_decision import Decision, PoolHealth, PoolRules, decide_with_backup
from dnsteer.agent.probes.targets import slots_name
from dnsteer.deploy.caller import agent_name
from dnsteer.deploy.decision import IDS, deciding
from dnsteer.deploy.overlay_change import Edit, OverlayChange, change_overlay
from dnsteer.deploy.overlay_edits import advance
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.slots.maintenance import Overlay, decisions_between, stamped
from dnsteer.switch.state import AppliedState


@dataclass(frozen=True)
class Effect:
    """What was done, with the decision behind it of each pool. *outdated*: another state was applied meanwhile.

    *id* is that of the decision; of the earlier one where this is only its next step, and no panic begins or ends.
    *failed* has the names of slots about which a defect let nothing be decided: they stay as they are.
    """

    change: OverlayChange | None
    decisions: Mapping[str, Decision]
    outdated: bool = False
    id: str = ""
    failed: Mapping[str, Exception] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        return self.change is not None and self.change.changed


class OutdatedStateError(Exception):
    """Another state is applied than the one whose rules are known."""


def decide_and_change(
    switch: TargetSwitch,
    bridge: str,
    number: int,
    rules: Sequence[PoolRules],
    health: Mapping[str, PoolHealth],
    id: str = "",
    panics: Collection[str] = (),
) -> Effect:
    """Decide by *rules* on the overlay as it is under the lock, and change the switch.

    *number* is the state that the rules are of; *health* is by the names of slots, those of *panics* were in panic. *id*
    is that of the decision, if it has one already. It needs no room in the record. Raises SwitchError.
    """
    id = id or IDS.next()
    decisions: dict[str, Decision] = {}
    failed: dict[str, Exception] = {}

    def edit(overlay: Overlay, state: AppliedState, time: datetime) -> Overlay:
        if state.number != number:
            raise OutdatedStateError
        after = overlay
        for pool in sorted(rules, key=lambda pool: bool(pool.service)):  # who is out of a pool is out of its services
            name = slots_name(pool.pool, pool.service)
            try:
                found = decide_with_backup(pool, after.of(pool.pool), health[name], agent_name(), time)
            except Exception as err:  # noqa: BLE001  what nobody foresaw in one pool must not stop the others
                failed[name] = err
            else:
                decisions[name] = replace(found, entries=stamped(found.entries, overlay, id))
                after = with_decisions(after, {name: decisions[name]})
        return after

    checked: Edit = edit
    try:
        change = _change(switch, bridge, checked, id, unrecorded=True)
    except OutdatedStateError:
        return Effect(None, {}, outdated=True)
    decided = any(decision.panics != (name in panics) for name, decision in decisions.items())
    return Effect(change, decisions, id=id if decided else decision_id_of(change, id), failed=failed)


def advance_maintenance(switch: TargetSwitch, bridge: str) -> Effect:
    """End maintenance whose time is over, and advance what is gradual. Raises SwitchError."""
    return edit_overlay(switch, bridge, advance, IDS.next())


def edit_overlay(switch: TargetSwitch, bridge: str, edit: Edit, id: str) -> Effect:
    """Change the overlay by what is decided under the lock, for the decision *id*. Raises SwitchError."""
    change = _change(switch, bridge, edit, id)
    return Effect(change, {}, id=decision_id_of(change, id))


def _change(switch: TargetSwitch, bridge: str, edit: Edit, id: str, *, unrecorded: bool = False) -> OverlayChange:
    with deciding(id):
        return change_overlay(switch, bridge, edit, unrecorded=unrecorded)


def decision_id_of(change: OverlayChange, id: str) -> str:
    """The decision behind a change that was made for *id*: an earlier one where it is the next step of that."""
    found = decisions_between(change.before, change.after, id)
    return id if id in found or not found else found[0]


def with_decisions(overlay: Overlay, decisions: Mapping[str, Decision]) -> Overlay:
    """Return the overlay with the entries that were decided; those that stay keep their place."""
    wanted = {(entry.name, entry.kind, entry.service): entry for d in decisions.values() for entry in d.entries}
    ours = [e for e in overlay if e.kind in ("health", "backup") and slots_name(e.pool, e.service) in decisions]
    gone = [e for e in ours if (e.name, e.kind, e.service) not in wanted]
    out = overlay.without(gone)
    for entry in wanted.values():
        out = out.put(entry)
    return out
