"""What time brings, for a timer: absences that are over, drains on their way, and tables that a restart has emptied."""

from __future__ import annotations

from dataclasses import dataclass, field

from dnsteer.control.absent import Change, change_overlay
from dnsteer.control.edits import advance
from dnsteer.control.where import Progress, Switch, silent
from dnsteer.switch.record import Record


@dataclass
class Due:
    """What was done, or would be: changes of overlays, and bridges whose tables were brought back."""

    changes: list[Change] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether anything was due."""
        return bool(self.changes or self.restored)


def due(switch: Switch, bridge: str | None, *, dry_run: bool = False, progress: Progress = silent) -> Due:
    """Do what is due on one bridge, or on all. A switch where nothing was applied has nothing that is due.

    Raises SwitchError, or UnavailableError when the switch cannot be reached.
    """
    done = Due()
    with Record(switch.remote, switch.timeout) as record:
        names = record.bridges() if bridge is None else [record.the_bridge(bridge).bridge]
        standings = [record.the_bridge(name) for name in names]
    for standing in standings:
        if not standing.number:
            continue
        # A daemon that its own monitor started anew has no flows, and nobody else notices.
        found = switch.client(standing.bridge).marker()  # ends here while no daemon runs: starting it is not ours
        if standing.waits or (found is None and standing.pending is None):
            if not dry_run:
                from dnsteer.control.restore import restore  # here, since it loads all that the quick verbs do without

                restore(switch, standing.bridge, progress=progress)
            done.restored.append(standing.bridge)
        change = change_overlay(switch, standing.bridge, advance, dry_run=dry_run, progress=progress)
        if change.changed:
            done.changes.append(change)
    return done
