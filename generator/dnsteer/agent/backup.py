"""Who of a pool's backup is in service: a pure function of health, the overlay and the time, as for the pool's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from dnsteer.agent.decide import Decision, PoolHealth, PoolRules, decide, returning, weights_in_force
from dnsteer.slots.maintenance import DRAINED, Maintenance

_BY_PEOPLE = ("drain", "down", "weight")


def decide_with_backup(
    rules: PoolRules, overlay: Sequence[Maintenance], health: PoolHealth, by: str, now: datetime
) -> Decision:
    """Return what should be, as `decide` does, with the entries of the pool's backup.

    Its backends join at once while fewer than *below* of the pool's own are in service, and leave over the slow start once
    enough are back with all of their slots. Those that are unhealthy, or that people took care of, stay away. While one of
    them works there is no panic: it passes the same checks, so what fails is not on this side. In a panic those that have
    joined stay.
    """
    if not rules.standby:
        return decide(rules, overlay, health, by, now)
    by_people = {entry.backend for entry in overlay if entry.kind in _BY_PEOPLE}
    own = decide(rules, overlay, health, by, now, _standby(rules, overlay))
    found = {entry.backend: entry for entry in overlay if entry.kind == "backup"}
    entries = list[Maintenance]()
    for name in (name for name in rules.standby if name not in by_people):
        entry = found.get(name)
        if name in health.unhealthy:
            entries += [entry] if own.panics and entry is not None else []
        elif len(own.serving) < rules.below:
            note = f"{len(own.serving)} of {len(weights_in_force(rules, overlay))} backends in service"
            joins = Maintenance(
                rules.pool, name, "backup", now.isoformat(timespec="milliseconds"), by, note, weight=rules.standby[name]
            )
            same = entry is not None and (entry.weight, entry.gone, entry.returns) == (joins.weight, DRAINED, "")
            entries.append(entry if same and entry is not None else joins)
        elif entry is not None and (leaving := returning(entry, rules.slow_start, now)) is not None:
            entries.append(leaving)
    return replace(own, entries=(*own.entries, *entries))


def _standby(rules: PoolRules, overlay: Sequence[Maintenance]) -> list[str]:
    """The backends of the backup that serve if they are needed, or since people gave them a weight in the pool."""
    out = {entry.backend for entry in overlay if entry.kept_out_by_people}
    return [name for name in rules.standby if name not in out]
