"""Bring back what was applied last, after ovs-vswitchd was started anew and its tables are empty.

`flow-restore-wait` in OVSDB tells a starting ovs-vswitchd to forward nothing and to keep what an offloaded datapath still
has, until it is cleared. `arm` sets it before the start, `restore` clears it when the tables are there, and also when they
cannot be: a switch that waits for ever would take down the bridges of others as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dnsteer.deploy.settle import apply_state, as_settled, look_at_state, settle
from dnsteer.deploy.target_switch import Progress, Switch, one_of, silent
from dnsteer.switch.record import Record
from dnsteer.switch.signals import put_off
from dnsteer.switch.state import BusyError, DamagedError, Standing
from dnsteer.switch.tools import SwitchError, UnavailableError, UnwrittenError

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
        # Another dnsteer at work may be a restore whose tables are not there yet: clearing it then would show them empty.
        busy = any(isinstance(err, BusyError) for err in failed)
        if not dry_run and not busy:
            failed += _let_forward(switch)
    if failed:
        rest = [f"{d.bridge}: {d.text}" for d in done]
        raise one_of(failed, ["flow-restore-wait was left as it is; restore again", *rest] if busy else rest)
    return done or [Restored("no bridge", False, _NOTHING)]


def _let_forward(switch: Switch) -> list[SwitchError]:
    """Clear flow-restore-wait. That it cannot be is no reason to say nothing of what else failed."""
    try:
        with put_off(), Record(switch.remote, switch.timeout) as record:
            record.let_wait(False)
    except UnwrittenError as err:
        return [
            UnwrittenError(
                f"flow-restore-wait cannot be cleared: {err}; until it is, a switch that was started forwards nothing"
            )
        ]
    return []


def _restore(switch: Switch, bridge: str, dry_run: bool, progress: Progress) -> Restored:
    with Record(switch.remote, switch.timeout) as record:
        if not dry_run:
            record.lock(bridge)
        standing = record.the_bridge(bridge)
        if dry_run:
            return _foreseen(switch, record, standing)
        cut_off = standing.pending is not None
        standing = settle(switch, record, standing, progress)
        if not standing.number:
            return Restored(bridge, cut_off, _NOTHING)
        state = record.state(standing, standing.number)
        applied = apply_state(switch, record, state, standing.overlay, progress, needed=False)
        changed = cut_off or bool(applied.settings) or bool(applied.flows) or applied.loaded
        text = "is back, a change that was cut off is settled" if cut_off else "is back" if changed else "was whole"
        if applied.away is not None:
            raise _without(applied.away, f"{bridge}: state {state.number} {text}, but not its program in the extension")
        return Restored(bridge, changed, f"state {state.number} {text}", state.number)


def _foreseen(switch: Switch, record: Record, standing: Standing) -> Restored:
    """What a restore would do."""
    cut_off = standing.pending is not None
    standing = as_settled(switch, standing)
    number = standing.number
    if not number:
        return Restored(standing.bridge, cut_off, _NOTHING)
    what = look_at_state(switch, record.state(standing, number), standing.overlay)
    if what.program is not None and what.program.away is not None:
        raise _without(what.program.away, f"{standing.bridge}: the extension would not get its program")
    n = len(what.todo) + len(what.settings) + what.loads
    text = f"state {number} would be brought back ({n} change{'s' if n != 1 else ''})" if n else f"has state {number}"
    end = ", and a change that was cut off would be settled" if cut_off else ""
    return Restored(standing.bridge, bool(n) or cut_off, text + end, number)


def _without(err: SwitchError | PermissionError, what: str) -> SwitchError:
    """That the extension is not what it should be."""
    if isinstance(err, PermissionError):
        return SwitchError(f"{what}: {err.filename}: {err.strerror}; run as root or as the owner")
    return (UnavailableError if isinstance(err, UnavailableError) else SwitchError)(f"{what}: {err}")


def arm(switch: Switch, bridge: str | None, *, dry_run: bool = False, progress: Progress = silent) -> list[Restored]:
    """Tell an ovs-vswitchd that is about to start to wait for `restore`, where there is something to restore.

    Bridges whose record is damaged are passed over, since nothing could be restored there.
    """
    done = []
    with Record(switch.remote, switch.timeout) as record:
        for name in record.bridges() if bridge is None else [bridge]:
            standing = record.the_bridge(name)
            try:
                if standing.number:
                    done.append(Restored(name, True, "ovs-vswitchd will wait for restore"))
            except DamagedError as err:
                done.append(Restored(name, False, f"passed over: {err}"))
        if any(d.changed for d in done) and not dry_run:
            record.let_wait(True)
    return done
