"""Going back to an earlier state: which one, and the maintenance that its backends had."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dnsteer.deploy.recorded import load_state
from dnsteer.deploy.spec_source import SourcedSpec
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.slots.maintenance import Maintenance
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.session import Session
from dnsteer.switch.state import AppliedState, BridgeRecord, DamagedError
from dnsteer.switch.tools import SwitchError


@dataclass(frozen=True)
class StateSource:
    """The source of a rollback: state *number* of a bridge, or the last one with another spec."""

    bridge: str | None = None
    number: int | None = None

    def find_bridge(self, session: Session) -> str:
        """The bridge of that name, or the only one there is."""
        return session.record_of(self.bridge).bridge

    def read(self, session: Session, record: BridgeRecord | None, time: datetime) -> SourcedSpec:
        """Return the spec of that state, with the maintenance that returns with it."""
        assert record is not None  # `find_bridge` has read it
        loaded, state = chosen(session, record, self.number)
        returned, unknown = returning_maintenance(session.states(record), loaded, time)
        return SourcedSpec(loaded, f"rollback to state {state.number}", tuple(returned), tuple(unknown))


def state_to_roll_back_to(switch: TargetSwitch, bridge: str | None, number: int | None) -> tuple[Loaded, AppliedState]:
    """Return the recorded spec of that state. Raises SwitchError if it is no longer kept."""
    with switch.session() as session:
        return chosen(session, session.record_of(bridge), number)


def chosen(session: Session, record: BridgeRecord, number: int | None) -> tuple[Loaded, AppliedState]:
    """Return the spec of state *number* or of the last with another spec. Raises SwitchError if it is not kept."""
    found = session.states(record)
    state = _named(session, record, found, number) if number is not None else _earlier(record, found)
    loaded = load_state(state)
    return replace(loaded, document=replace(loaded.document, file=state.file)), state


def _named(
    session: Session, record: BridgeRecord, found: Sequence[AppliedState | DamagedError], number: int
) -> AppliedState:
    kept = [s.number for s in found if isinstance(s, AppliedState)]
    if number in kept:
        return session.state(record, number)
    session.state(record, number)  # names the damage, where that is the cause
    has = f"it has {', '.join(map(str, kept))}" if kept else "it has none"
    raise SwitchError(f"state {number} is not kept in the record of bridge {record.bridge}; {has}")


def _earlier(record: BridgeRecord, found: Sequence[AppliedState | DamagedError]) -> AppliedState:
    """Return the last state with another spec. Raises if a damaged state may be the one."""
    earlier = [s for s in found if not s.number or s.number < record.number]
    good = next((s for s in earlier if isinstance(s, AppliedState) and s.digest != record.digest), None)
    damaged = next((s for s in earlier if isinstance(s, DamagedError)), None)
    if damaged is not None and (good is None or damaged.number > good.number or not damaged.number):
        raise SwitchError(f"{damaged}. Name the state to go back to: dnsteer rollback N; see: dnsteer history")
    if good is None:
        raise SwitchError(
            f"there is no state before the current one in the record of bridge {record.bridge} with another spec"
        )
    return good


def returning_maintenance(
    found: Iterable[AppliedState | DamagedError], loaded: Loaded, time: datetime
) -> tuple[list[Maintenance], list[str]]:
    """Return maintenance that ended when its backends left the spec, for backends that *loaded* has again.

    *found* are the states, newest first, with the current one. Also says what cannot be told.
    """
    back = {(name, b.name) for name, pool in loaded.spec.pools.items() for b in pool.backends}
    out: list[Maintenance] = []
    for state in found:
        if isinstance(state, DamagedError):
            names = ", ".join(sorted("/".join(name) for name in back))
            return out, [f"{state}. So whether these were out when they left is not known: {names}"]
        back -= {(m.pool, b.name) for m in state.members for b in m.members}  # it was in service then, or is out still
        if not back:
            break
        out += [a for a in state.ended if (a.pool, a.backend) in back and not a.expired(time) and not a.slots]
    return out, []
