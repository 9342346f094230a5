"""Changes that move slots in steps while the command waits. `reconcile` goes on with one that is left."""

from __future__ import annotations

import time

from dnsteer.deploy.backends import Change, change_overlay
from dnsteer.deploy.movement import together
from dnsteer.deploy.overlay_edits import advance
from dnsteer.deploy.target_switch import Progress, TargetSwitch, merged_error, now
from dnsteer.slots.maintenance import DRAINED, Maintenance
from dnsteer.switch.tools import SwitchError

_STEPS = 60
_LEAST = 0.5
"""Seconds between two steps."""


def go_to_the_end(switch: TargetSwitch, first: Change, entry: Maintenance, say: Progress) -> None:
    """Advance *entry*, which *first* began, until all of its slots have moved; what moves is added to *first*.

    Raises SwitchError when it ends before, and KeyboardInterrupt with what happens then.
    """
    last = entry
    try:
        while True:
            try:
                change = change_overlay(switch, first.bridge, advance, pool=entry.pool)
            except SwitchError as failed:
                raise merged_error(
                    [failed], [f"{entry.name} is {_far(last)}, and `reconcile` goes on with it"]
                ) from None
            found = change.after.find(entry.pool, entry.backend, entry.kind)
            if found is None and not last.returns:
                last = change.before.find(entry.pool, entry.backend, entry.kind) or last
                why = "its --for was over" if last.expired(now()) else "it was ended by another command"
                raise SwitchError(f"{entry.name} is NOT {entry.state}: {why}; {_left_with(change, last)}")
            first.moves = together(first.moves, change.moves)
            first.after = change.after
            if found is None:
                return
            last = found
            say(f"{entry.name}: {_far(found)}")
            if found.gone == DRAINED and not found.returns:
                return
            time.sleep(max(_LEAST, found.over / _STEPS))
    except KeyboardInterrupt:
        stays = "as far drained as it is" if entry.weight is None else _far(last)
        raise KeyboardInterrupt(f"{entry.name} stays {stays}; `reconcile` goes on with it") from None


def _far(entry: Maintenance) -> str:
    if entry.weight is None:
        return f"{entry.gone / 10:.0f} % drained"
    gone = DRAINED - entry.gone if entry.returns else entry.gone
    return f"{gone / 10:.0f} % of the way {'back from' if entry.returns else 'to'} weight {entry.weight}"


def _left_with(change: Change, entry: Maintenance) -> str:
    if entry.weight is not None:
        return "it has the spec's weight"
    return "it is down" if change.after.find(entry.pool, entry.backend, "down") else "it has its slots"
