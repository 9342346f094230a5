# SPDX-License-Identifier: Apache-2.0
"""What a deployment would do: computed from the diff, as sentences for people, and as JSON for programs."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dnsteer.deploy import movement
from dnsteer.deploy.bounded_lists import SentenceGroup
from dnsteer.deploy.denial_effects import denial_warnings
from dnsteer.deploy.diff import SwitchDiff
from dnsteer.deploy.goal import Goal
from dnsteer.deploy.movement import Assignment
from dnsteer.deploy.spec_differences import SpecDifference, compare_specs
from dnsteer.deploy.wanted_switch import WantedSwitch
from dnsteer.plan.plan import Plan
from dnsteer.render.flows import Flow
from dnsteer.render.templates import about
from dnsteer.slots.maintenance import MOVES_SLOTS, Maintenance, Overlay
from dnsteer.spec import derived
from dnsteer.spec.document import Document
from dnsteer.spec.errors import counted as counted_things
from dnsteer.spec.errors import file_of_part, some_of
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Spec, Vip
from dnsteer.switch.state import NOT_FORWARDING, AppliedState, BridgeRecord
from dnsteer.switch.table_changes import TableChanges
from dnsteer.switch.tools import SwitchError
from dnsteer.tables.cookies import OBJECT_BITS, Category, cookie

if TYPE_CHECKING:
    from dnsteer.deploy.extension_program import ProgramChange

_COUNTED = (
    ("flows_added", "add", "flow"),
    ("flows_changed", "replace", "flow"),
    ("flows_removed", "remove", "flow"),
    ("groups_added", "add_groups", "group"),
    ("groups_changed", "replace_groups", "group"),
    ("groups_removed", "remove_groups", "group"),
    ("meters_added", "add_meters", "meter"),
    ("meters_changed", "replace_meters", "meter"),
    ("meters_removed", "remove_meters", "meter"),
    ("others_restored", "restore", "foreign flow or group"),
)
_THINGS = {"vip": "VIP"}
"""Objects of the spec as they are written."""


@dataclass
class PlanSummary:
    """What a deployment would do. *old* is the state that is applied now, None if none can be read.

    *differences* are those of the specs. *role* is the one that a switch without one gets, as it is
    recorded; *named* what becomes of the switch's name. *ended* is maintenance that ends, and
    *returned* what a rollback restores, all in words. *notes* are informational.
    """

    loaded: Loaded
    plan: Plan
    found: SwitchDiff
    system: str
    record: BridgeRecord | None
    old: AppliedState | None
    overlay: Overlay
    differences: list[SpecDifference]
    moves: list[movement.Move]
    ask: list[str]
    warnings: list[str]
    record_stale: bool
    role: str = ""
    named: str = ""
    program: ProgramChange | None = None
    ended: list[str] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return self.found.changed or self.writes_record

    @property
    def writes_record(self) -> bool:
        return self.record_stale or bool(self.role)

    @property
    def question(self) -> object:
        """What the operator is asked: the reasons, and what they were found on. None: there is nothing to ask."""
        return (self.ask, self.basis()) if self.ask and self.changed else None

    def basis(self) -> dict[str, Any]:
        """Return what the plan depends on: the switch, its current state, and the resulting changes."""
        record, bridge = self.record, self.found.before
        what = bridge and [bridge.datapath_type, bridge.fail_mode, list(bridge.protocols), sorted(bridge.ports)]
        program = {} if self.program is None else {"the program of the extension": hash_of(self.program.basis)}
        return {
            **program,
            "switch": self.system,
            "state": record.number if record else 0,
            "applied spec": record.digest if record else "",
            "overlay": record.overlay.to_json() if record else "[]",
            "bridge and ports": hash_of(what),
            "settings": self.found.settings,
            "its flows or groups": hash_of(self.found.flows.bundle()),
            "its meters": hash_of([[m.text for m in part] for part in self.found.flows.meters_by_change()]),
        }


def hash_of(value: Any) -> str:
    """SHA-256 (hex) of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def count_changes(changes: TableChanges) -> dict[str, int]:
    """Return how many flows and groups change."""
    return {name: len(getattr(changes, part)) for name, part, _ in _COUNTED}


def counted(changes: TableChanges) -> list[str]:
    """The same in words, without zeros."""
    out = []
    for name, part, one in _COUNTED:
        n, verb = len(getattr(changes, part)), name.partition("_")[2]
        several = one.replace("flow or group", "flows or groups") if " " in one else f"{one}s"
        if n:
            out.append(f"{n} {one if n == 1 else several} {verb}")
    return out


def shown_differences(summary: PlanSummary) -> list[SpecDifference]:
    """The differences of the specs; of a weight that a given weight overrides it is said that this one stays."""
    given = {f"backend {entry.name}": entry for entry in summary.overlay if entry.kind == "weight"}
    out = []
    for d in summary.differences:
        entry = given.get(d.about) if d.path[-1:] == ("weight",) else None
        if entry is not None:
            until = f"dnsteer weight {entry.name} --undo ends it"
            why = f"the given weight {entry.weight} stays in force, and its slots with it ({until})"
            d = replace(d, text=f"{d.text}, but {why}")
        out.append(d)
    return out


def sentence_groups(summary: PlanSummary, *, lines: bool = False) -> list[SentenceGroup]:
    """Return what would change, as sentences for the operator, by kind; with *lines* those of the spec are named."""
    out = [SentenceGroup("the name of the switch", [summary.named] if summary.named else [])]
    where = summary.loaded.document.where
    kinds: dict[str, list[SpecDifference]] = {}
    for d in shown_differences(summary):
        kinds.setdefault(d.kind, []).append(d)
    for kind, differences in kinds.items():
        thing, _, what = kind.rpartition(" ")
        title = f"{counted_things(len({d.about for d in differences}), _THINGS.get(thing, thing))} {what}"
        texts = [f"{d.text} ({where(d.path)})" if lines and d.path else d.text for d in differences]
        out.append(SentenceGroup(title, texts))
    out.append(SentenceGroup(f"slots of {len(summary.moves):,} pools move", [move.text() for move in summary.moves]))
    settings = [f"{d.by}: {d.todo}" for d in summary.found.differ]
    out.append(SentenceGroup(f"{len(settings):,} settings of Open vSwitch", settings))
    if summary.found.tracker:
        out.append(SentenceGroup("the connection tracker", summary.found.tracker))
    out.append(SentenceGroup(f"{len(summary.ended):,} entries of maintenance end", summary.ended))
    out.append(SentenceGroup(f"{len(summary.returned):,} entries of maintenance apply again", summary.returned))
    said = any(group.sentences for group in out)
    if not said and (summary.found.flows or summary.found.loads):
        text = "the spec is unchanged; the switch has drifted from it and is corrected"
        out.append(SentenceGroup("drift", [text]))
        said = True
    if summary.program is not None:
        out.append(SentenceGroup("the extension's program", summary.program.words))
        said = said or bool(summary.program.words)
    if not said and summary.changed:
        out.append(SentenceGroup("the record", ["only the record in OVSDB changes"]))
    return [group for group in out if group.sentences]


def details(summary: PlanSummary) -> list[str]:
    """Return the changed flows, groups and meters as a diff. A flow is followed by its object of the spec, with the line."""
    changes = summary.found.flows

    def shown(flow: Flow) -> str:
        subject = summary.plan.subject(flow.cookie)  # none for an object that is gone
        return f"{flow.line()}  # {about(subject, summary.loaded.file)}" if subject is not None else flow.line()

    out = [f"- meter {m.text}" for m in changes.remove_meters]
    out += [f"~ meter {m.text}" for m in changes.replace_meters]
    out += [f"+ meter {m.text}" for m in changes.add_meters]
    out += [f"- group {g.text}" for g in changes.remove_groups]
    out += [f"~ group {g.text}" for g in changes.replace_groups]
    out += [f"+ group {g.text}" for g in changes.add_groups]
    out += [f"- {shown(f)}" for f in changes.remove]
    out += [f"~ {shown(f)}" for f in changes.replace]
    return out + [f"+ {shown(f)}" for f in changes.add]


def _difference_as_json(difference: SpecDifference, document: Document) -> dict[str, Any]:
    """A difference with the place in the file where it is written; no place for what is not in the spec any more."""
    if not difference.path:
        return {**difference.as_json(), "file": "", "line": 0}
    place = document.place(difference.path)
    file = file_of_part(document.file, place.part)
    return {**replace(difference, path=place.path).as_json(), "file": file, "line": place.line}


def summary_as_json(summary: PlanSummary, *, verbose: bool) -> dict[str, Any]:
    """Return the summary as a JSON object."""
    value: dict[str, Any] = {
        "ok": True,
        "changed": summary.changed,
        "bridge": summary.loaded.spec.switch.bridge,
        "from_state": summary.record.number if summary.record else 0,
        "changes": [_difference_as_json(d, summary.loaded.document) for d in shown_differences(summary)],
        "moves": [m.as_json() for m in summary.moves],
        "settings": summary.found.settings,
        "named": summary.named,
        "ended": summary.ended,
        "returned": summary.returned,
        "asks": summary.ask,
        "warnings": summary.warnings,
        "notes": summary.notes,
        "counts": count_changes(summary.found.flows),
    }
    if summary.program is not None:
        value["extension"] = summary.program.as_json()
    if verbose:
        value["details"] = details(summary)
    return value


_RENUMBERED = (
    "another version of dnsteer made the tables, with other numbers: they get the numbers of this one, which loses no "
    "query; the counters of their flows begin again"
)


def summarize(
    goal: Goal, wanted: WantedSwitch, found: SwitchDiff, before: Assignment, after: Assignment, *, preview: bool
) -> PlanSummary:
    """Return the summary. *before* and *after* are the slot assignments.

    A *preview* also warns of a connection tracker that cannot be reached; a deployment does so itself.
    """
    rehashed: list[str] = []
    if not wanted.same_spec and wanted.applied_spec is not None:
        rehashed = movement.rehashed(wanted.applied_spec, wanted.loaded.spec)
    moves = movement.moves(before, after, rehashed)
    if wanted.applied is not None:
        vips = {name: vip.pool for name, vip in wanted.loaded.spec.vips.items()}
        moves += movement.moved_vips(wanted.applied.vips, vips, {m.pool: m.slots for m in after.pools})
    unreadable = _unreadable(wanted, goal.record, found)
    differences, removed = ([], []) if wanted.same_spec else _compare_with_applied(wanted, found, unreadable)
    program, faults = _program(wanted, found)
    return PlanSummary(
        goal.loaded,
        wanted.plan,
        found,
        goal.system,
        goal.record,
        wanted.applied,
        wanted.overlay,
        differences,
        moves,
        ask=[
            *unreadable,
            *removed,
            *movement.reasons_to_ask(moves, before, after),
        ],
        warnings=[
            *movement.pools_without_backends(after),
            *movement.last_backends_left(before, after),
            *goal.warnings,
            *denial_warnings(wanted.loaded.spec, wanted.overlay.denials),
            *([NOT_FORWARDING] if goal.waits else []),
            *faults,
            *found.warnings_of_others,
            *(found.tracker_warnings if preview else []),
        ],
        record_stale=goal.record_stale,
        program=program,
        named=_named(goal.switch_name, goal.name),
        ended=[f"{a.title} is over (it was until {a.until})" for a in goal.expired]
        + [f"{a.title} ends: {_why_ended(a, goal)}" for a in goal.ended],
        notes=[*goal.notes, *([_RENUMBERED] if found.flows.renumbered else [])],
        returned=[f"{a.title} applies again; it ended when the backend was removed{_why(a)}" for a in goal.returned],
    )


def _why_ended(entry: Maintenance, goal: Goal) -> str:
    pool = goal.loaded.spec.pools.get(entry.pool)
    if pool is None or not any(b.name == entry.backend for b in pool.backends):
        return "the backend is no longer in the spec"
    if entry.kind in MOVES_SLOTS:
        return (
            "the pool's slots are others, or its balance" if pool.balance else "the pool's load is no longer balanced"
        )
    return "it is no longer checked" if entry.kind == "health" else "the spec gives it that weight"


def _why(entry: Maintenance) -> str:
    return f" ({entry.note})" if entry.note else ""


def _compare_with_applied(
    wanted: WantedSwitch, found: SwitchDiff, unreadable: list[str]
) -> tuple[list[SpecDifference], list[str]]:
    """Return the differences from the applied spec, and those that remove services from clients.

    *unreadable*: there is an applied state, and it cannot be read.
    """
    applied, new = wanted.applied, wanted.loaded.spec
    if applied is not None and applied.digest == wanted.loaded.digest:
        return [], []
    spec = wanted.applied_spec
    if spec is not None:
        return compare_specs(spec, new), removed_services(spec, new)
    by_flows = removed_by_flows(found.flows.remove, new)  # then the tables alone tell
    if applied is None and unreadable:
        why = "what is applied now cannot be read, so what changes is known of flows alone (-v)"
        return [SpecDifference("unknown", "spec", why)], by_flows
    if applied is None:
        return compare_specs(None, new), by_flows
    why = "the applied spec cannot be read by this version; see the flows with -v"
    return [SpecDifference("unknown", "spec", why)], by_flows


def _unreadable(wanted: WantedSwitch, record: BridgeRecord | None, found: SwitchDiff) -> list[str]:
    """Return a reason to confirm if something is applied whose record cannot be read."""
    tables = found.tables
    there = record is not None and (record.number or tables.same or tables.flows or tables.groups)
    if wanted.applied is not None or record is None or not there:
        return []
    why = f"state {record.number} is damaged" if record.number else "the record has no state"
    return [f"the applied state cannot be read ({why}): which VIPs are removed and which clients move is unknown"]


def _program(wanted: WantedSwitch, found: SwitchDiff) -> tuple[ProgramChange | None, list[str]]:
    """Return what changes in the extension, if there is one, and its faults."""
    handover = found.handover
    if handover is None:
        return None, []
    from dnsteer.deploy.extension_program import change_of, extended_pools

    then = "and an apply needs the extension" if extended_pools(wanted.loaded.spec) else "and it keeps its program"
    away = [f"{_text(handover.away)}: what would change in it is unknown, {then}"] if handover.away else []
    left_out = [
        f"the extension cannot serve {name} and its new VIPs at once: queries in flight to {name} may be lost"
        for name in handover.between.left_out
    ]
    return change_of(handover), [*away, *handover.faults, *left_out]


def _text(err: SwitchError | PermissionError) -> str:
    return f"{err.filename}: {err.strerror}" if isinstance(err, PermissionError) else str(err)


def _named(old: str, new: str) -> str:
    if not new or old == new:
        return ""
    return (
        f"the switch, with all of its bridges, is renamed {old} -> {new}" if old else f"the switch gets the name {new}"
    )


_SERVICE = cookie(Category.SERVICE, 0) >> OBJECT_BITS
_ADDRESS = re.compile(r"\b(?:nw_dst|ipv6_dst)=([0-9a-f.:]+)(?=,|$)")


def removed_services(old: Spec, new: Spec) -> list[str]:
    """Return what the old spec serves and the new one does not, in words."""
    changed = {name: vip for name, vip in old.vips.items() if new.vips.get(name) != vip}
    left = {one for vip in new.vips.values() for one in _served(vip)} if changed else set()
    out = []
    for name, vip in changed.items():
        served = _served(vip)
        gone, kept = sorted(served - left), {address for address, _, _ in served & left}
        addresses = [a for a in map(str, vip.addresses) if a not in kept]
        services = sorted({f"{protocol}/{port} of {a}" for a, protocol, port in gone if a not in addresses})
        if addresses and name not in new.vips and len(addresses) == len(vip.addresses):
            out.append(f"VIP {name} ({some_of(addresses)}) removed: its clients will get no answer")
        elif addresses:
            out.append(f"VIP {name}: {some_of(addresses)} removed: its clients will get no answer")
        if services:
            out.append(f"VIP {name}: {some_of(services)} removed: its clients will get no answer")
    return out


def removed_by_flows(removed: Iterable[Flow], new: Spec) -> list[str]:
    """The same from the flows that are removed, if their spec is unknown."""
    kept = {str(a) for vip in new.vips.values() for a in vip.addresses}
    services = (flow for flow in removed if flow.cookie >> OBJECT_BITS == _SERVICE)
    found = {m[1] for flow in services if (m := _ADDRESS.search(flow.match))} - kept
    return [f"{address}, which has flows, removed: its clients will get no answer" for address in sorted(found)]


def _served(vip: Vip) -> set[tuple[str, str, int]]:
    return {(str(a), e.protocol.value, e.port) for a in vip.addresses for e in derived.endpoints(vip)}
