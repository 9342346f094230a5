"""The step that changes the bridge and its ports in OVSDB, and undoes that when a later step fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dnsteer.deploy.diff import SwitchDiff
from dnsteer.deploy.send import Stage
from dnsteer.deploy.wanted import Wanted
from dnsteer.switch import bridge as br
from dnsteer.switch import database as db
from dnsteer.switch.fragment_limit import Tracker
from dnsteer.switch.openflow import OpenFlow, Tables
from dnsteer.switch.settings import SettingsInput, repair_settings
from dnsteer.switch.signals import defer_signals
from dnsteer.switch.state import REMOVED
from dnsteer.switch.table_changes import lines_to_restore
from dnsteer.switch.tools import SwitchError, UnavailableError, reworded


@contextmanager
def ports_in_place(
    wanted: Wanted, found: SwitchDiff, database: db.Database, client: OpenFlow, stage: Stage, progress: Callable[[str], None]
) -> Iterator[Tables]:  # fmt: skip
    """Create the bridge and ports that are wanted, and yield the tables then; nothing is removed yet.

    Undone when the block fails before its bundle is sent: an apply does all or nothing.
    """
    if not any(d.first for d in found.differ):
        database.wait_for_ports(wanted.bridge.name, [p.name for p in wanted.bridge.ports])
        yield found.tables
        return
    progress(f"bridge {wanted.bridge.name}: {'; '.join(found.settings)}")
    try:
        br.set_up_bridge(database, wanted.bridge, found.before)
        yield _wait_for_ports_and_dump(wanted, database, client)
    except BaseException as err:
        if stage.sent:  # the new tables are there, or may be, and they need the ports
            raise
        end = "nothing was changed" if found.before else f"bridge {wanted.bridge.name} was removed again"
        try:
            with defer_signals():
                _undo(wanted, found, database, client, follow=not isinstance(err, UnavailableError))
        except SwitchError as why:
            end = f"the bridge could not be restored to what it was ({why}); fix the cause and apply again"
        if isinstance(err, KeyboardInterrupt):
            raise KeyboardInterrupt(end) from None
        if isinstance(err, SwitchError):
            failed = str(err).removesuffix("; nothing was changed")
            raise reworded(err, f"{failed}; {end}") from None
        raise


def _wait_for_ports_and_dump(wanted: Wanted, database: db.Database, client: OpenFlow) -> Tables:
    """Wait until the switch has the ports, and return its tables then."""
    database.wait_for_switch()
    database.wait_for_ports(wanted.bridge.name, [p.name for p in wanted.bridge.ports])
    return client.dump(lambda: wanted.lines, patience=database.timeout)


def _undo(wanted: Wanted, found: SwitchDiff, database: db.Database, client: OpenFlow, *, follow: bool) -> None:
    before = found.before
    br.restore_bridge(database, wanted.bridge, before)
    if before is not None and br.disturbs_tables(wanted.bridge, before):
        database.wait_for_switch()
        database.wait_for_ports(before.name, [n for n, p in before.ports.items() if (p.ofport or 0) > 0])
        lines = lines_to_restore(found.tables, client.dump(patience=database.timeout))
        if lines:
            client.bundle(lines)
    elif follow:
        database.wait_for_switch()


def set_smallest_fragment(wanted: Wanted, found: SwitchDiff, database: db.Database) -> list[str]:
    """Set the tracker's smallest fragment; a tracker that cannot be reached is only a warning.

    Before the bundle, so that no answer is lost. It stays where that fails: nothing needs larger ones.
    """
    size, now = wanted.smallest_fragment, found.fragment
    if size is None:
        return []
    if now is None or now.differs or found.differ:  # a bridge that was made anew may have a new datapath
        now = Tracker(database.remote, database.timeout).ensure(size)
    return [now.warning] if now.warning else []


def finish_ports(wanted: Wanted, tables: Tables, database: db.Database, client: OpenFlow) -> bool:
    """Enable ports and remove old ones, after the bundle. Returns whether anything changed."""
    have = _bridge(database, wanted.bridge.name)
    seen = SettingsInput(wanted.loaded.spec, wanted.plan, wanted.bridge, have, database.config(), tables)
    changed = repair_settings(seen, database, client.ofctl)
    return br.finish(database, wanted.bridge, have) or changed


def _bridge(database: db.Database, name: str) -> db.Bridge:
    have = database.bridge(name)
    if have is None:
        raise SwitchError(REMOVED.format(name))
    return have
