# SPDX-License-Identifier: Apache-2.0
"""Restore the last applied state after a restart of ovs-vswitchd has emptied the tables.

`flow-restore-wait` in OVSDB tells a starting ovs-vswitchd to forward nothing and to keep what an offloaded datapath still
has, until it is cleared. `arm` sets it before the start, `restore` clears it when the tables are there, and also when they
cannot be: a switch that waits for ever would take down the bridges of others as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dnsteer.deploy.apply import apply_state, preview_state
from dnsteer.deploy.settle import as_settled, settle
from dnsteer.deploy.target_switch import Progress, TargetSwitch, silent
from dnsteer.switch.session import Session
from dnsteer.switch.signals import defer_signals
from dnsteer.switch.state import BridgeRecord, BusyError, DamagedError
from dnsteer.switch.tools import SwitchError, UnavailableError, UnwrittenError, merged_error

_NOTHING = "nothing was applied here"


@dataclass(frozen=True)
class RestoreResult:
    """What was done for one bridge. *warnings* are of what others have set or loaded there."""

    bridge: str
    changed: bool
    text: str
    state: int = 0
    warnings: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "bridge": self.bridge,
            "changed": self.changed,
            "state": self.state,
            "text": self.text,
            "warnings": [*self.warnings],
        }


def restore(
    switch: TargetSwitch, bridge: str | None, *, dry_run: bool = False, progress: Progress = silent
) -> list[RestoreResult]:
    """Restore the last applied state of one bridge or all, and clear flow-restore-wait.

    Raises SwitchError with all that failed; the switch forwards then all the same.
    """
    done: list[RestoreResult] = []
    failed: list[SwitchError] = []
    try:
        with switch.session() as session:
            names = session.bridges() if bridge is None else [session.record_of(bridge).bridge]
        for name in names:
            try:
                done.append(_restore(switch, name, dry_run, progress))
            except SwitchError as err:
                failed.append(err)
    finally:
        # Another dnsteer at work may be a restore whose tables are not there yet: clearing it then would show them empty.
        busy = any(isinstance(err, BusyError) for err in failed)
        if not dry_run and not busy:
            failed += _let_forward(switch)
    if failed:
        rest = [f"{d.bridge}: {d.text}" for d in done]
        raise merged_error(failed, ["flow-restore-wait was left as it is; restore again", *rest] if busy else rest)
    return done or [RestoreResult("no bridge", False, _NOTHING)]


def _let_forward(switch: TargetSwitch) -> list[SwitchError]:
    """Clear flow-restore-wait; an error here is reported together with earlier ones."""
    try:
        with defer_signals(), switch.session() as session:
            session.set_restore_wait(False)
    except UnwrittenError as err:
        return [
            UnwrittenError(
                f"flow-restore-wait cannot be cleared: {err}; until it is cleared, a restarted switch forwards nothing"
            )
        ]
    return []


def _restore(switch: TargetSwitch, bridge: str, dry_run: bool, progress: Progress) -> RestoreResult:
    with switch.session() as session:
        if not dry_run:
            session.lock(bridge)
        record = session.record_of(bridge)
        if dry_run:
            return _preview(switch, session, record)
        cut_off = record.pending is not None
        record = settle(switch, session, record, progress)
        if not record.number:
            return RestoreResult(bridge, cut_off, _NOTHING)
        state = session.state(record, record.number)
        applied = apply_state(switch, session, state, record.overlay, progress, needs_extension=False)
        changed = cut_off or bool(applied.settings) or bool(applied.flows) or applied.loaded
        text = "is back, a pending change is settled" if cut_off else "is back" if changed else "was intact"
        if applied.away is not None:
            raise _without(applied.away, f"{bridge}: state {state.number} {text}, but not its program in the extension")
        return RestoreResult(bridge, changed, f"state {state.number} {text}", state.number, applied.of_others)


def _preview(switch: TargetSwitch, session: Session, record: BridgeRecord) -> RestoreResult:
    """Return what a restore would do."""
    cut_off = record.pending is not None
    record = as_settled(switch, record)
    number = record.number
    if not number:
        return RestoreResult(record.bridge, cut_off, _NOTHING)
    what = preview_state(switch, session.state(record, number), record.overlay)
    if what.handover is not None and what.handover.away is not None:
        raise _without(what.handover.away, f"{record.bridge}: the extension would not get its program")
    n = len(what.flows) + len(what.settings) + what.loads
    text = f"state {number} would be restored ({n} change{'s' if n != 1 else ''})" if n else f"has state {number}"
    end = ", and a pending change would be settled" if cut_off else ""
    return RestoreResult(record.bridge, bool(n) or cut_off, text + end, number, what.warnings_of_others)


def _without(err: SwitchError | PermissionError, what: str) -> SwitchError:
    """Return the warning that the extension lacks its program."""
    if isinstance(err, PermissionError):
        return SwitchError(f"{what}: {err.filename}: {err.strerror}; run as root or as the owner")
    return (UnavailableError if isinstance(err, UnavailableError) else SwitchError)(f"{what}: {err}")


def arm(
    switch: TargetSwitch, bridge: str | None, *, dry_run: bool = False, progress: Progress = silent
) -> list[RestoreResult]:
    """Set flow-restore-wait for an ovs-vswitchd that is about to start, if there is a state to restore.

    Bridges whose record is damaged, or in another format, are passed over, since nothing could be restored there.
    """
    done = []
    with switch.session() as session:
        for name in session.bridges() if bridge is None else [bridge]:
            record = session.record_of(name)
            try:
                record.refuse_other_format()
                if record.number:
                    done.append(RestoreResult(name, True, "ovs-vswitchd will wait for restore"))
            except DamagedError as err:
                done.append(RestoreResult(name, False, f"skipped: {err}"))
        if any(d.changed for d in done) and not dry_run:
            session.set_restore_wait(True)
    return done
