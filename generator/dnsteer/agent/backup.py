"""Who of a pool's backup is in service: a pure function of health, the overlay and the time, as for the pool's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from dnsteer.agent.decide import Decision, PoolRules, decide, returning
from dnsteer.slots.maintenance import DRAINED, Maintenance

_BY_PEOPLE = ("drain", "down", "weight")


def decide_with_backup(
    rules: PoolRules, overlay: Sequence[Maintenance], unhealthy: Mapping[str, str], by: str, now: datetime
) -> Decision:
    """Return what should be, as `decide` does, with the entries of the pool's backup.

    Its backends join at once while fewer than *below* of the pool's own are in service, and leave over the slow start once
    enough are back with all of their slots. Those that are unhealthy, or that people took care of, stay away. While one of
    them works there is no panic: it passes the same checks, so what fails is not on this side.
    """
    if not rules.standby:
        return decide(rules, overlay, unhealthy, by, now)
    by_people = {entry.backend for entry in overlay if entry.kind in _BY_PEOPLE}
    ready = [name for name in rules.standby if name not in unhealthy and name not in by_people]
    own = decide(replace(rules, panic=1.0) if ready else rules, overlay, unhealthy, by, now)
    away = {entry.backend for entry in own.entries} | {entry.backend for entry in overlay if _takes_out(entry)}
    serving = sum(name not in away for name in rules.backends)
    found = {entry.backend: entry for entry in overlay if entry.kind == "backup"}
    entries = list[Maintenance]()
    for name in ready:
        entry = found.get(name)
        if serving < rules.below:
            note = f"{serving} of {len(rules.backends)} backends in service"
            joins = Maintenance(
                rules.pool, name, "backup", now.isoformat(timespec="milliseconds"), by, note, weight=rules.standby[name]
            )
            same = entry is not None and (entry.weight, entry.gone, entry.returns) == (joins.weight, DRAINED, "")
            entries.append(entry if same and entry is not None else joins)
        elif entry is not None and (leaving := returning(entry, rules.slow_start, now)) is not None:
            entries.append(leaving)
    return replace(own, entries=(*own.entries, *entries))


def _takes_out(entry: Maintenance) -> bool:
    return entry.kind in ("drain", "down") or (entry.kind == "weight" and not entry.weight)
