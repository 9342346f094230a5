# SPDX-License-Identifier: Apache-2.0
"""Changes that move slots in steps while the command waits. `reconcile` goes on with one that is left."""

from __future__ import annotations

from collections.abc import Sequence

from dnsteer.deploy.caller import pause
from dnsteer.deploy.movement import Assignment, Move, moves
from dnsteer.deploy.overlay_change import OverlayChange, change_overlay
from dnsteer.deploy.overlay_edits import advance
from dnsteer.deploy.target_switch import Progress, TargetSwitch
from dnsteer.deploy.times import now
from dnsteer.slots.maintenance import DRAINED, Maintenance
from dnsteer.switch.tools import SwitchError, merged_error

_STEPS = 60
_LEAST = 0.5
"""Seconds between two steps."""


def finish_gradual_change(
    switch: TargetSwitch, first: OverlayChange, name: str, entries: Sequence[Maintenance], say: Progress
) -> None:
    """Advance *entries*, which *first* began, until all of their slots have moved; *first* gets all that has moved for
    them. They are of one or several backends, and of their workers; *name* is what these are called.

    Raises SwitchError when one ends before, and KeyboardInterrupt with what happens then.
    """
    last = list(entries)
    pools = {entry.pool for entry in entries}
    try:
        while True:
            try:
                change = change_overlay(switch, first.bridge, advance, pools=pools)
            except SwitchError as failed:
                raise merged_error(
                    [failed], [f"{name} is {_far(_slowest(last))}, and `reconcile` goes on with it"]
                ) from None
            found = [change.after.find(entry.pool, entry.backend, entry.kind) for entry in last]
            for entry, now_is in zip(last, found, strict=True):
                if now_is is None and not entry.returns:
                    ended = change.before.find(entry.pool, entry.backend, entry.kind) or entry
                    why = "its --for was over" if ended.expired(now()) else "it was ended by another command"
                    raise SwitchError(f"{ended.name} is NOT {ended.state}: {why}; {_left_with(change, ended)}")
            first.moves, first.after = _moves(first, change, entries), change.after
            last = [now_is for now_is in found if now_is is not None]
            if not last:
                return
            slowest = _slowest(last)
            say(f"{name}: {_far(slowest)}")
            if all(entry.gone == DRAINED and not entry.returns for entry in last):
                return
            pause(max(_LEAST, slowest.over / _STEPS))
    except KeyboardInterrupt:
        slowest = _slowest(last)
        stays = "as far drained as it is" if slowest.weight is None else _far(slowest)
        raise KeyboardInterrupt(f"{name} stays {stays}; `reconcile` goes on with it") from None


def _slowest(entries: Sequence[Maintenance]) -> Maintenance:
    return min(entries, key=lambda entry: DRAINED - entry.gone if entry.returns else entry.gone)


def _moves(first: OverlayChange, last: OverlayChange, entries: Sequence[Maintenance]) -> list[Move]:
    """Return what has moved for *entries* since *first*, whoever took their steps: the agent may have taken some."""
    others = last.after
    for entry in entries:
        place = entry.pool, entry.backend, entry.kind
        was, found = first.before.find(*place), last.after.find(*place)
        others = others.put(was) if was is not None else others.without([found] if found is not None else [])
    return moves(Assignment(last.members, others), Assignment(last.members, last.after))


def _far(entry: Maintenance) -> str:
    if entry.weight is None:
        return f"{entry.gone / 10:.0f} % drained"
    gone = DRAINED - entry.gone if entry.returns else entry.gone
    return f"{gone / 10:.0f} % of the way {'back from' if entry.returns else 'to'} weight {entry.weight}"


def _left_with(change: OverlayChange, entry: Maintenance) -> str:
    if entry.weight is not None:
        return "it has the spec's weight"
    return "it is down" if change.after.find(entry.pool, entry.backend, "down") else "it has its slots"
