"""What a deployment would do, as sentences for people and as JSON for programs."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dnsteer.deploy import movement
from dnsteer.deploy.apply import Prepared
from dnsteer.deploy.spec_differences import Difference
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.state import Standing, State
from dnsteer.switch.table_changes import Changes

if TYPE_CHECKING:
    from dnsteer.deploy.extension import ProgramChange

_COUNTED = (
    ("flows_added", "add", "flow"), ("flows_changed", "replace", "flow"), ("flows_removed", "remove", "flow"),
    ("groups_added", "add_groups", "group"), ("groups_changed", "replace_groups", "group"),
    ("groups_removed", "remove_groups", "group"), ("others_restored", "restore", "flow or group of others"),
)  # fmt: skip


@dataclass
class Outlook:
    """What a deployment would do. *old* is the state that is applied now, None when there is none that can be read.

    *differences* are those of the specs. *named* is what becomes of the switch's name. *ended* are absences that end, and
    *returned* such as ended with a state that is gone back from, all in words. *notes* are to be known, and no change.
    """

    loaded: Loaded
    prepared: Prepared
    system: str
    standing: Standing | None
    old: State | None
    overlay: Overlay
    differences: list[Difference]
    moves: list[movement.Move]
    ask: list[str]
    warnings: list[str]
    record: bool
    named: str = ""
    program: ProgramChange | None = None
    ended: list[str] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether anything would change."""
        return self.prepared.changed or self.record

    def basis(self) -> dict[str, Any]:
        """What it rests on: the switch, how it stands, and the changes that follow from that."""
        standing, bridge = self.standing, self.prepared.before
        what = bridge and [bridge.datapath_type, bridge.fail_mode, list(bridge.protocols), sorted(bridge.ports)]
        program = {} if self.program is None else {"the program of the extension": hash_of(self.program.basis)}
        return {
            **program,
            "switch": self.system,
            "state": standing.number if standing else 0,
            "applied spec": standing.digest if standing else "",
            "overlay": standing.overlay.to_json() if standing else "[]",
            "bridge and ports": hash_of(what),
            "settings": self.prepared.settings,
            "its flows or groups": hash_of(self.prepared.todo.bundle()),
        }


def hash_of(value: Any) -> str:
    """SHA-256 (hex) of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def counts(changes: Changes) -> dict[str, int]:
    """How many flows and groups change."""
    return {name: len(getattr(changes, part)) for name, part, _ in _COUNTED}


def counted(changes: Changes) -> list[str]:
    """The same in words, without what is 0."""
    out = []
    for name, part, one in _COUNTED:
        n, verb = len(getattr(changes, part)), name.partition("_")[2]
        several = one.replace("flow or group", "flows or groups") if " " in one else f"{one}s"
        if n:
            out.append(f"{n} {one if n == 1 else several} {verb}")
    return out


def sentences(outlook: Outlook) -> list[str]:
    """What would change, in the operator's words."""
    words = [outlook.named] if outlook.named else []
    words += [d.text for d in outlook.differences]
    words += [move.text() for move in outlook.moves]
    words += [f"{d.by}: {d.todo}" for d in outlook.prepared.differ]
    fragment = outlook.prepared.fragment
    words += [fragment.todo] if fragment is not None and fragment.differs else []
    words += outlook.ended + outlook.returned
    if not words and (outlook.prepared.todo or outlook.prepared.loads):
        words.append("the spec is the one that is applied; the switch differs from it and is put right")
    if outlook.program is not None:
        words += outlook.program.words
    if not words and outlook.changed:
        words.append("only the record is written")
    return words


def details(changes: Changes) -> list[str]:
    """Flows and groups, as a difference: what comes, what goes."""
    out = [f"- group {g.text}" for g in changes.remove_groups]
    out += [f"~ group {g.text}" for g in changes.replace_groups]
    out += [f"+ group {g.text}" for g in changes.add_groups]
    out += [f"- {f.line()}" for f in changes.remove]
    out += [f"~ {f.line()}" for f in changes.replace]
    return out + [f"+ {f.line()}" for f in changes.add]


def as_json(outlook: Outlook, *, verbose: bool) -> dict[str, Any]:
    """All of it as a JSON object."""
    value: dict[str, Any] = {
        "ok": True,
        "changed": outlook.changed,
        "bridge": outlook.loaded.spec.switch.bridge,
        "from_state": outlook.standing.number if outlook.standing else 0,
        "changes": [d.as_json() for d in outlook.differences],
        "moves": [m.as_json() for m in outlook.moves],
        "settings": outlook.prepared.settings,
        "named": outlook.named,
        "ended": outlook.ended,
        "returned": outlook.returned,
        "asks": outlook.ask,
        "warnings": outlook.warnings,
        "notes": outlook.notes,
        "counts": counts(outlook.prepared.todo),
    }
    if outlook.program is not None:
        value["extension"] = outlook.program.as_json()
    if verbose:
        value["details"] = details(outlook.prepared.todo)
    return value
