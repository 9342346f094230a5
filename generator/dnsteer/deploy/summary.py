"""What a deployment would do, as sentences for people and as JSON for programs."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dnsteer.deploy import movement
from dnsteer.deploy.bounded import SentenceGroup
from dnsteer.deploy.diff import SwitchDiff
from dnsteer.deploy.spec_differences import SpecDifference
from dnsteer.plan.plan import Plan
from dnsteer.render.flows import Flow
from dnsteer.render.templates import about
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.errors import counted as counted_things
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.state import AppliedState, BridgeRecord
from dnsteer.switch.table_changes import TableChanges

if TYPE_CHECKING:
    from dnsteer.deploy.extension import ProgramChange

_COUNTED = (
    ("flows_added", "add", "flow"),
    ("flows_changed", "replace", "flow"),
    ("flows_removed", "remove", "flow"),
    ("groups_added", "add_groups", "group"),
    ("groups_changed", "replace_groups", "group"),
    ("groups_removed", "remove_groups", "group"),
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
        """Whether anything would change."""
        return self.found.changed or self.writes_record

    @property
    def writes_record(self) -> bool:
        """Whether the record would change."""
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


def told_differences(summary: PlanSummary) -> list[SpecDifference]:
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
    file, line = summary.loaded.file, summary.loaded.document.line
    kinds: dict[str, list[SpecDifference]] = {}
    for d in told_differences(summary):
        kinds.setdefault(d.kind, []).append(d)
    for kind, differences in kinds.items():
        thing, _, what = kind.rpartition(" ")
        title = f"{counted_things(len({d.about for d in differences}), _THINGS.get(thing, thing))} {what}"
        texts = [f"{d.text} ({file}:{line(d.path)})" if lines and d.path else d.text for d in differences]
        out.append(SentenceGroup(title, texts))
    out.append(SentenceGroup(f"slots of {len(summary.moves):,} pools move", [move.text() for move in summary.moves]))
    settings = [f"{d.by}: {d.todo}" for d in summary.found.differ]
    out.append(SentenceGroup(f"{len(settings):,} settings of Open vSwitch", settings))
    fragment = summary.found.fragment
    if fragment is not None and fragment.differs:
        out.append(SentenceGroup("the smallest fragment", [fragment.todo]))
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
    """Return the changed flows and groups as a diff. A flow is followed by its object of the spec, with the line."""
    changes = summary.found.flows

    def shown(flow: Flow) -> str:
        subject = summary.plan.subject(flow.cookie)  # none for an object that is gone
        return f"{flow.line()}  # {about(subject, summary.loaded.file)}" if subject is not None else flow.line()

    out = [f"- group {g.text}" for g in changes.remove_groups]
    out += [f"~ group {g.text}" for g in changes.replace_groups]
    out += [f"+ group {g.text}" for g in changes.add_groups]
    out += [f"- {shown(f)}" for f in changes.remove]
    out += [f"~ {shown(f)}" for f in changes.replace]
    return out + [f"+ {shown(f)}" for f in changes.add]


def summary_as_json(summary: PlanSummary, *, verbose: bool) -> dict[str, Any]:
    """Return the summary as a JSON object."""
    written = summary.loaded.document.path_in_file
    value: dict[str, Any] = {
        "ok": True,
        "changed": summary.changed,
        "bridge": summary.loaded.spec.switch.bridge,
        "from_state": summary.record.number if summary.record else 0,
        "changes": [replace(d, path=written(d.path)).as_json() for d in told_differences(summary)],
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
