# SPDX-License-Identifier: Apache-2.0
"""Changes since the agent started: states applied, maintenance, and the slots that each moved. In bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from dnsteer.deploy.maintenance_text import altered, begun_and_ended
from dnsteer.deploy.movement import NO_BACKEND, Assignment, Move, moved_vips, moves
from dnsteer.slots.denial import Denial
from dnsteer.slots.maintenance import Maintenance, Overlay, decisions_between, same_entry
from dnsteer.slots.owners import known_owners_of
from dnsteer.status.pools import PoolView
from dnsteer.view.snapshot import SnapshotRecorder, StateSnapshot

_MAX_CHANGES = 1000
"""Changes that wait to be read; older ones are left out then: the first and the last say what has changed."""


class ConsoleRecorder(SnapshotRecorder):
    """Keeps what the console shows. *changed* is called on the event loop when any of it does."""

    _changes: tuple[StateSnapshot, ...] = ()

    def state_changed(self, applied: StateSnapshot) -> None:
        """See SnapshotRecorder."""
        self._changes = (*self._changes[-_MAX_CHANGES:], applied)

    def take_changes(self) -> list[StateSnapshot]:
        """What was applied since the last call, each other than the one before it."""
        found, self._changes = self._changes, ()
        return list(found)


MAX_CHANGES = 200
MAX_DECISIONS = 50
"""Ids of a change that are kept, the first ones."""
MAX_PERIODS = 50
"""States of a backend that are kept."""


@dataclass(frozen=True)
class Change:
    """A change that the agent saw: what, by whom and why where that is recorded, and what moved.

    It goes on from *time* until *last*, as a drain that takes a while. *applied* is the number of a new state, 0 for none.
    """

    time: datetime
    last: datetime
    words: tuple[str, ...]
    by: str = ""
    note: str = ""
    applied: int = 0
    moves: tuple[Move, ...] = ()
    decisions: tuple[str, ...] = ()
    """The ids of the decisions behind it, as far as they are known."""


@dataclass(frozen=True)
class PoolChange:
    """The last change of the slots of a pool: *moved* has the backend before and after by slot, all of them at *last*."""

    change: Change
    last: datetime
    moved: Mapping[int, tuple[str, str]]


@dataclass(frozen=True)
class StatePeriod:
    """A backend's state from a time on, and why."""

    time: datetime
    word: str
    why: str = ""


@dataclass
class ChangeLog:
    """The changes, newest first; the last one of each pool, by title; and the states of each backend, by title and name."""

    changes: deque[Change] = field(default_factory=lambda: deque(maxlen=MAX_CHANGES))
    pools: dict[str, PoolChange] = field(default_factory=dict)
    periods: dict[tuple[str, str], deque[StatePeriod]] = field(default_factory=dict)
    _applied: StateSnapshot | None = None

    def add(self, changes: Iterable[StateSnapshot]) -> None:
        """Add the changes that the agent has seen, in order."""
        for applied in changes:
            before, self._applied = self._applied, applied
            if before is not None:
                self._add(before, applied)

    def _add(self, before: StateSnapshot, after: StateSnapshot) -> None:
        applied = after.known.state.number if after.known.state.number != before.known.state.number else 0
        sides = (
            Assignment(before.known.state.members, before.overlay),
            Assignment(after.known.state.members, after.overlay),
        )
        change = _change(before, after, applied)
        moved = moves(*sides)
        if applied:
            old, new = before.known.state.vips, after.known.state.vips
            moved += moved_vips(old, new, {m.pool: m.slots for m in after.known.state.members})
        if not change.words and self.changes:  # the last one goes on
            last = self.changes.popleft()
            decisions = dict.fromkeys((*last.decisions, *change.decisions))
            change = replace(last, last=after.time, decisions=tuple(decisions)[:MAX_DECISIONS])
            moved = _sum([*change.moves, *moved])
        change = replace(change, moves=tuple(moved))
        self.changes.appendleft(change)
        for title, slots in _by_slot(*sides):
            known = self.pools.get(title)
            if known is not None and known.change.time == change.time:
                slots = {s: way for s, way in _joined(known.moved, slots).items() if way[0] != way[1]}
            self.pools[title] = PoolChange(change, after.time, slots)
        titles = {m.title for m in after.known.state.members}
        self.pools = {title: found for title, found in self.pools.items() if title in titles}

    def record_states(
        self, pools: Sequence[PoolView], failing: Mapping[tuple[str, str], Mapping[str, str]], time: datetime
    ) -> None:
        """Record the states of all backends at a time."""
        present: set[tuple[str, str]] = set()
        for pool in pools:
            for backend in pool.backends:
                key = pool.title, backend.name
                present.add(key)
                whys = failing.get((pool.name, backend.name), {})
                word, why = str(backend.state), backend.entry.note if backend.entry else ""
                if word == "up" and whys:
                    word, why = "failing", next(iter(whys.values()))
                periods = self.periods.setdefault(key, deque(maxlen=MAX_PERIODS))
                if not periods or periods[-1].word != word:
                    periods.append(StatePeriod(time, word, why))
        for key in self.periods.keys() - present:
            del self.periods[key]


def _change(before: StateSnapshot, after: StateSnapshot, applied: int) -> Change:
    if applied:
        state = after.known.state
        said = (f"state {applied} applied", *(f"{a.title} ends" for a in state.ended))
        ids = tuple(filter(None, [state.decision]))
        return Change(after.time, after.time, said, state.by, state.note, applied, decisions=ids)
    words = [*begun_and_ended(before.overlay, after.overlay), *_returning(before.overlay, after.overlay)]
    if not words:
        words = altered(before.overlay, after.overlay)
    new: list[Maintenance | Denial] = [entry for entry in after.overlay if same_entry(before.overlay, entry) is None]
    was = before.overlay.denied
    new += [denial for denial in after.overlay.denials if denial.key not in was]
    by = ", ".join(dict.fromkeys(entry.by for entry in new))
    notes = "; ".join(dict.fromkeys(entry.note for entry in new if entry.note))
    decisions = decisions_between(before.overlay, after.overlay, after.decision)
    if any(entry.returns and same_entry(after.overlay, entry) is None for entry in before.overlay):
        decisions += (after.decision,)  # where that was not its last step: a panic, or somebody who did not wait
    decisions = tuple(dict.fromkeys(filter(None, decisions)))[:MAX_DECISIONS]
    return Change(after.time, after.time, tuple(words), by, notes, decisions=decisions)


def _returning(before: Overlay, after: Overlay) -> Iterable[str]:
    for entry in after:
        was = same_entry(before, entry)
        if entry.returns and was is not None and not was.returns:
            yield f"{entry.name}{entry.about_service} comes back over {entry.over:g} s"


def _by_slot(before: Assignment, after: Assignment) -> Iterable[tuple[str, dict[int, tuple[str, str]]]]:
    """Yield the title of each pool whose slots move, with the backend before and after by slot."""
    earlier = {m.title: m for m in before.pools}
    for members in after.pools:
        old = earlier.get(members.title)
        was, now = before.overlay.of(members.pool), after.overlay.of(members.pool)
        if (
            old is None
            or (old.slots, old.selection) != (members.slots, members.selection)
            or (old, was) == (members, now)
        ):
            continue
        a, b = known_owners_of(old, was), known_owners_of(members, now)
        a, b = a or (NO_BACKEND,) * len(b), b or (NO_BACKEND,) * len(a)
        found = {slot: (x, y) for slot, (x, y) in enumerate(zip(a, b, strict=True)) if x != y}
        if found:
            yield members.title, found


def _joined(first: Mapping[int, tuple[str, str]], second: Mapping[int, tuple[str, str]]) -> dict[int, tuple[str, str]]:
    return {**first, **{slot: (first[slot][0] if slot in first else way[0], way[1]) for slot, way in second.items()}}


def _sum(found: Iterable[Move]) -> list[Move]:
    """Moves of one change in several steps, each pool once."""
    out: dict[str, Move] = {}
    for move in found:
        was = out.get(move.title)
        if was is None:
            out[move.title] = move
        else:
            slots = max(was.slots, move.slots)  # one is a multiple of the other
            ways = {way: n * (slots // was.slots) for way, n in was.transfers.items()}
            for way, n in move.transfers.items():
                ways[way] = ways.get(way, 0) + n * (slots // move.slots)
            out[move.title] = replace(was, slots=slots, transfers=ways)
    return list(out.values())
