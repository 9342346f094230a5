"""Which decision wrote an entry of the overlay, and which ones made an overlay another one. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dnsteer.slots.maintenance import Maintenance, Overlay


def same_entry(overlay: Overlay, entry: Maintenance) -> Maintenance | None:
    """The entry for the same backend, kind and service; None if there is none."""
    return overlay.find(entry.pool, entry.backend, entry.kind, entry.service)


def is_decided(before: Maintenance | None, after: Maintenance) -> bool:
    """Whether *after* is more than the next step of what was decided *before*."""
    if before is None or bool(before.returns) != bool(after.returns):
        return True
    return replace(after, gone=before.gone, paced=before.paced, returns=before.returns) != before


def stamped(entries: Iterable[Maintenance], before: Overlay, decision: str) -> tuple[Maintenance, ...]:
    """Return *entries* with the decision in those that it wrote; the others keep theirs."""
    out = list[Maintenance]()
    for entry in entries:
        was = same_entry(before, entry)
        decided_by = decision if was is None or is_decided(was, entry) else was.decision
        out.append(replace(entry, decision=decided_by))
    return tuple(out)


def decisions_between(before: Overlay, after: Overlay, ended_by: str = "") -> tuple[str, ...]:
    """Return the ids of the decisions behind a change of the overlay. *ended_by* is that which took entries away at once."""
    found = list[str]()
    for entry in after:
        if same_entry(before, entry) != entry:
            found.append(entry.decision)
    for entry in before:
        if same_entry(after, entry) is None:
            found.append(entry.decision if entry.returns else ended_by)  # of one that went back this is the last step
    return tuple(dict.fromkeys(filter(None, found)))
