# SPDX-License-Identifier: Apache-2.0
"""Going back to an earlier state: which one, and the maintenance that its backends had.

Each rollback is a state of its own, which says which state it restores and, if that is an older one than the one before,
which it rolls back: so it is known of which states somebody has rolled back, for as long as they are kept. A state that is
restored, as by a rollback to a later one, is no longer one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dnsteer.deploy.goal import SourcedSpec
from dnsteer.deploy.recorded_spec import load_state
from dnsteer.deploy.settle import as_settled
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.slots.maintenance import Maintenance
from dnsteer.spec.errors import some_of
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.session import Session
from dnsteer.switch.state import AppliedState, BridgeRecord, DamagedError
from dnsteer.switch.tools import SwitchError


@dataclass(frozen=True)
class StateSource:
    """The source of a rollback: state *number* of a bridge, or the one that `target_of_rollback` names."""

    bridge: str | None = None
    number: int | None = None

    def find_bridge(self, session: Session) -> str:
        """The bridge of that name, or the only one there is."""
        return session.record_of(self.bridge).bridge

    def read(self, session: Session, record: BridgeRecord | None, time: datetime) -> SourcedSpec:
        """Return the spec of that state, with the maintenance that returns with it."""
        assert record is not None  # `find_bridge` has read it
        found = session.states(record)
        state = _choose(session, record, found, self.number)
        loaded = load_state(state)
        loaded = replace(loaded, document=replace(loaded.document, file=state.file))
        returned, unknown = returning_maintenance(found, loaded, time)
        note = f"rollback to state {state.number}"
        kept = _by_number(found)
        older = _origin(kept, state.number) < _origin(kept, record.number)
        return SourcedSpec(
            loaded,
            note,
            tuple(returned),
            tuple(unknown),
            restores=state.number,
            rolls_back=record.number if older else 0,
        )


def target_of_rollback(switch: TargetSwitch, bridge: str | None, number: int | None) -> AppliedState:
    """Return the recorded state that a rollback to *number*, or one without a number, goes to. Changes nothing.

    Without a number that is the last state before the current one that nobody has rolled back from, with another spec.
    Where the current state is a rollback itself, it is one before the state that it restored: rolling back again goes
    further back. Raises SwitchError if the state is not kept, or cannot be told because a state is damaged.
    """
    with switch.session() as session:
        record = as_settled(switch, session.record_of(bridge))
        return _choose(session, record, session.states(record), number)


def rolled_back(found: Iterable[AppliedState | DamagedError]) -> set[int]:
    """Return the numbers of the states that a later one has rolled back from, and that none has restored since.

    States that restore each other have one spec: all of them are rolled back from, or none.
    """
    kept = _by_number(found)
    left: set[int] = set()
    for state in sorted(kept.values(), key=lambda s: s.number):
        left.discard(_origin(kept, state.restores))
        if state.rolls_back:
            left.add(_origin(kept, state.rolls_back))
    return {number for number in kept if _origin(kept, number) in left}


def _by_number(found: Iterable[AppliedState | DamagedError]) -> Mapping[int, AppliedState]:
    return {s.number: s for s in found if isinstance(s, AppliedState)}


def _origin(kept: Mapping[int, AppliedState], number: int) -> int:
    """The number of the state that *number* restored if it is a rollback, and so on, as far as states are kept."""
    while number in kept and kept[number].restores:
        number = kept[number].restores
    return number


def _choose(
    session: Session, record: BridgeRecord, found: Sequence[AppliedState | DamagedError], number: int | None
) -> AppliedState:
    return _named(session, record, found, number) if number is not None else _earlier(record, found)


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
    """Return the target without a number. Raises if a damaged state may be the one, or may say that it is not."""
    kept, left = _by_number(found), rolled_back(found)
    place = _origin(kept, record.number)  # a rollback is where the state is that it brought back
    earlier = [s for s in kept.values() if s.number < place and s.digest != record.digest]
    good = next((s for s in earlier if s.number not in left), None)
    damaged = next((s for s in found if isinstance(s, DamagedError)), None)
    if damaged is not None and (good is None or damaged.number > good.number or not damaged.number):
        raise SwitchError(f"{damaged}. Name the state to go back to: dnsteer rollback N; see: dnsteer history")
    if good is None:
        passed = [str(s.number) for s in kept.values() if s.number < record.number and s.number in left]
        hint = f"; {_states(passed)} rolled back from and can be named: dnsteer rollback N" if passed else ""
        raise SwitchError(
            f"there is no state before the current one in the record of bridge {record.bridge} with another spec{hint}"
        )
    return good


def _states(numbers: Sequence[str]) -> str:
    return f"state {numbers[0]} was" if len(numbers) == 1 else f"states {', '.join(numbers)} were"


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
            names = some_of(sorted("/".join(name) for name in back))
            return out, [f"{state}. So whether these were out when they left is not known: {names}"]
        back -= {(m.pool, b.name) for m in state.members for b in m.members}  # it was in service then, or is out still
        if not back:
            break
        out += [a for a in state.ended if (a.pool, a.backend) in back and not a.expired(time) and not a.slots]
    return out, []
