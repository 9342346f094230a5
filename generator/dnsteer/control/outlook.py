"""What a deployment would do, as sentences for people and as JSON for programs."""

from __future__ import annotations

from typing import Any

from dnsteer.control.deploy import Outlook
from dnsteer.switch.openflow import Changes

_COUNTED = (
    ("flows_added", "add", "flow"), ("flows_changed", "replace", "flow"), ("flows_removed", "remove", "flow"),
    ("groups_added", "add_groups", "group"), ("groups_changed", "replace_groups", "group"),
    ("groups_removed", "remove_groups", "group"), ("others_restored", "restore", "flow or group of others"),
)  # fmt: skip


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
    words += [f"OVSDB: {d.todo}" for d in outlook.prepared.differ]
    words += outlook.ended + outlook.returned
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
        "changes": [d.as_json() for d in outlook.differences],
        "moves": [m.as_json() for m in outlook.moves],
        "settings": outlook.prepared.settings,
        "named": outlook.named,
        "ended": outlook.ended,
        "returned": outlook.returned,
        "asks": outlook.ask,
        "warnings": outlook.warnings,
        "counts": counts(outlook.prepared.todo),
    }
    if verbose:
        value["details"] = details(outlook.prepared.todo)
    return value
