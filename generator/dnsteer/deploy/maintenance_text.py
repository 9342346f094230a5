"""How maintenance changes, in words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

from dnsteer.slots.maintenance import DRAINED, Maintenance, Overlay


def begun_and_ended(before: Overlay, after: Overlay) -> list[str]:
    """Return which maintenance begins and which ends."""
    names = {(a.name, a.kind) for a in before}, {(a.name, a.kind) for a in after}
    new = [
        f"{a.name} is {a.state if a.gone >= DRAINED else _partly(a)}" for a in after if (a.name, a.kind) not in names[0]
    ]
    return new + [f"{a.title} ends" for a in before if (a.name, a.kind) not in names[1]]


def _partly(entry: Maintenance) -> str:
    if entry.weight is not None:
        return f"on its way to weight {entry.weight}"
    return "returning" if entry.returns else "draining"


def altered(before: Overlay, after: Overlay) -> list[str]:
    """Return changed times, paces and notes of entries that stay."""
    out = []
    for new in after:
        old = before.find(new.pool, new.backend, new.kind, new.service)
        if old is not None and (what := ", ".join(_fields(old, new))):
            out.append(f"{old.title}: {what}")
    return out


def _fields(old: Maintenance, new: Maintenance) -> Iterator[str]:
    if old.weight != new.weight:
        yield f"weight {old.weight} -> {new.weight}"
    if new.weight is not None and bool(old.returns) != bool(new.returns):
        yield f"goes back over {new.over:g} s" if new.returns else "does not go back"
    elif old.over != new.over:
        yield f"over {old.over:g} s -> {new.over:g} s"
    if old.until != new.until:
        yield f"until {_when(old.until)} -> {_when(new.until)}"
    if old.note != new.note:
        yield f"note {old.note!r} -> {new.note!r}"


def _when(time: str) -> str:
    """A recorded time, in UTC."""
    if not time:
        return "it is ended"
    return datetime.fromisoformat(time).astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
