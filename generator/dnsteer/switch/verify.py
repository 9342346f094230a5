"""Compare a running switch with a spec and name every difference, with the spec line behind it. Changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dnsteer.plan.bridge import wanted_bridge
from dnsteer.plan.build import build_plan
from dnsteer.plan.objects import Plan
from dnsteer.plan.pipeline import PIPELINE
from dnsteer.render.flows import Flow, Group, flows_of, groups_of
from dnsteer.spec.load import Loaded, digest
from dnsteer.switch import database as db
from dnsteer.switch.apply import bridge_changes, openflow_target
from dnsteer.switch.openflow import Changes, OpenFlow, changes

_BUCKET = re.compile(r"bucket=bucket_id:(\d+),(.*?)(?=,bucket=|$)")
_TABLE_NAMES = {t.number: t.name for t in PIPELINE.tables.values()}


@dataclass(frozen=True)
class Drift:
    """One difference: its kind, what it is about, the detail, and the line of the spec (0: not in the spec)."""

    kind: str
    about: str
    detail: str
    line: int = 0

    def as_json(self) -> dict[str, object]:
        """The drift as a JSON object."""
        return {"kind": self.kind, "about": self.about, "detail": self.detail, "line": self.line}


def verify(
    loaded: Loaded, remote: str, *, openflow: str | None = None, ignore_foreign: bool = False, timeout: float = 10
) -> list[Drift]:
    """All differences between the switch at *remote* and the spec. Raises SwitchError or Unavailable."""
    plan = build_plan(loaded)
    want = wanted_bridge(loaded.spec)
    base = db.Database(remote, timeout)
    try:
        settings = bridge_changes(base, want, adopt=True)
        drift = [Drift("bridge", f"bridge {want.name}", f"to do: {what}") for what in settings]
        have = base.bridge(want.name)
        if have is None:
            return drift
        for name, port in have.ports.items():
            if name in {p.name for p in want.ports} and (port.ofport is None or port.ofport < 0):
                drift.append(Drift("port", f"port {name}", port.error or "not open in the switch", _line(loaded, name)))
        applied = have.external_ids.get(db.DIGEST_KEY)
        if applied != digest(loaded.spec):
            said = f"another spec was applied (digest {applied[:16]})" if applied else "no spec was applied"
            drift.append(Drift("record", f"bridge {want.name}", said))
    finally:
        base.close()
    tables = OpenFlow(openflow_target(remote, want.name, openflow)).dump()
    wanted = {f.key for f in flows_of(plan)}
    if not ignore_foreign:
        drift += [
            Drift("foreign flow", f"table {_TABLE_NAMES[f.table]}", f"not dnsteer's: {f.line()}")
            for f in tables.other.values()
            if f.table in _TABLE_NAMES and f.key not in wanted
        ]
    taken = {key: f for key, f in tables.other.items() if key in wanted}
    tables.flows.update(taken)  # the right match with a cookie of somebody else: shown as changed
    for key in taken:
        del tables.other[key]
    todo = changes(flows_of(plan), groups_of(plan), tables)
    return drift + list(_flow_drift(plan, todo, tables.flows)) + list(_group_drift(plan, todo, tables.groups))


def _line(loaded: Loaded, port: str) -> int:
    part = "uplinks" if port in loaded.spec.switch.uplinks else "ports"
    return loaded.document.line(("switch", part, port))


def _flow_drift(plan: Plan, todo: Changes, have: dict[tuple[int, int, str], Flow]) -> Iterator[Drift]:
    for flow in todo.add:
        yield _about(plan, "flow missing", flow, flow.line())
    for flow in todo.replace:
        now = have[flow.key]
        what = "cookie" if now.actions == flow.actions else "actions"
        detail = f"{what} is {_part(now, what)}, should be {_part(flow, what)} (table={flow.table}, {flow.match})"
        yield _about(plan, "flow changed", flow, detail)
    for flow in todo.remove:
        yield _about(plan, "flow added", flow, flow.line())


def _part(flow: Flow, what: str) -> str:
    return flow.actions if what == "actions" else f"0x{flow.cookie:x}"


def _about(plan: Plan, kind: str, flow: Flow, detail: str) -> Drift:
    subject = plan.subjects.get(flow.cookie)
    if subject is None:
        return Drift(kind, "an object that is not in the spec", detail)
    return Drift(kind, subject.title, detail, subject.line)


def _group_drift(plan: Plan, todo: Changes, have: dict[int, Group]) -> Iterator[Drift]:
    subjects = {row.group: row.subject for row in plan.groups}
    for group in (*todo.add_groups, *todo.replace_groups):
        subject = subjects[group.number]
        if group.number not in have:
            yield Drift("group missing", subject.title, f"group {group.number}", subject.line)
            continue
        now, want = _buckets(have[group.number]), _buckets(group)
        slots = [s for s in sorted(want.keys() | now.keys()) if want.get(s) != now.get(s)]
        shown = ", ".join(map(str, slots[:16])) + (", ..." if len(slots) > 16 else "")
        detail = f"group {group.number}: {f'slots {shown} differ' if slots else 'its settings differ'}"
        yield Drift("group changed", subject.title, detail, subject.line)
    for group in todo.remove_groups:
        yield Drift("group added", "an object that is not in the spec", f"group {group.number}")


def _buckets(group: Group) -> dict[int, str]:
    return {int(slot): actions for slot, actions in _BUCKET.findall(group.text)}
