"""Going back to a state that was applied before: which one, and who was out when its backends left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dnsteer.deploy.settle import load_state
from dnsteer.deploy.target_switch import Switch
from dnsteer.slots.maintenance import Absence, Overlay
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.record import Record
from dnsteer.switch.state import DamagedError, Standing, State
from dnsteer.switch.tools import SwitchError


@dataclass(frozen=True)
class Back:
    """What to go back to, instead of a spec: state *number* of a bridge, or the last one with another spec."""

    bridge: str | None = None
    number: int | None = None


def state_to_roll_back_to(switch: Switch, bridge: str | None, number: int | None) -> tuple[Loaded, State]:
    """The spec of that state as it is kept now. Raises SwitchError when it is not kept."""
    with Record(switch.remote, switch.timeout) as record:
        return chosen(record, record.the_bridge(bridge), number)


def chosen(record: Record, standing: Standing, number: int | None) -> tuple[Loaded, State]:
    """The spec of state *number*, or of the last one with another spec than now. Raises SwitchError when it is not kept."""
    found = record.states(standing)
    state = _named(record, standing, found, number) if number is not None else _earlier(standing, found)
    loaded = load_state(state)
    return replace(loaded, document=replace(loaded.document, file=state.file)), state


def _named(record: Record, standing: Standing, found: Sequence[State | DamagedError], number: int) -> State:
    kept = [s.number for s in found if isinstance(s, State)]
    if number in kept:
        return record.state(standing, number)
    record.state(standing, number)  # names the damage, where that is the cause
    has = f"it has {', '.join(map(str, kept))}" if kept else "it has none"
    raise SwitchError(f"state {number} is not kept in the record of bridge {standing.bridge}; {has}")


def _earlier(standing: Standing, found: Sequence[State | DamagedError]) -> State:
    """The last state with another spec. One that may be it, but is damaged, is named rather than passed over."""
    earlier = [s for s in found if not s.number or s.number < standing.number]
    good = next((s for s in earlier if isinstance(s, State) and s.digest != standing.digest), None)
    damaged = next((s for s in earlier if isinstance(s, DamagedError)), None)
    if damaged is not None and (good is None or damaged.number > good.number or not damaged.number):
        raise SwitchError(f"{damaged}. Name the state to go back to: dnsteer rollback N; see: dnsteer history")
    if good is None:
        raise SwitchError(
            f"there is no state before the current one in the record of bridge {standing.bridge} with another spec"
        )
    return good


def out_again(found: Iterable[State | DamagedError], loaded: Loaded, time: datetime) -> tuple[list[Absence], list[str]]:
    """Absences that ended because their backends left the spec, of backends that are back with *loaded*.

    *found* are the states, newest first, with the current one. Also says what cannot be told.
    """
    back = {(name, b.name) for name, pool in loaded.spec.pools.items() for b in pool.backends}
    out: list[Absence] = []
    for state in found:
        if isinstance(state, DamagedError):
            names = ", ".join(sorted("/".join(name) for name in back))
            return out, [f"{state}. So whether these were out when they left is not known: {names}"]
        back -= {(m.pool, b.name) for m in state.members for b in m.members}  # it was in service then, or is out still
        if not back:
            break
        out += [a for a in state.ended if (a.pool, a.backend) in back and not a.expired(time)]
    return out, []


def put_in(overlay: Overlay, absences: Iterable[Absence]) -> Overlay:
    """The overlay with *absences* in the places where they would stand had they never left: by when they began."""
    now = list(overlay)
    for absence in absences:
        began = datetime.fromisoformat(absence.since)
        place = next((n for n, a in enumerate(now) if datetime.fromisoformat(a.since) > began), len(now))
        now.insert(place, absence)
    return Overlay(tuple(now))
