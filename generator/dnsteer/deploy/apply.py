# SPDX-License-Identifier: Apache-2.0
"""The steps that change a switch: begin, ports, bundle, commit. Every verb that sends all tables goes through them.

In this order: ports are added, one bundle changes the tables to the new ones, and only then ports are removed and the
record is written. So at any moment the tables are the old or the new ones, complete, and every port that they name is
there. Where the extension serves VIPs, its program is changed around the bundle: see extension.handover.
What fails or is interrupted before the bundle is undone; from the bundle on, SIGINT and SIGTERM are deferred until all is
done. What a kill -9 leaves is mended by the next apply, since each starts from what the switch has.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from dnsteer.deploy.diff import SwitchDiff, compute_and_diff, tunnel_table, zone_of_tracker
from dnsteer.deploy.journal import Attempt, JournalEntry, PendingChange, begin, begin_or_nothing, commit
from dnsteer.deploy.role import bring_role, role_flows, role_lines
from dnsteer.deploy.send import ApplyResult, BundleSender
from dnsteer.deploy.target_switch import GRACE, Progress, TargetSwitch, silent
from dnsteer.deploy.wanted_switch import WantedSwitch
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.errors import some_of
from dnsteer.switch import bridge as br
from dnsteer.switch import database as db
from dnsteer.switch.bridge_rows import Bridge
from dnsteer.switch.fragment_limit import Tracker
from dnsteer.switch.meters import bring_meters
from dnsteer.switch.openflow import OpenFlow, Tables
from dnsteer.switch.restart_fence import has_fence, makes_fence
from dnsteer.switch.session import Session
from dnsteer.switch.setting_limits import SettingsInput
from dnsteer.switch.signals import defer_signals
from dnsteer.switch.state import REMOVED, AppliedState, DamagedError
from dnsteer.switch.table_changes import TableChanges, compare_tables, lines_to_restore, lost_lines, lost_meters
from dnsteer.switch.tools import SwitchError, UnwrittenError, reworded


def apply_change(
    wanted: WantedSwitch,
    found: SwitchDiff,
    entry: JournalEntry,
    session: Session,
    database: db.Database,
    client: OpenFlow,
    *,
    grace: float = GRACE,
    needs_extension: bool = True,
    progress: Progress = silent,
) -> ApplyResult:
    """Change the switch to what is wanted, given what differs, and record it.

    *grace* is how long, in seconds, answers of backends that leave may still take. Unless it *needs_extension*, the
    tables become the new ones also while the extension is away. Raises SwitchError or its kinds, which say what became of
    the switch.
    """
    attempt = Attempt(session, wanted.bridge.name, is_new=found.before is None)
    with attempt.undone_on_failure():
        if found.before is not None and (found.changed or entry.record_stale):
            with defer_signals():  # else nobody would know whether it was written
                attempt.pending_change = begin_or_nothing(session, entry)
        if found.adds_ports:
            attempt.restore_ports = partial(restore_ports, wanted, found, database, client)
        tables = add_ports(wanted, found, database, client, progress)
        signals = attempt.defer_signals()
        if found.before is None:
            attempt.pending_change = begin(session, entry)
        attempt.undo_routes = add_tunnel_routes(wanted, database)
        warnings = [*set_smallest_fragment(wanted, found, database), *set_zone(wanted, found, database)]
        todo = replace(_changes_now(wanted, found, tables), role=tuple(_role_lines(session, wanted, found, tables)))
        away = found.handover.away if found.handover is not None else None
        result = ApplyResult(
            found.settings,
            todo,
            loaded=found.loads,
            recorded=entry.record_stale,
            away=away,
            warnings=warnings,
            of_others=found.warnings_of_others,
        )
        sending = BundleSender(client, wanted, attempt, has_fence(tables), signals, grace, needs_extension, progress)
        sending.change_tables(result, tables, found.handover)
        if result.changed:
            attempt.keep()
            _finish(wanted, found, tables, entry, attempt.pending_change, session, database, client, result)
    result.state = attempt.pending_change.pending.number if attempt.pending_change else entry.state.number
    return result


def _changes_now(wanted: WantedSwitch, found: SwitchDiff, tables: Tables) -> TableChanges:
    """Return what the bundle must change; compared again when ports are new: the bridge may have lost its tables."""
    if not found.adds_ports:
        return found.flows
    gone = tuple(line for line in lost_lines(found.tables, tables) if not makes_fence(line))
    changes = compare_tables(wanted.lines, wanted.groups, tables, wanted.meters)
    meters = (*changes.add_meters, *lost_meters(found.tables, tables))
    return replace(changes, restore=gone, add_meters=meters, renumbered=found.flows.renumbered)


def _role_lines(session: Session, wanted: WantedSwitch, found: SwitchDiff, tables: Tables) -> list[str]:
    """Return what keeps a switch on standby from answering by its new tables, where it has lost that or never had it."""
    record = session.record_of(wanted.bridge.name)
    try:
        flows = role_flows(record, session.remote, wanted.loaded.spec)
    except DamagedError:  # it stays what it was
        flows = [*found.tables.standby.values()]
    return role_lines(flows, tables.standby)


def _finish(
    wanted: WantedSwitch,
    found: SwitchDiff,
    tables: Tables,
    entry: JournalEntry,
    pending_change: PendingChange | None,
    session: Session,
    database: db.Database,
    client: OpenFlow,
    result: ApplyResult,
) -> None:
    """Bring the role, remove ports that leave, and commit to the record."""
    try:
        if result.flows.role:
            with suppress(DamagedError):  # the role may have been changed since
                bring_role(session, client, wanted.bridge.name, wanted.loaded.spec)
        settings = finish_ports(wanted, tables, database, client)
        if found.tunnels is not None and found.tunnels.left:
            tunnel_table(wanted, database).remove(found.tunnels.left, wanted.tunnel_routes)
        if pending_change is not None:
            commit(session, entry, pending_change)
    except SwitchError as err:
        raise reworded(err, f"the new tables are loaded, but {err}; apply again to finish") from None
    if settings or result.settings:
        database.wait_for_switch()  # else ovsdb-server logs an error when it sends its next update


def apply_state(
    switch: TargetSwitch,
    session: Session,
    state: AppliedState,
    overlay: Overlay,
    progress: Progress,
    *,
    needs_extension: bool = True,
    grace: float = GRACE,
    keep: Callable[[UnwrittenError], Callable[[], None]] | None = None,
    wanted: WantedSwitch | None = None,
) -> ApplyResult:
    """Change the switch to a recorded state and an overlay, whatever it has now, and record that.

    Unless it *needs_extension*, the tables become that also while the extension is away; the result says why it is. *keep*
    is as in JournalEntry, *wanted* what both mean where that is known.
    """
    wanted = wanted or switch.wanted(state, overlay)
    client = switch.client(wanted.bridge.name)
    with switch.database() as database:
        found = _diff_state(switch, wanted, database, client, needs_extension=needs_extension)
        entry = JournalEntry(wanted.bridge.name, state, overlay, keep=keep)
        applied = apply_change(
            wanted,
            found,
            entry,
            session,
            database,
            client,
            grace=grace,
            needs_extension=needs_extension,
            progress=progress,
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
    switch: TargetSwitch, wanted: WantedSwitch, database: db.Database, client: OpenFlow, *, needs_extension: bool
) -> SwitchDiff:
    return compute_and_diff(
        wanted, database, client, switch.extension, adopt=True, reclaim=True, needs_extension=needs_extension
    )


def add_ports(
    wanted: WantedSwitch, found: SwitchDiff, database: db.Database, client: OpenFlow, progress: Callable[[str], None]
) -> Tables:
    """Create the bridge and ports that are wanted, and return the tables then; nothing is removed yet."""
    if not found.adds_ports:
        _wait_for_ports(wanted, database)
        return found.tables
    progress(f"bridge {wanted.bridge.name}: {some_of(found.settings, '; ')}")
    br.set_up_bridge(database, wanted.bridge, found.before)
    return _wait_for_ports_and_dump(wanted, database, client)


def _wait_for_ports_and_dump(wanted: WantedSwitch, database: db.Database, client: OpenFlow) -> Tables:
    """Wait until the switch has the ports, and return its tables then."""
    database.wait_for_switch()
    _wait_for_ports(wanted, database)
    return client.dump(wanted.lines, patience=database.timeout)


def _wait_for_ports(wanted: WantedSwitch, database: db.Database) -> None:
    database.wait_for_ports(wanted.bridge.name, [p.name for p in wanted.bridge.devices])


def restore_ports(
    wanted: WantedSwitch, found: SwitchDiff, database: db.Database, client: OpenFlow, follow: bool
) -> None:
    """Undo `add_ports`; with *follow* wait until a switch without the bridge has followed. Raises SwitchError."""
    before = found.before
    br.restore_bridge(database, wanted.bridge, before)
    if before is not None and br.disturbs_tables(wanted.bridge, before):
        database.wait_for_switch()
        database.wait_for_ports(before.name, [n for n, p in before.ports.items() if (p.ofport or 0) > 0])
        now = client.dump(patience=database.timeout)
        bring_meters(client, [m for n, m in found.tables.meters.items() if n not in now.meters], ())
        bring_meters(client, lost_meters(found.tables, now), ())
        lines = lines_to_restore(found.tables, now)
        if lines:
            client.bundle(lines)
    elif follow:
        database.wait_for_switch()


def set_smallest_fragment(wanted: WantedSwitch, found: SwitchDiff, database: db.Database) -> list[str]:
    """Set the tracker's smallest fragment; a tracker that cannot be reached is only a warning.

    Before the bundle, so that no answer is lost. It stays where that fails: nothing needs larger ones.
    """
    size, now = wanted.smallest_fragment, found.fragment
    if size is None:
        return []
    if now is None or now.differs or found.differ:  # a bridge that was made anew may have a new datapath
        now = Tracker(database.remote, database.timeout).ensure(size)
    return [now.warning] if now.warning else []


def add_tunnel_routes(wanted: WantedSwitch, database: db.Database) -> Callable[[], None] | None:
    """Add the routes of tunnels, before the flows that need them. Returns what undoes it. Raises SwitchError."""
    routes = wanted.tunnel_routes
    if routes is None:
        return None
    return tunnel_table(wanted, database).add(routes)


def set_zone(wanted: WantedSwitch, found: SwitchDiff, database: db.Database) -> list[str]:
    """Set time-outs and limit of the zone of connections, as the smallest fragment; or remove them where none are kept."""
    now = found.zone
    if wanted.concerns_tracker and (now is None or now.differs or found.differ):
        now = zone_of_tracker(wanted, database).ensure(wanted.connection_zone)
    return [now.warning] if now is not None and now.warning else []


def finish_ports(wanted: WantedSwitch, tables: Tables, database: db.Database, client: OpenFlow) -> bool:
    """Enable ports and remove old ones, after the bundle. Returns whether anything changed."""
    have = _bridge(database, wanted.bridge.name)
    seen = SettingsInput(wanted.loaded.spec, wanted.plan, wanted.bridge, have, database.config(), tables)
    changed = br.repair_settings(seen, database, client.ofctl)
    return br.finish(database, wanted.bridge, have) or changed


def _bridge(database: db.Database, name: str) -> Bridge:
    have = database.bridge(name)
    if have is None:
        raise SwitchError(REMOVED.format(name))
    return have
