"""What time brings, for a timer: absences that are over, drains on their way, and tables that a restart has emptied."""

from __future__ import annotations

from dataclasses import dataclass, field

from dnsteer.deploy.backends import Change, change_overlay
from dnsteer.deploy.overlay_edits import advance
from dnsteer.deploy.target_switch import Progress, Switch, silent
from dnsteer.switch.record import Record
from dnsteer.switch.tools import SwitchError


@dataclass
class Due:
    """What was done, or would be: changes of overlays, bridges whose tables or extension were brought back, what failed."""

    changes: list[Change] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    failed: list[SwitchError] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether anything was due."""
        return bool(self.changes or self.restored or self.loaded)


def due(switch: Switch, bridge: str | None, *, dry_run: bool = False, progress: Progress = silent) -> Due:
    """Do what is due on one bridge, or on all; one that fails keeps no other from it. Where nothing was applied nothing is.

    Raises SwitchError, or UnavailableError when OVSDB cannot be reached.
    """
    done = Due()
    with Record(switch.remote, switch.timeout) as record:
        names = record.bridges() if bridge is None else [record.the_bridge(bridge).bridge]
    for name in names:
        try:
            _due(switch, name, done, dry_run, progress)
        except SwitchError as err:
            done.failed.append(err)
    return done


def _due(switch: Switch, bridge: str, done: Due, dry_run: bool, progress: Progress) -> None:
    with Record(switch.remote, switch.timeout) as record:
        standing = record.the_bridge(bridge)
    if not standing.number:
        return
    # A daemon that its own monitor started anew has no flows, and nobody else notices.
    found = switch.client(bridge).marker()  # ends here while no daemon runs: starting it is not ours
    if standing.waits or (found != standing.marker and standing.pending is None):
        from dnsteer.deploy.restore import restore  # here, since it loads all that the quick verbs do without

        # It looks again, under the lock: somebody may have changed the switch between the record and the tables.
        if any(r.changed for r in restore(switch, bridge, dry_run=dry_run, progress=progress)) or standing.waits:
            done.restored.append(bridge)
    change = change_overlay(switch, bridge, advance, dry_run=dry_run, progress=progress)
    if change.changed:
        done.changes.append(change)
    if standing.extended:  # it may have been started anew, with the program of its file
        from dnsteer.deploy.extension import guarded, mend

        if guarded(lambda: mend(switch, bridge, dry_run=dry_run, progress=progress)):
            done.loaded.append(bridge)
