"""Changes that move slots in steps while the command waits. `reconcile` goes on with one that is left."""

from __future__ import annotations

from dnsteer.deploy.backends import Change, change_overlay
from dnsteer.deploy.caller import pause
from dnsteer.deploy.movement import Assignment, Move, moves
from dnsteer.deploy.overlay_edits import advance
from dnsteer.deploy.target_switch import Progress, TargetSwitch, merged_error, now
from dnsteer.slots.maintenance import DRAINED, Maintenance
from dnsteer.switch.tools import SwitchError

_STEPS = 60
_LEAST = 0.5
"""Seconds between two steps."""


def go_to_the_end(switch: TargetSwitch, first: Change, entry: Maintenance, say: Progress) -> None:
    """Advance *entry*, which *first* began, until all of its slots have moved; *first* gets all that has moved for it.

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
            first.moves, first.after = _moves(first, change, entry), change.after
            if found is None:
                return
            last = found
            say(f"{entry.name}: {_far(found)}")
            if found.gone == DRAINED and not found.returns:
                return
            pause(max(_LEAST, found.over / _STEPS))
    except KeyboardInterrupt:
        stays = "as far drained as it is" if entry.weight is None else _far(last)
        raise KeyboardInterrupt(f"{entry.name} stays {stays}; `reconcile` goes on with it") from None


def _moves(first: Change, last: Change, entry: Maintenance) -> list[Move]:
    """Return what has moved for *entry* since *first*, whoever took its steps: the agent may have taken some."""
    place = entry.pool, entry.backend, entry.kind
    was, found = first.before.find(*place), last.after.find(*place)
    others = last.after.put(was) if was is not None else last.after.without([found] if found is not None else [])
    return moves(Assignment(last.members, others), Assignment(last.members, last.after))


def _far(entry: Maintenance) -> str:
    if entry.weight is None:
        return f"{entry.gone / 10:.0f} % drained"
    gone = DRAINED - entry.gone if entry.returns else entry.gone
    return f"{gone / 10:.0f} % of the way {'back from' if entry.returns else 'to'} weight {entry.weight}"


def _left_with(change: Change, entry: Maintenance) -> str:
    if entry.weight is not None:
        return "it has the spec's weight"
    return "it is down" if change.after.find(entry.pool, entry.backend, "down") else "it has its slots"
