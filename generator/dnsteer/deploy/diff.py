# SPDX-License-Identifier: Apache-2.0
"""The step that compares a switch with what is wanted. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dnsteer.deploy.wanted_switch import WantedSwitch
from dnsteer.render.flows import parse_flow
from dnsteer.switch import bridge as br
from dnsteer.switch import database as db
from dnsteer.switch.bridge_rows import Bridge
from dnsteer.switch.connection_zone import ConnectionZone, FoundZone
from dnsteer.switch.foreign_flows import ForeignFlow, find_foreign_flows, foreign_flow_warnings
from dnsteer.switch.fragment_limit import Smallest, Tracker
from dnsteer.switch.openflow import OpenFlow, Tables
from dnsteer.switch.restart_fence import with_fence
from dnsteer.switch.setting_limits import SettingsInput
from dnsteer.switch.settings import WAITS, SettingLevel, deviations
from dnsteer.switch.table_changes import TableChanges, compare_tables, other_numbers, uses_numbers
from dnsteer.switch.tools import UnavailableError
from dnsteer.switch.tunnel_table import FoundRoutes, TunnelTable
from dnsteer.tables.order import PIPELINE

if TYPE_CHECKING:
    from dnsteer.extension.handover import Handover

_EXTENSION = PIPELINE.holding("exits").number
_SHORT = 5.0
"""Seconds for an extension that is not needed: a switch that waits for its flows must not wait for it."""


@dataclass(frozen=True)
class SwitchDiff:
    """The differences in OVSDB, in the tables and in the extension's program.

    *warnings* are of settings that are not dnsteer's, *foreign* the flows of others in dnsteer's tables. *fragment* is the
    tracker's smallest one, where it matters and there is a bridge; *zone* likewise that of connections that are kept, and
    *tunnels* the routes of tunnels.
    """

    before: Bridge | None
    differ: list[br.BridgeDifference]
    tables: Tables
    flows: TableChanges
    handover: Handover | None = None
    warnings: Sequence[str] = ()
    fragment: Smallest | None = None
    zone: FoundZone | None = None
    tunnels: FoundRoutes | None = None
    foreign: Sequence[ForeignFlow] = ()

    @property
    def warnings_of_others(self) -> list[str]:
        """What others have set or loaded that stops or changes traffic."""
        return [*foreign_flow_warnings(self.foreign), *self.warnings]

    @property
    def settings(self) -> list[str]:
        """What must change apart from tables and program, in words."""
        return [*(d.todo for d in self.differ), *self.tracker]

    @property
    def tracker(self) -> list[str]:
        """What must change in ovs-vswitchd alone, the connection tracker and routes of tunnels, in words."""
        return [found.todo for found in (self.fragment, self.zone, self.tunnels) if found is not None and found.differs]

    @property
    def tracker_warnings(self) -> list[str]:
        """What of that cannot be read, in words."""
        return [
            found.warning for found in (self.fragment, self.zone, self.tunnels) if found is not None and found.warning
        ]

    @property
    def adds_ports(self) -> bool:
        """Whether the bridge or its ports change before the tables do."""
        return any(difference.first for difference in self.differ)

    @property
    def loads(self) -> bool:
        """Whether the extension gets another program."""
        return self.handover is not None and self.handover.loads

    @property
    def changed(self) -> bool:
        return bool(self.settings) or bool(self.flows) or self.loads


def compute_and_diff(
    wanted: WantedSwitch,
    database: db.Database,
    client: OpenFlow,
    control: str | None,
    *,
    adopt: bool = False,
    reclaim: bool = False,
    needs_extension: bool = True,
    foreign_flows: bool = True,
) -> SwitchDiff:
    """Compute the plan while the switch dumps its tables, and compare. *control* is the extension's socket where given.

    Unless it *needs_extension*, the extension may be away. With *reclaim* a flow without a cookie that has the table,
    priority and match of one of dnsteer's counts as that flow, changed by hand. What *foreign_flows* do is looked up
    unless nobody asks. Raises SwitchError or its kinds.
    """
    want = wanted.bridge
    before = database.bridge(want.name)
    br.refuse_foreign(database, want, before, adopt)
    with client.dumping():
        wanted.compute()  # meanwhile
        tables = _read_tables(wanted, client, before, database.timeout)
    if reclaim:
        _reclaim(tables, wanted)
    flows = with_fence(compare_tables(wanted.lines, wanted.groups, tables, wanted.meters), tables)
    if before is not None and uses_numbers(flows.remove, other_numbers(before)):
        flows = replace(flows, renumbered=True)
    handover = _read_handover(wanted, flows, control, database.timeout, needs_extension)
    differ = br.bridge_differences(wanted.loaded.spec, want, before)
    warnings: list[str] = []
    fragment: Smallest | None = None
    zone: FoundZone | None = None
    # Also without the bridge: routes of an earlier one of its name may be left. With a port of tunnels, of a killed apply.
    concerned = wanted.concerns_tunnels or (before is not None and br.has_tunnel_ports(before))
    tunnels = tunnel_table(wanted, database).compare(wanted.tunnel_routes) if concerned else None
    if before is not None:
        seen = SettingsInput(wanted.loaded.spec, wanted.plan, want, before, database.config(), tables, wanted.lines)
        differ += br.setting_differences(seen)
        found = deviations(seen, SettingLevel.NAMED, SettingLevel.WARNED)
        warnings = [f"{d.about}: {d.detail}" for d in found if d.kind != WAITS]  # the summary has that one
        size = wanted.smallest_fragment
        fragment = Tracker(database.remote, database.timeout).compare(size) if size is not None else None
        zone = zone_of_tracker(wanted, database).compare(wanted.connection_zone) if wanted.concerns_tracker else None
    looks_up = foreign_flows and bool(tables.other)
    foreign = find_foreign_flows(tables, wanted.lines, wanted.plan, client) if looks_up else []
    return SwitchDiff(before, differ, tables, flows, handover, warnings, fragment, zone, tunnels, foreign)


def zone_of_tracker(wanted: WantedSwitch, database: db.Database) -> ConnectionZone:
    """The tracker's zone of the connections to a bridge."""
    bridge = wanted.bridge
    return ConnectionZone(database.remote, database.timeout, bridge.name, bridge.datapath_type)


def tunnel_table(wanted: WantedSwitch, database: db.Database) -> TunnelTable:
    """The routes of tunnels of a bridge."""
    return TunnelTable(database.remote, database.timeout, wanted.bridge.name)


def _read_tables(wanted: WantedSwitch, client: OpenFlow, before: Bridge | None, timeout: float) -> Tables:
    """Read the tables, if there are any."""
    if before is None or br.lacks_protocol(before):
        client.end_dump()
        return Tables()
    other = br.other_datapath(wanted.bridge, before)
    try:
        if other:
            client.end_dump()  # which may have failed for that
            tables = client.dump(wanted.lines)
        else:
            tables = client.dump(wanted.lines, patience=timeout)
    except UnavailableError:
        if other:
            return Tables()
        raise
    if before.fail_mode != br.FAIL_MODE:
        # The flow by which the switch forwards everything in this mode; it goes with the mode.
        own = tables.other.get((0, 0, ""))
        if own is not None and own.actions == "NORMAL":
            del tables.other[own.key]
    return tables


def _reclaim(tables: Tables, wanted: WantedSwitch) -> None:
    """Count flows that somebody put in the place of dnsteer's as dnsteer's. One with a cookie is its owner's."""
    if not tables.other:
        return
    planned = {parse_flow(line).key for line in wanted.lines if line not in tables.same}
    for key in [key for key, flow in tables.other.items() if not flow.cookie and key in planned]:
        tables.flows[key] = tables.other.pop(key)


def _read_handover(
    wanted: WantedSwitch, flows: TableChanges, control: str | None, timeout: float, needs_extension: bool
) -> Handover | None:
    """Plan the handover of the extension's program, if there is or was an extension."""
    extension = wanted.plan.extension
    had_one = any(f.table == _EXTENSION and f.priority for f in flows.remove)
    path = wanted.control_socket(control) if extension is not None or had_one else ""
    if not path:
        return None
    from dnsteer.extension.client import ExtensionClient
    from dnsteer.extension.handover import plan_handover  # here, since most switches do without

    needed = needs_extension and extension is not None and bool(extension.services)
    patience = timeout if needed else min(timeout, _SHORT)
    try:
        return plan_handover(wanted.plan, ExtensionClient(path, patience), needed=needed)
    except UnavailableError as err:
        raise UnavailableError(f"{err}; nothing was changed") from None
