"""The steps that change a switch: begin, ports, bundle, commit. Every verb that sends all tables goes through them.

In this order: ports are added, the bundle makes the tables anew in one step, and only then ports are removed and the
record is written. So at any moment the tables are the old or the new ones, complete, and every port that they name is
there. Where the extension serves VIPs, its program is changed around the bundle: see extension.handover.
What fails or is interrupted before the bundle is undone; from the bundle on, SIGINT and SIGTERM are deferred until all is
done. What a kill -9 leaves is mended by the next apply, since each starts from what the switch has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

from dnsteer.deploy.diff import SwitchDiff, diff_switch
from dnsteer.deploy.journal import JournalEntry, begin, begin_or_nothing, commit, take_back
from dnsteer.deploy.ports import finish_ports, ports_in_place, set_smallest_fragment
from dnsteer.deploy.role import bring_role, role_flows, role_lines
from dnsteer.deploy.send import Applied, Sending, Stage
from dnsteer.deploy.target_switch import GRACE, Progress, TargetSwitch, silent
from dnsteer.deploy.wanted import Wanted
from dnsteer.slots.maintenance import Overlay
from dnsteer.switch import database as db
from dnsteer.switch.openflow import OpenFlow, Tables
from dnsteer.switch.restart_fence import has_fence, makes_fence
from dnsteer.switch.session import Session
from dnsteer.switch.signals import defer_signals
from dnsteer.switch.state import AppliedState, DamagedError
from dnsteer.switch.table_changes import TableChanges, compare_tables, lost
from dnsteer.switch.tools import SwitchError, reworded


def apply_change(
    wanted: Wanted, found: SwitchDiff, entry: JournalEntry, session: Session, database: db.Database, client: OpenFlow, *,
    grace: float = GRACE, needs_extension: bool = True, progress: Progress = silent,
) -> Applied:  # fmt: skip
    """Change the switch to what is wanted, given what differs, and record it.

    *grace* is how long, in seconds, answers of backends that leave may still take. Unless it *needs_extension*, the
    tables become the new ones also while the extension is away. Raises SwitchError or its kinds, which say what became of
    the switch.
    """
    stage = Stage()
    with _taken_back_on_failure(session, found, stage), ExitStack() as until_done:
        if found.before is not None and (found.changed or entry.stale):
            with defer_signals():  # else nobody would know whether it was written
                stage.begun = begin_or_nothing(session, entry)
        with ports_in_place(wanted, found, database, client, stage, progress) as tables:
            signals = until_done.enter_context(defer_signals())  # obeyed when a failure is undone, or all is done
            if found.before is None:
                stage.begun = begin(session, entry)
            warnings = set_smallest_fragment(wanted, found, database)
            stage.fenced = has_fence(tables)
            away = found.handover.away if found.handover is not None else None
            todo = _table_changes(wanted, found, tables)
            todo = replace(todo, role=tuple(_role_lines(session, wanted, found, tables)))
            done = Applied(found.settings, todo, loaded=found.loads, away=away, warnings=warnings)
            Sending(client, wanted, stage, signals, grace, needs_extension, progress).change_tables(
                done, tables, found.handover
            )
            done.recorded = entry.stale
            if done.changed:
                stage.sent = True
                _finish(wanted, tables, entry, stage, session, database, client, done)
    done.state = stage.begun.pending.number if stage.begun else entry.state.number
    return done


def _table_changes(wanted: Wanted, found: SwitchDiff, tables: Tables) -> TableChanges:
    """Return what the bundle must change; compared again when ports are new or the bridge has lost its tables."""
    if tables is found.tables:
        return found.todo
    gone = tuple(line for line in lost(found.tables, tables) if not makes_fence(line))
    return replace(compare_tables(wanted.lines, wanted.groups, tables), restore=gone)


def _role_lines(session: Session, wanted: Wanted, found: SwitchDiff, tables: Tables) -> list[str]:
    """Return what keeps a switch on standby from answering by its new tables, where it has lost that or never had it."""
    record = session.record_of(wanted.bridge.name)
    try:
        flows = role_flows(record, session.remote, wanted.loaded.spec)
    except DamagedError:  # it stays what it was
        flows = [*found.tables.standby.values()]
    return role_lines(flows, tables.standby)


def _finish(
    wanted: Wanted, tables: Tables, entry: JournalEntry, stage: Stage, session: Session, database: db.Database,
    client: OpenFlow, done: Applied,
) -> None:  # fmt: skip
    try:
        if done.flows.role:
            with suppress(DamagedError):  # the role may have been changed since
                bring_role(session, client, wanted.bridge.name, wanted.loaded.spec)
        settings = finish_ports(wanted, tables, database, client)
        if stage.begun is not None:
            commit(session, entry, stage.begun)
    except SwitchError as err:
        raise reworded(err, f"the new tables are loaded, but {err}; apply again to finish") from None
    if settings or done.settings:
        database.wait_for_switch()  # else ovsdb-server logs an error when it sends its next update


@contextmanager
def _taken_back_on_failure(session: Session, found: SwitchDiff, stage: Stage) -> Iterator[None]:
    """Drop the pending change from the record when the block fails before its bundle is sent."""
    try:
        yield
    except BaseException as err:
        left = "" if stage.sent or found.before is None else take_back(session, stage.begun)
        if isinstance(err, KeyboardInterrupt) and not str(err):
            failed = err.__context__ if isinstance(err.__context__, SwitchError) else None
            end = "the change was already made" if stage.sent else "nothing was changed"
            raise KeyboardInterrupt("; ".join(filter(None, [str(failed or end), left]))) from None
        if left and isinstance(err, SwitchError):
            raise reworded(err, f"{err}; {left}") from None
        raise


def apply_state(
    switch: TargetSwitch,
    session: Session,
    state: AppliedState,
    overlay: Overlay,
    progress: Progress,
    *,
    needs_extension: bool = True,
) -> Applied:
    """Change the switch to a recorded state and an overlay, whatever it has now, and record that.

    Unless it *needs_extension*, the tables become that also while the extension is away; the result says why it is.
    """
    wanted = switch.wanted(state, overlay)
    client = switch.client(wanted.bridge.name)
    with switch.database() as database:
        found = _diff_state(switch, wanted, database, client, needs_extension=needs_extension)
        entry = JournalEntry(wanted.bridge.name, state, overlay)
        applied = apply_change(
            wanted, found, entry, session, database, client, needs_extension=needs_extension, progress=progress
        )
    for warning in applied.warnings:
        progress(f"warning: {warning}")
    return applied


def preview_state(switch: TargetSwitch, state: AppliedState, overlay: Overlay) -> SwitchDiff:
    """Return what `apply_state` would do. Changes nothing."""
    wanted = switch.wanted(state, overlay)
    client = switch.client(wanted.bridge.name)
    with switch.database() as database:
        return _diff_state(switch, wanted, database, client, needs_extension=False)


def _diff_state(
    switch: TargetSwitch, wanted: Wanted, database: db.Database, client: OpenFlow, *, needs_extension: bool
) -> SwitchDiff:
    return diff_switch(
        wanted, database, client, switch.extension, adopt=True, reclaim=True, needs_extension=needs_extension
    )
