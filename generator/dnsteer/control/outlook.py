"""What a deployment would do, as sentences for people and as JSON for programs."""

from __future__ import annotations

from typing import Any

from dnsteer.control.deploy import Outlook
from dnsteer.control.differences import Difference, differences
from dnsteer.control.recorded import load_state
from dnsteer.switch.openflow import Changes
from dnsteer.switch.tools import SwitchError

_COUNTED = (
    ("flows_added", "add"), ("flows_changed", "replace"), ("flows_removed", "remove"),
    ("groups_added", "add_groups"), ("groups_changed", "replace_groups"), ("groups_removed", "remove_groups"),
    ("others_restored", "restore"),
)  # fmt: skip


def counts(changes: Changes) -> dict[str, int]:
    """How many flows and groups change."""
    return {name: len(getattr(changes, part)) for name, part in _COUNTED}


def counted(changes: Changes) -> list[str]:
    """The same in words, without what is 0."""
    return [f"{n} {what.replace('_', ' ')}" for what, n in counts(changes).items() if n]


def spec_differences(outlook: Outlook) -> list[Difference]:
    """What differs between the spec that is applied and the new one."""
    if outlook.old is None:
        return differences(None, outlook.loaded.spec)
    try:
        old = load_state(outlook.old).spec
    except SwitchError:  # of a version that took other specs: then the tables alone tell
        return [Difference("unknown", "spec", "the applied spec cannot be read by this version; see the flows with -v")]
    return differences(old, outlook.loaded.spec)


def sentences(outlook: Outlook) -> list[str]:
    """What would change, in the operator's words."""
    words = [d.text for d in spec_differences(outlook)]
    words += [move.text() for move in outlook.moves]
    words += [f"OVSDB: {d.todo}" for d in outlook.prepared.differ]
    words += outlook.ended
    if not words and outlook.prepared.todo:
        words.append("the spec is the one that is applied; the switch differs from it and is put right")
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
        "changes": [d.as_json() for d in spec_differences(outlook)],
        "moves": [m.as_json() for m in outlook.moves],
        "settings": outlook.prepared.settings,
        "ended": outlook.ended,
        "asks": outlook.ask,
        "warnings": outlook.warnings,
        "counts": counts(outlook.prepared.todo),
    }
    if verbose:
        value["details"] = details(outlook.prepared.todo)
    return value
