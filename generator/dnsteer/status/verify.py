# SPDX-License-Identifier: Apache-2.0
"""Compare a running switch with a spec and name every difference, with the spec line behind it. Changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dnsteer.deploy.maintenance_text import begun_and_ended
from dnsteer.deploy.role import standby_flows
from dnsteer.deploy.times import now
from dnsteer.plan import min_fragment
from dnsteer.plan.bridge import wanted_bridge
from dnsteer.plan.build import build_plan
from dnsteer.plan.plan import Plan
from dnsteer.plan.pool_slots import keep_slots
from dnsteer.plan.tracked_zone import zone_settings
from dnsteer.plan.tunnel_routes import TunnelRoute, tunnel_routes
from dnsteer.render.flows import Flow, Group, groups_of, lines_of, parse_flow
from dnsteer.render.meters import Meter, meters_of
from dnsteer.slots.maintenance import NO_OVERLAY
from dnsteer.spec.document import SpecPlace
from dnsteer.spec.errors import file_of_part, some_of
from dnsteer.spec.loaded import Loaded
from dnsteer.switch import bridge as br
from dnsteer.switch import database as db
from dnsteer.switch.bridge_rows import Bridge
from dnsteer.switch.captures import capture_warning
from dnsteer.switch.connection_zone import ConnectionZone
from dnsteer.switch.datapaths import megaflows_disabled
from dnsteer.switch.foreign_flows import find_foreign_flows
from dnsteer.switch.fragment_limit import Tracker
from dnsteer.switch.openflow import OpenFlow, Tables
from dnsteer.switch.restart_fence import with_fence
from dnsteer.switch.role import is_standby, role_warnings
from dnsteer.switch.session import Session
from dnsteer.switch.setting_limits import SettingsInput
from dnsteer.switch.settings import OTHERS, SettingLevel, deviations
from dnsteer.switch.state import DIGEST_KEY, BridgeRecord
from dnsteer.switch.table_changes import TableChanges, compare_tables, other_numbers, uses_numbers, with_own_numbers
from dnsteer.switch.tools import UnavailableError, openflow_target
from dnsteer.switch.tunnel_table import TunnelTable
from dnsteer.switch.withdrawals import withdrawal_warnings
from dnsteer.tables.cookies import FENCE, Subject
from dnsteer.tables.meter_rows import MeterRow
from dnsteer.tables.return_ import FragmentRow
from dnsteer.tables.slot import GroupRow
from dnsteer.tables.vip import ServiceRow

_BUCKET = re.compile(r"bucket=bucket_id:(\d+),(.*?)(?=,bucket=|$)")
_MAX_SLOTS = 16
_TRIES = 5
CAPTURED = "capture"
"""The kind of what is said of a capture."""
_NOT_OPEN, _NOT_WORKING = "port not open", ("port gone", "extension away", "extension degraded")
_PATIENCE = 5.0
"""Seconds for the extension: that it is stuck is only one of the differences."""


_RENUMBERED = (
    "another version of dnsteer made the tables, with other numbers; to bring those of this version without a lost query: "
    "dnsteer restore"
)


@dataclass(frozen=True)
class Drift:
    """One difference: its kind, what it is about, the detail, and the line of the spec (0: not in the spec).

    *warns*: it is none: a setting that is not dnsteer's and changes what becomes of packets, or other table numbers.
    *of_others*: it is not dnsteer's, so `dnsteer restore` leaves it. *of*: the setting or the flow of others, where *about*
    is not enough to find the same difference again, in another spec or with another value. *part* is the file of the spec,
    relative to the folder of its own; empty for that file itself.
    """

    kind: str
    about: str
    detail: str
    line: int = 0
    warns: bool = False
    of_others: bool = False
    of: str = ""
    part: str = ""

    @staticmethod
    def at(place: SpecPlace | Subject | None, kind: str, about: str, detail: str, **more: Any) -> Drift:
        """A difference of what is written at a place of the spec; None: of nothing there."""
        if place is None:
            return Drift(kind, about, detail, **more)
        return Drift(kind, about, detail, place.line, part=place.part, **more)

    def text(self, file: str) -> str:
        """As a sentence; *file* is the spec's."""
        at = f" ({file_of_part(file, self.part)}:{self.line})" if self.line else ""
        return f"{'' if self.warns else f'{self.kind}: '}{self.about}{at}: {self.detail}"

    def as_json(self, file: str) -> dict[str, object]:
        """The drift as a JSON object; *file* is the spec's own.

        Its id is that of the same difference of another spec, or with another value, too.
        """
        same = ", ".join(filter(None, (self.kind, self.about, self.of)))
        return {
            "id": same,
            "kind": self.kind,
            "about": self.about,
            "detail": self.detail,
            "line": self.line,
            "file": file_of_part(file, self.part) if self.line else "",
        }


def find_drift(
    loaded: Loaded,
    remote: str,
    *,
    openflow: str | None = None,
    ignore_foreign: bool = False,
    timeout: float = 10,
    extension: str | None = None,
) -> list[Drift]:
    """All differences between the switch at *remote* and the spec, with an extension also of its program; then warnings.

    *extension* is its control socket, where that is not the spec's. Raises SwitchError or UnavailableError.
    """
    for _ in range(_TRIES):
        with Session(remote, timeout) as session:
            record = session.record(loaded.spec.switch.bridge)
            applied = keep_slots(loaded, session.pools(record))
            drift = _drift(applied, record, remote, openflow, ignore_foreign, timeout, extension)
            again = session.record(loaded.spec.switch.bridge)
        if not drift or again is None or record is None or again.ids == record.ids:
            break  # else somebody changed the switch meanwhile, and what was read are two different things
    return drift


def left_by_apply(drift: Sequence[Drift]) -> list[Drift]:
    """Return the differences that are still there once the spec is applied: what is not dnsteer's, ports whose device does
    not work, and an extension that does not."""
    replaced = {
        d.about for d in drift if d.kind == "port changed" and not d.of_others
    }  # it may open as the spec has it
    return [
        d for d in drift if d.of_others or d.kind in _NOT_WORKING or (d.kind == _NOT_OPEN and d.about not in replaced)
    ]


def in_force(loaded: Loaded, remote: str, timeout: float = 10) -> list[str]:
    """What people and the agent have changed of the spec for a time: each entry of the overlay, VIPs that are withdrawn, and
    a switch on standby, in words. Raises SwitchError or UnavailableError."""
    with Session(remote, timeout) as session:
        record = session.record(loaded.spec.switch.bridge)
    if record is None:
        return []
    words = begun_and_ended(NO_OVERLAY, record.overlay)
    return [*words, *withdrawal_warnings(record, now()), *role_warnings(record, remote)]


def _drift(
    loaded: Loaded,
    record: BridgeRecord | None,
    remote: str,
    openflow: str | None,
    ignore_foreign: bool,
    timeout: float,
    extension: str | None,
) -> list[Drift]:
    plan = build_plan(loaded, record.overlay if record else NO_OVERLAY)
    want = wanted_bridge(loaded.spec)
    with db.Database(remote, timeout) as base:
        have, config = base.bridge(plan.bridge), base.config()
    drift = [*_other_switch(loaded, record), *_bridge_drift(loaded, have), *_interrupted(record), *_captured(record)]
    if plan.extension is not None and plan.extension.services:
        drift += _program_drift(loaded, plan, extension, timeout)
    if have is None:
        return drift
    lines = dict.fromkeys(lines_of(plan))
    no_megaflows = megaflows_disabled(remote, {port.name for port in want.ports}, timeout)
    inputs = SettingsInput(loaded.spec, plan, want, have, config, None, lines, no_megaflows)
    if br.lacks_protocol(have):
        return [*drift, *_settings(loaded, inputs, ignore_foreign)]  # its tables cannot be read
    try:
        client = OpenFlow(openflow_target(remote, plan.bridge, openflow), timeout=timeout)
        tables = client.dump(lines)
    except UnavailableError:
        if br.other_datapath(want, have):
            return [*drift, *_settings(loaded, inputs, ignore_foreign)]
        raise
    drift += _fragment_drift(loaded, plan, remote, timeout)
    drift += _zone_drift(loaded, remote, timeout)
    drift += _tunnel_drift(loaded, plan, remote, timeout)
    groups = groups_of(plan)
    wanted = {parse_flow(line).key for line in lines} if tables.other else set()
    for key in list(tables.other):
        if key in wanted:
            tables.flows[key] = tables.other.pop(key)  # the right match with somebody else's cookie: a changed flow
    if tables.other and not ignore_foreign:
        foreign = find_foreign_flows(tables, lines, plan, client)
        drift += [
            Drift("foreign flow", f"table {each.table}", each.detail, of_others=True, of=each.line) for each in foreign
        ]
    numbers = other_numbers(have)
    if uses_numbers(tables.flows.values(), numbers):
        drift = [each for each in drift if each.detail != br.NOT_NAMED]
        drift.append(Drift("tables renumbered", f"bridge {plan.bridge}", _RENUMBERED, warns=True))
        tables = with_own_numbers(tables, numbers)
    drift += _role_drift(loaded, record, remote, tables)
    todo = with_fence(compare_tables(lines, groups, tables, meters_of(plan)), tables)
    drift += [*_flow_drift(plan, todo, tables), *_group_drift(plan, todo, {**tables.groups, **tables.other_groups})]
    drift += _meter_drift(plan, todo, tables.meters)
    return [*drift, *_settings(loaded, replace(inputs, tables=tables), ignore_foreign)]


def _role_drift(loaded: Loaded, record: BridgeRecord | None, remote: str, tables: Tables) -> Iterator[Drift]:
    """That a switch answers ARP on standby, or does not where it should."""
    standby = record is not None and is_standby(record, remote)
    wanted = {flow.key: flow for flow in (standby_flows(loaded.spec) if standby else [])}
    if wanted != tables.standby:
        detail = (
            "it is on standby and may answer ARP" if standby else "flows of a standby switch keep it from answering ARP"
        )
        yield Drift("role", f"bridge {loaded.spec.switch.bridge}", f"{detail}; dnsteer role says what it should be")


def _settings(loaded: Loaded, inputs: SettingsInput, ignore_foreign: bool) -> Iterator[Drift]:
    """Return deviating settings: the differences first, then the warnings."""
    for d in [*deviations(inputs, SettingLevel.SET, SettingLevel.NAMED), *deviations(inputs, SettingLevel.WARNED)]:
        if d.setting.name == OTHERS and ignore_foreign:
            continue
        path = br.path_of(loaded.spec, d)
        place = loaded.document.place(path) if path else None
        warns, of_others = d.level is SettingLevel.WARNED, d.level is not SettingLevel.SET
        yield Drift.at(place, d.kind, d.about, d.detail, warns=warns, of_others=of_others, of=d.setting.name)


def _bridge_drift(loaded: Loaded, have: Bridge | None) -> Iterator[Drift]:
    want, place = wanted_bridge(loaded.spec), loaded.document.place
    for d in br.bridge_differences(loaded.spec, want, have):
        yield Drift.at(place(d.path) if d.path else None, d.kind, d.about, d.detail)
    if have is None:
        return
    for port in want.devices:
        now = have.devices.get(port.name)
        if now is not None and (now.ofport is None or now.ofport < 0):
            why = now.error or "the switch has not opened it yet"
            path = br.path_of_port(loaded.spec, port.name)
            yield Drift.at(place(path), _NOT_OPEN, f"port {port.name}", why)
        elif now is not None and now.gone:
            path = br.path_of_port(loaded.spec, port.name)
            detail = "its network device is gone; bring it back, then: dnsteer restore"
            yield Drift.at(place(path), "port gone", f"port {port.name}", detail)
    applied = have.external_ids.get(DIGEST_KEY)
    if applied != loaded.digest:
        said = f"another spec was applied (digest {applied[:16]})" if applied else "no spec was applied"
        yield Drift("record", f"bridge {want.name}", said)


def _other_switch(loaded: Loaded, record: BridgeRecord | None) -> Iterator[Drift]:
    name = loaded.spec.switch.name
    if record is not None and record.name and record.name != name:
        said = f"the spec is for switch {name}" if name else "the spec names no switch (switch.name)"
        yield Drift.at(loaded.document.place(("switch", "name")), "other switch", f"switch {record.name}", said)


def _interrupted(record: BridgeRecord | None) -> Iterator[Drift]:
    if record is not None and record.pending is not None:
        detail = "a change is pending; the next command that changes the switch, or dnsteer restore, settles it"
        yield Drift("interrupted", f"bridge {record.bridge}", detail)


def _captured(record: BridgeRecord | None) -> Iterator[Drift]:
    said = capture_warning(record) if record is not None else ""
    if record is not None and said:
        yield Drift(CAPTURED, f"bridge {record.bridge}", said, warns=True)


def _fragment_drift(loaded: Loaded, plan: Plan, remote: str, timeout: float) -> Iterator[Drift]:
    """A connection tracker with another smallest fragment than it should have, where that can be read."""
    size = min_fragment.required_size(plan, wanted_bridge(loaded.spec).datapath_type)
    found = Tracker(remote, timeout).compare(size) if size is not None else None
    if found is None or not found.differs:
        return
    first = next(row.vip for row in plan.rows.of(FragmentRow) if row.family == "ipv4")
    name = next(name for name, vip in loaded.spec.vips.items() if first in map(str, vip.addresses))
    detail = f"{min_fragment.NAME} is {found.now} bytes, should be {size}: NAT answers in smaller fragments are lost"
    yield Drift.at(loaded.document.place(("vips", name)), "setting", f"VIP {name}", detail)


def _zone_drift(loaded: Loaded, remote: str, timeout: float) -> Iterator[Drift]:
    """A zone of kept connections with another limit or other time-outs than it should have, where that can be read."""
    settings, bridge = zone_settings(loaded.spec), wanted_bridge(loaded.spec)
    if settings is None:
        return
    found = ConnectionZone(remote, timeout, bridge.name, bridge.datapath_type).compare(settings)
    if found.differs:
        yield Drift.at(loaded.document.place(("switch", "tracking")), "setting", f"bridge {bridge.name}", found.todo)


def _tunnel_drift(loaded: Loaded, plan: Plan, remote: str, timeout: float) -> Iterator[Drift]:
    """Routes of tunnels that are missing or left, where that can be read."""
    wanted = tunnel_routes(plan)
    if wanted is None:
        return
    found = TunnelTable(remote, timeout, plan.bridge).compare(wanted)
    place = loaded.document.place(("switch", "tunnel"))
    if found.missing:
        detail = f"ovs-vswitchd has no route to {_some(found.missing)}: these backends get nothing"
        yield Drift.at(place, "setting", f"bridge {plan.bridge}", detail, of="missing routes")
    if found.left:
        detail = f"ovs-vswitchd has routes of no tunnel, to {_some(found.left)}"
        yield Drift.at(place, "setting", f"bridge {plan.bridge}", detail, of="other routes")


def _some(routes: Sequence[TunnelRoute]) -> str:
    return some_of([route.prefix.partition("/")[0] for route in routes])


def _flow_drift(plan: Plan, todo: TableChanges, have: Tables) -> Iterator[Drift]:
    for flow in todo.add:
        yield _about(plan, "flow missing", flow, flow.line())
    for flow in todo.replace:
        now = have.flows[flow.key]
        parts = []
        if now.cookie != flow.cookie:
            parts.append(f"cookie is 0x{now.cookie:x}, should be 0x{flow.cookie:x}")
        if now.actions != flow.actions:
            parts.append(f"actions are {now.actions}, should be {flow.actions}")
        if flow.key in have.flags:
            parts.append(f"has {have.flags[flow.key].strip(', ')}, should have none")
        yield _about(plan, "flow changed", flow, f"{flow.spec()}: {'; '.join(parts)}")
    for flow in todo.remove:
        yield _about(plan, "flow added", flow, have.line(flow))


def _program_drift(loaded: Loaded, plan: Plan, control: str | None, timeout: float) -> Iterator[Drift]:
    """Return how the extension's program differs, by VIP. An extension that cannot be reached is a difference."""
    from dnsteer.extension import handover  # here, since most switches do without
    from dnsteer.extension.client import ExtensionClient, socket_path

    part, place = loaded.spec.switch.extension, loaded.document.place(("switch", "extension"))
    program = ExtensionClient(socket_path(control, part.control if part else ""), min(timeout, _PATIENCE))
    found = handover.plan_handover(plan, program, needed=False)
    if found.away is not None:
        denied = found.away if isinstance(found.away, PermissionError) else None
        said = f"{denied.filename}: {denied.strerror}; run as root or as the owner" if denied else str(found.away)
        yield Drift.at(place, "extension away", "extension", said)
    for fault in found.faults:
        yield Drift.at(place, "extension degraded", "extension", fault)
    vips = {(s.address, s.protocol, s.port): s.subject for s in plan.rows.of(ServiceRow) if s.extended}
    for d in found.differences:
        subject = vips.get(d.key) if d.key else None
        title = subject.title if subject else f"VIP {d.name}" if d.key else f"extension, {d.name}"
        yield Drift.at(subject if d.key else place, f"extension {d.kind}", title, d.detail)
    if found.loads and not found.differences and not found.faults:
        yield Drift.at(place, "extension changed", "extension", "its program does not match the spec")


def _about(plan: Plan, kind: str, flow: Flow, detail: str) -> Drift:
    subject = plan.subject(flow.cookie)
    return Drift.at(
        subject, kind, subject.title if subject is not None else "an object that is not in the spec", detail
    )


def _group_drift(plan: Plan, todo: TableChanges, have: dict[int, Group]) -> Iterator[Drift]:
    subjects = {row.group: row.subject for row in plan.rows.of(GroupRow)}
    subjects[FENCE] = plan.pipeline
    for group in todo.add_groups:
        subject = subjects[group.number]
        yield Drift.at(subject, "group missing", subject.title, f"group {group.number}")
    for group in todo.replace_groups:
        now, want = _buckets(have[group.number]), _buckets(group)
        slots = [s for s in sorted(want.keys() | now.keys()) if want.get(s) != now.get(s)]
        shown = ", ".join(map(str, slots[:_MAX_SLOTS])) + (", ..." if len(slots) > _MAX_SLOTS else "")
        what = f"slot{'s' if len(slots) > 1 else ''} {shown} differ{'s' if len(slots) == 1 else ''}"
        detail = f"group {group.number}: {what if slots else 'its settings differ'}"
        subject = subjects[group.number]
        yield Drift.at(subject, "group changed", subject.title, detail)
    for group in todo.remove_groups:
        yield Drift("group added", "an object that is not in the spec", f"group {group.number}")


def _meter_drift(plan: Plan, todo: TableChanges, have: dict[int, Meter]) -> Iterator[Drift]:
    subjects = {row.number: row.subject for row in plan.rows.of(MeterRow)}
    for meter in todo.add_meters:
        subject = subjects[meter.number]
        yield Drift.at(subject, "meter missing", subject.title, f"meter {meter.number}")
    for meter in todo.replace_meters:
        subject = subjects[meter.number]
        yield Drift.at(
            subject, "meter changed", subject.title, f"it is {have[meter.number].text}, should be {meter.text}"
        )
    for meter in todo.remove_meters:
        yield Drift("meter added", "an object that is not in the spec", meter.text)


def _buckets(group: Group) -> dict[int, str]:
    return {int(slot): actions for slot, actions in _BUCKET.findall(group.text)}
