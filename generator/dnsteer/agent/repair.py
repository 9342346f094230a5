# SPDX-License-Identifier: Apache-2.0
"""Look at the whole switch, and put right what is not as recorded: flows, groups, ports and settings."""

from __future__ import annotations

from dataclasses import replace

from dnsteer import __version__
from dnsteer.agent.held_switch import HeldSwitch
from dnsteer.deploy.apply import apply_change
from dnsteer.deploy.diff import SwitchDiff, compute_and_diff
from dnsteer.deploy.journal import JournalEntry
from dnsteer.deploy.restore import restore
from dnsteer.deploy.role import bring_role
from dnsteer.deploy.settle import settle_or_keep
from dnsteer.deploy.target_switch import Progress
from dnsteer.deploy.wanted_switch import WantedSwitch
from dnsteer.metrics.observer import SwitchInspection
from dnsteer.render.flows import Flow, Group
from dnsteer.render.meters import Meter
from dnsteer.render.templates import about
from dnsteer.slots.maintenance import marker
from dnsteer.spec.errors import counted
from dnsteer.switch.state import DamagedError
from dnsteer.switch.tools import SwitchError
from dnsteer.tables.meter_rows import MeterRow
from dnsteer.tables.slot import GroupRow

_PATIENCE = 1.0
"""Seconds to wait for another dnsteer that is changing the bridge: its change is no reason to stop probes."""
_NAMED = 5
"""Differences that are named one by one."""


def inspect_switch(switch: HeldSwitch, bridge: str, *, repair: bool, progress: Progress) -> SwitchInspection:
    """Compare the switch with the record, and with *repair* put right what differs.

    Raises SwitchError; BusyError when another dnsteer is changing the bridge.
    """
    memory = switch.memory
    events = memory.events
    with replace(switch, timeout=min(switch.timeout, _PATIENCE)).session() as session:
        session.lock(bridge)
        session.timeout = switch.timeout
        record = settle_or_keep(switch, session, session.record_of(bridge), progress)
        if not record.number:
            return SwitchInspection()
        state = session.state(record, record.number)
        client = switch.client(bridge)
        if state.version != __version__ and client.marker() is not None:
            return SwitchInspection(other_version=state.version)
        wanted = switch.wanted(state, record.overlay)
        failed: SwitchError | None = None
        role = False
        try:  # first: what is found wrong with the tables may take longer, or not be mended at all
            role = bring_role(session, client, bridge, wanted.loaded.spec, dry_run=not repair)
        except DamagedError:
            raise
        except SwitchError as err:  # such as of a bridge without OpenFlow 1.5, which is mended below
            failed = err
        with switch.database() as database:
            found = compute_and_diff(
                wanted,
                database,
                client,
                switch.extension,
                adopt=True,
                reclaim=True,
                needs_extension=False,
                foreign_flows=False,
            )
            if failed is not None and not found.changed:
                raise failed
            if found.changed and repair:
                entry = JournalEntry(bridge, state, record.overlay)
                apply_change(wanted, found, entry, session, database, client, grace=0, needs_extension=False)
    if record.waits and repair:
        restore(switch, bridge, progress=progress)
    if not found.changed and not role:
        memory.intact_at = bridge, marker(state.digest, record.overlay), events
    return SwitchInspection(
        (*_words(found, wanted, repair), *(["flows of the switch's role"] if role else [])),
        flows=len(found.flows),
        settings=len(found.settings) + found.loads,
        warnings=tuple(found.warnings),
        foreign=tuple(f"{found.tables.line(flow)}" for flow in found.tables.other.values()),
    )


def _words(found: SwitchDiff, wanted: WantedSwitch, repair: bool) -> list[str]:
    """Return the differences in words; with *repair* of settings what was done about them."""

    def shown(flow: Flow) -> str:
        subject = wanted.plan.subject(flow.cookie)
        return f"{flow.line()}  # {about(subject, wanted.loaded.file)}" if subject is not None else flow.line()

    def named(group: Group) -> str:
        pool = next((row.subject for row in wanted.plan.rows.of(GroupRow) if row.group == group.number), None)
        return f"{group.number}{f' ({about(pool, wanted.loaded.file)})' if pool is not None else ''}"

    todo = found.flows
    rows = {row.number: row for row in wanted.plan.rows.of(MeterRow)} if todo.meters else {}

    def metered(meter: Meter) -> str:
        row = rows.get(meter.number)
        return f"{meter.number}{f' ({about(row.subject, wanted.loaded.file)})' if row is not None else ''}"

    words = [f"{d.by}: {d.todo}" if repair else f"{d.about} {d.detail}" for d in found.differ]
    words += found.tracker
    if found.loads:
        words.append("the extension has another program than the recorded one")
    if len(todo.add) == len(wanted.lines):
        return [*words, f"the switch has lost its tables ({counted(len(todo.add), 'flow')})"]
    one_by_one = [  # meters first: their flows go with them
        *(f"missing meter: {metered(meter)}" for meter in todo.add_meters),
        *(f"changed meter: {metered(meter)}" for meter in todo.replace_meters),
        *(f"meter in dnsteer's range that is not planned: {meter.number}" for meter in todo.remove_meters),
        *(f"missing flow: {shown(flow)}" for flow in todo.add),
        *(f"changed flow: {shown(flow)}" for flow in todo.replace),
        *(f"flow with dnsteer's cookie that is not planned: {flow.line()}" for flow in todo.remove),
        *(f"missing group: {named(group)}" for group in todo.add_groups),
        *(f"changed group: {named(group)}" for group in todo.replace_groups),
        *(f"group in dnsteer's range that is not planned: {group.number}" for group in todo.remove_groups),
    ]
    more = len(one_by_one) - _NAMED
    return [*words, *one_by_one[:_NAMED], *([f"and {more} more flows, groups and meters"] if more > 0 else [])]
