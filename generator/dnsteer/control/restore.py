"""Bring back what was applied last, after ovs-vswitchd was started anew and its tables are empty.

`flow-restore-wait` in OVSDB tells a starting ovs-vswitchd to forward nothing and to keep what an offloaded datapath still
has, until it is cleared. `arm` sets it before the start, `restore` clears it when the tables are there, and also when they
cannot be: a switch that waits for ever would take down the bridges of others as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dnsteer.control.recorded import apply_state, settle
from dnsteer.control.where import Progress, Switch, silent
from dnsteer.switch.interrupts import put_off
from dnsteer.switch.record import Record
from dnsteer.switch.state import BusyError
from dnsteer.switch.tools import SwitchError

_NOTHING = "nothing was applied here"


@dataclass(frozen=True)
class Restored:
    """What was done about one bridge."""

    bridge: str
    changed: bool
    text: str
    state: int = 0

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {"bridge": self.bridge, "changed": self.changed, "state": self.state, "text": self.text}


def restore(
    switch: Switch, bridge: str | None, *, dry_run: bool = False, progress: Progress = silent
) -> list[Restored]:
    """Bring back the last applied state of all bridges that have one, or of one bridge, and let the switch forward.

    Raises SwitchError with all that failed; the switch forwards then all the same.
    """
    done: list[Restored] = []
    failed: list[SwitchError] = []
    try:
        with Record(switch.remote, switch.timeout) as record:
            names = record.bridges() if bridge is None else [record.the_bridge(bridge).bridge]
        for name in names:
            try:
                done.append(_restore(switch, name, dry_run, progress))
            except SwitchError as err:
                failed.append(err)
    finally:
        # Another dnsteer at work is a restore that clears it itself, or no restore is needed.
        if not dry_run and not any(isinstance(err, BusyError) for err in failed):
            with put_off(), Record(switch.remote, switch.timeout) as record:
                record.let_wait(False)
    if failed:
        rest = [f"{d.bridge}: {d.text}" for d in done]
        raise type(failed[0])("; ".join([*(str(err) for err in failed), *rest]))
    return done or [Restored("no bridge", False, _NOTHING)]


def _restore(switch: Switch, bridge: str, dry_run: bool, progress: Progress) -> Restored:
    with Record(switch.remote, switch.timeout) as record:
        if not dry_run:
            record.lock(bridge)
        standing = record.the_bridge(bridge)
        if dry_run:
            right = switch.client(bridge).marker() == standing.marker
            what = f"{'has' if right else 'would get'} state {standing.number}" if standing.number else _NOTHING
            return Restored(bridge, bool(standing.number) and not right, what, standing.number)
        cut_off = standing.pending is not None
        standing = settle(switch, record, standing, progress)
        if not standing.number:
            return Restored(bridge, cut_off, _NOTHING)
        state = record.state(standing, standing.number)
        applied = apply_state(switch, record, state, standing.overlay, progress)
        changed = cut_off or bool(applied.settings) or bool(applied.flows)
        text = "is back, a change that was cut off is settled" if cut_off else "is back" if changed else "was whole"
        return Restored(bridge, changed, f"state {state.number} {text}", state.number)


def arm(switch: Switch, bridge: str | None, *, dry_run: bool = False, progress: Progress = silent) -> list[Restored]:
    """Tell an ovs-vswitchd that is about to start to wait for `restore`, where there is something to restore."""
    with Record(switch.remote, switch.timeout) as record:
        names = record.bridges() if bridge is None else [bridge]
        names = [n for n in names if record.the_bridge(n).number]
        if names and not dry_run:
            record.let_wait(True)
    return [Restored(n, True, "ovs-vswitchd will wait for restore") for n in names]
