"""The steps that change the bridge and its ports in OVSDB: what is added before the bundle, and removed after it."""

from __future__ import annotations

from collections.abc import Callable

from dnsteer.deploy.diff import SwitchDiff
from dnsteer.deploy.wanted import Wanted
from dnsteer.spec.errors import some_of
from dnsteer.switch import bridge as br
from dnsteer.switch import database as db
from dnsteer.switch.bridge_rows import Bridge
from dnsteer.switch.fragment_limit import Tracker
from dnsteer.switch.openflow import OpenFlow, Tables
from dnsteer.switch.settings_input import SettingsInput
from dnsteer.switch.state import REMOVED
from dnsteer.switch.table_changes import lines_to_restore
from dnsteer.switch.tools import SwitchError


def add_ports(
    wanted: Wanted, found: SwitchDiff, database: db.Database, client: OpenFlow, progress: Callable[[str], None]
) -> Tables:
    """Create the bridge and ports that are wanted, and return the tables then; nothing is removed yet."""
    if not found.adds_ports:
        database.wait_for_ports(wanted.bridge.name, [p.name for p in wanted.bridge.ports])
        return found.tables
    progress(f"bridge {wanted.bridge.name}: {some_of(found.settings, '; ')}")
    br.set_up_bridge(database, wanted.bridge, found.before)
    return _wait_for_ports_and_dump(wanted, database, client)


def _wait_for_ports_and_dump(wanted: Wanted, database: db.Database, client: OpenFlow) -> Tables:
    """Wait until the switch has the ports, and return its tables then."""
    database.wait_for_switch()
    database.wait_for_ports(wanted.bridge.name, [p.name for p in wanted.bridge.ports])
    return client.dump(wanted.lines, patience=database.timeout)


def restore_ports(wanted: Wanted, found: SwitchDiff, database: db.Database, client: OpenFlow, follow: bool) -> None:
    """Undo `add_ports`; with *follow* wait until a switch without the bridge has followed. Raises SwitchError."""
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
    changed = br.repair_settings(seen, database, client.ofctl)
    return br.finish(database, wanted.bridge, have) or changed


def _bridge(database: db.Database, name: str) -> Bridge:
    have = database.bridge(name)
    if have is None:
        raise SwitchError(REMOVED.format(name))
    return have
