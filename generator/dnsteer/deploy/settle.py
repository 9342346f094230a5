# SPDX-License-Identifier: Apache-2.0
"""The step that settles a pending change: it is completed or undone before anything else is changed."""

from __future__ import annotations

from dataclasses import replace

from dnsteer.deploy.apply import apply_state
from dnsteer.deploy.target_switch import Progress, TargetSwitch
from dnsteer.slots.maintenance import Overlay
from dnsteer.switch.session import Session
from dnsteer.switch.state import (
    DIGEST_KEY,
    PENDING_KEY,
    REMOVED,
    STATE_KEY,
    AppliedState,
    BridgeRecord,
    Pending,
    overlay_ids,
)
from dnsteer.switch.tools import SwitchError, UnavailableError, UnwrittenError


def as_settled(switch: TargetSwitch, record: BridgeRecord) -> BridgeRecord:
    """Return the record as it will be once a pending change is settled. Changes nothing."""
    pending = record.pending
    if pending is None:
        return record
    ids = {k: v for k, v in record.ids.items() if k != PENDING_KEY}
    if _holds(switch, record, pending):
        ids |= {STATE_KEY: str(pending.number), DIGEST_KEY: pending.digest, **overlay_ids(pending.overlay)}
    return replace(record, ids=ids)


def _holds(switch: TargetSwitch, record: BridgeRecord, pending: Pending) -> bool:
    """Whether a pending change will be completed: the tables are not those from before it.

    Tables that are neither from before nor from after it were lost in a restart of ovs-vswitchd: the change is then made, as
    the operator asked for it, unless it is a first apply.
    """
    found = switch.client(record.bridge).marker()
    return found == pending.marker or (found != record.marker and bool(record.number))


def settle_or_replace(
    switch: TargetSwitch, session: Session, record: BridgeRecord | None, progress: Progress
) -> BridgeRecord | None:
    """Settle a pending change; if the switch refuses it, the current deployment replaces it."""
    if record is None:
        return None
    try:
        return settle(switch, session, record, progress)
    except (UnavailableError, UnwrittenError):
        raise
    except SwitchError as err:
        after = session.record(record.bridge)
        if after is None or after.pending is None:
            raise
        settled = forget(switch, session, after)
        progress(f"the pending change cannot be completed, and is replaced: {err}")
        return settled


def settle(switch: TargetSwitch, session: Session, record: BridgeRecord, progress: Progress) -> BridgeRecord:
    """Complete a pending change or undo it, depending on the tables. Returns the record afterwards.

    The lock must be held. Tables that are neither those from before nor those from after it get the change: see `_holds`.
    Raises UnwrittenError when OVSDB cannot be written: the change stays pending, and nothing of it is forgotten.
    """
    pending = record.pending
    if pending is None:
        return record
    try:
        _settle(switch, session, record, pending, progress)
    except UnwrittenError as err:
        raise UnwrittenError(
            f"the pending change cannot be settled: {err}; it stays in the record, and the next command that can write the "
            "record settles it"
        ) from None
    after = session.record(record.bridge)
    if after is None:
        raise SwitchError(REMOVED.format(record.bridge))
    return after


def settle_or_keep(switch: TargetSwitch, session: Session, record: BridgeRecord, progress: Progress) -> BridgeRecord:
    """Settle a pending change; where OVSDB refuses to write, *switch* keeps what the change has made of the tables.

    Raises UnwrittenError where it cannot: the change is one of the state, or the tables do not tell.
    """
    try:
        return settle(switch, session, record, progress)
    except UnwrittenError as err:
        switch.keep_pending(session, record.bridge, err)
        return session.record_of(record.bridge)


def overlay_in_tables(switch: TargetSwitch, record: BridgeRecord) -> Overlay | None:
    """The overlay that the tables have while a change of the overlay alone is pending; None where they do not tell."""
    pending = record.pending
    if pending is None or pending.number != record.number:
        return None
    found = switch.client(record.bridge).marker()
    return pending.overlay if found == pending.marker else record.overlay if found == record.marker else None


def _settle(switch: TargetSwitch, session: Session, record: BridgeRecord, pending: Pending, progress: Progress) -> None:
    found = switch.client(record.bridge).marker()
    done, undone = found == pending.marker, found == record.marker
    only_overlay = pending.number == record.number
    if only_overlay and (done or undone) and record.extended:
        _settle_extended(switch, session, record, done, progress)
    elif only_overlay and done:
        # The tables are all that changed, and they are whole.
        session.commit(record, pending)
        progress("the pending change was complete on the switch: the record is corrected")
    elif only_overlay and undone:
        session.take_back(record)
        progress("the pending change was not on the switch: the record is corrected")
    elif done:
        state = session.state(record, pending.number)
        # Recorded first: this is what the switch forwards by, even if applying it again fails.
        session.commit(record, pending, state, more_to_do=bool(state.extended))
        progress(f"an earlier change was interrupted; the switch has state {pending.number}, as its tables show")
        _apply_again(switch, session, state, pending.overlay, progress)
    elif not record.number:
        session.take_back(record)
    elif undone:
        _stay(switch, session, record, progress)
    else:
        _make(switch, session, record, pending, progress)


def _stay(switch: TargetSwitch, session: Session, record: BridgeRecord, progress: Progress) -> None:
    """Apply the state from before the change."""
    progress(f"an earlier change was interrupted; the switch keeps state {record.number}")
    _apply_again(switch, session, session.state(record, record.number), record.overlay, progress)


def _make(switch: TargetSwitch, session: Session, record: BridgeRecord, pending: Pending, progress: Progress) -> None:
    """Complete a change whose progress the tables do not show; a new state only if the switch accepts it."""
    progress("an earlier change was interrupted, and the tables are gone: making the change now")
    try:
        _apply_again(switch, session, session.state(record, pending.number), pending.overlay, progress)
    except (UnavailableError, UnwrittenError):
        raise
    except SwitchError as err:
        if pending.number == record.number:
            raise
        progress(f"the change cannot be made: {err}")
        _stay(switch, session, record, progress)


def forget(switch: TargetSwitch, session: Session, record: BridgeRecord) -> BridgeRecord:
    """Drop a pending change that an apply replaces; maintenance stays. Returns the record afterwards."""
    pending = record.pending
    if pending is not None and pending.number == record.number and _holds(switch, record, pending):
        session.commit(record, pending)
    else:
        session.take_back(record)
    return session.record_of(record.bridge)


def _settle_extended(
    switch: TargetSwitch, session: Session, record: BridgeRecord, done: bool, progress: Progress
) -> None:
    """Settle a change of the overlay alone, where the extension may be half-way."""
    pending = record.pending
    assert pending is not None
    progress(f"{'completing' if done else 'undoing'} the pending change")
    overlay = pending.overlay if done else record.overlay
    try:
        _apply_again(switch, session, session.state(record, record.number), overlay, progress)
    except SwitchError:
        if done:  # else the record would say what the tables are no longer
            session.commit(record, pending)
        raise


def _apply_again(
    switch: TargetSwitch, session: Session, state: AppliedState, overlay: Overlay, progress: Progress
) -> None:
    """Apply the state again; the extension's program too, if it answers: without it other verbs must still work."""
    applied = apply_state(switch, session, state, overlay, progress, needs_extension=False)
    if applied.away is not None:
        progress(f"warning: the extension does not have the program of state {state.number}: {applied.away}")
