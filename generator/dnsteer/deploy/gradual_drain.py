"""Drains that move a backend's slots away in steps, while the command waits. `reconcile` goes on with one that is left."""

from __future__ import annotations

from dnsteer.deploy.backends import Change, change_overlay
from dnsteer.deploy.caller import pause
from dnsteer.deploy.movement import together
from dnsteer.deploy.overlay_edits import advance
from dnsteer.deploy.target_switch import Progress, TargetSwitch, merged_error, now
from dnsteer.slots.maintenance import DRAINED
from dnsteer.switch.tools import SwitchError

_STEPS = 60
_LEAST = 0.5
"""Seconds between two steps."""


def drain_to_the_end(switch: TargetSwitch, first: Change, pool: str, backend: str, say: Progress) -> None:
    """Advance a gradual drain, which *first* began, until it is done; what moves is added to *first*.

    Raises SwitchError when it ends before, and KeyboardInterrupt with what happens then.
    """
    last = first.after.find(pool, backend, "drain")
    try:
        while True:
            try:
                change = change_overlay(switch, first.bridge, advance, pool=pool)
            except SwitchError as failed:
                far = f"{pool}/{backend} is {last.gone / 10 if last else 0:.0f} % drained, and `reconcile` goes on with it"
                raise merged_error([failed], [far]) from None
            entry = change.after.find(pool, backend, "drain")
            if entry is None:
                last = change.before.find(pool, backend, "drain") or last
                why = "its --for was over" if last and last.expired(now()) else "it was ended by another command"
                has = "it is down" if change.after.find(pool, backend, "down") else "it has its slots"
                raise SwitchError(f"{pool}/{backend} is NOT drained: {why}; {has}")
            last = entry
            say(f"{pool}/{backend}: {entry.gone / 10:.0f} % drained")
            first.moves = together(first.moves, change.moves)
            first.after = change.after
            if entry.gone == DRAINED:
                return
            pause(max(_LEAST, entry.over / _STEPS))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"{pool}/{backend} stays as far drained as it is; `reconcile` goes on with it"
        ) from None
