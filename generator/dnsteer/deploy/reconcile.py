# SPDX-License-Identifier: Apache-2.0
"""For a timer: end expired maintenance, advance gradual drains, restore emptied tables, remove mirrors of dead captures."""

from __future__ import annotations

from dataclasses import dataclass, field

from dnsteer.deploy.overlay_change import OverlayChange, change_overlay
from dnsteer.deploy.overlay_edits import advance
from dnsteer.deploy.target_switch import Progress, TargetSwitch, silent
from dnsteer.switch.captures import remove_left
from dnsteer.switch.tools import SwitchError


@dataclass
class ReconcileResult:
    """What was or would be done: changed overlays, bridges that were restored, captures that left mirrors, failures."""

    changes: list[OverlayChange] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    captures: list[tuple[str, str]] = field(default_factory=list)
    """Bridges with the captures whose mirrors were removed, in words."""
    failed: list[SwitchError] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether anything was to be done."""
        return bool(self.changes or self.restored or self.loaded or self.captures)


def reconcile(
    switch: TargetSwitch, bridge: str | None, *, dry_run: bool = False, progress: Progress = silent
) -> ReconcileResult:
    """Reconcile one bridge, or all; a failure on one does not stop the others. Bridges without a state are skipped.

    Raises SwitchError, or UnavailableError when OVSDB cannot be reached.
    """
    done = ReconcileResult()
    with switch.session() as session:
        names = session.bridges() if bridge is None else [session.record_of(bridge).bridge]
    for name in names:
        try:
            _reconcile_bridge(switch, name, done, dry_run, progress)
        except SwitchError as err:
            done.failed.append(err)
    return done


def _reconcile_bridge(
    switch: TargetSwitch, bridge: str, done: ReconcileResult, dry_run: bool, progress: Progress
) -> None:
    with switch.session() as session:
        record = session.record_of(bridge)
    record.refuse_other_format()  # before a capture's mirrors are removed, which another version may have noted otherwise
    try:
        left = remove_left(switch.remote, switch.timeout, record, dry_run=dry_run)
    except SwitchError as err:  # no reason to leave backends as they are
        done.failed.append(err)
    else:
        done.captures += [(bridge, left.text)] if left is not None else []
    if not record.number:
        return
    # A daemon that its own monitor restarted has no flows, and nobody else notices.
    found = switch.client(bridge).marker()  # ends here while no daemon runs: starting it is not ours
    if record.waits or (found != record.marker and record.pending is None):
        from dnsteer.deploy.restore import restore  # here, since it loads all that the quick verbs do without

        # It looks again, under the lock: somebody may have changed the switch between the record and the tables.
        if any(r.changed for r in restore(switch, bridge, dry_run=dry_run, progress=progress)) or record.waits:
            done.restored.append(bridge)
    change = change_overlay(switch, bridge, advance, dry_run=dry_run, progress=progress)
    if change.changed:
        done.changes.append(change)
    if record.extended:  # it may have been restarted, with the program of its file
        from dnsteer.deploy.extension_program import guarded, reload_program

        if guarded(lambda: reload_program(switch, bridge, dry_run=dry_run, progress=progress)):
            done.loaded.append(bridge)
