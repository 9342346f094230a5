# SPDX-License-Identifier: Apache-2.0
"""Files of access lists, followed: what they hold is applied when they change, as `dnsteer apply` would.

A file is applied that has other entries than the applied state; after a rollback only once it has changed since. So what
people did is not undone. Whatever is wrong with a file, the state that is applied stays.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from dnsteer.agent.followed_state import FollowedState
from dnsteer.agent.held_switch import HeldSwitch
from dnsteer.agent.list_times import ListTimes
from dnsteer.checks.access import LEAVES_OUT, NO_CLIENTS
from dnsteer.checks.load import check_document
from dnsteer.deploy.caller import CALLER, Caller, agent_name
from dnsteer.deploy.decision import IDS, deciding
from dnsteer.deploy.goal import SourcedSpec
from dnsteer.deploy.run import Options, deploy
from dnsteer.deploy.spec_differences import changed_entries
from dnsteer.metrics.observer import AgentObserver, ListChange
from dnsteer.plan.pool_slots import keep_slots
from dnsteer.spec.errors import Path as SpecPath
from dnsteer.spec.errors import SpecError, counted
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.parts.followed_lists import FollowedList, followed_lists
from dnsteer.spec.parts.list_files import text_digest
from dnsteer.spec.parts.reread_lists import put_lists, read_lists
from dnsteer.spec.read import parse_recorded
from dnsteer.switch.session import Session
from dnsteer.switch.state import AppliedState, BridgeRecord, BusyError
from dnsteer.switch.tools import SwitchError

POLL = 0.5
"""Seconds between two looks at the files' times."""
_BUSY = 1.0
"""Seconds after which the change is tried again while another dnsteer changes the bridge."""


class UnreadyError(Exception):
    """A file is being written, or another state is applied by now: it is looked at again soon."""


class LeftError(Exception):
    """The change is not made by itself; says why."""


@dataclass(frozen=True)
class ListSource:
    """A spec whose lists were read again, to be applied on *state* alone."""

    loaded: Loaded
    state: AppliedState

    def find_bridge(self, _session: Session) -> str:
        """The bridge that the spec names."""
        return self.loaded.spec.switch.bridge

    def read(self, _session: Session, record: BridgeRecord | None, _time: datetime) -> SourcedSpec:
        """The spec itself. Raises UnreadyError where another state is applied now."""
        if record is None or record.number != self.state.number:
            raise UnreadyError
        return SourcedSpec(self.loaded, rereads=self.state.rereads or self.state.number)


@dataclass(frozen=True)
class FollowedFiles:
    """The files of the lists of a state. *held* are texts, by SHA-256, that somebody has left on purpose, by the names of
    the files: one that holds such a text is left as it is."""

    followed: FollowedState
    lists: tuple[FollowedList, ...]
    held: Mapping[str, frozenset[str]]


def files_of(
    followed: FollowedState, before: int, states: Callable[[], Iterable[AppliedState]], time: float
) -> FollowedFiles:
    """The files of a state that is followed from now on, after that of number *before* (0: after none), at a *time*.

    Left are texts of states that were rolled back; and what files hold now that have not changed since the state was made,
    where nobody has read them for it: after a rollback, on another machine, and where an older record was restored.
    *states* gives the kept states.
    """
    state = followed.state
    lists = followed_lists(state.text)
    held = {one.name: {one.held} for one in lists}
    if lists and state.restores:
        for other in states():
            if state.restores < other.number < state.number:
                for one in followed_lists(other.text):
                    held.setdefault(one.name, set()).add(one.sha256)
    applied = datetime.fromisoformat(state.time).timestamp()
    for one in lists:
        is_older = state.number < before
        unread = is_older or bool(state.restores) or one.host != os.uname().nodename
        if unread and _changed_at(one) <= (time if is_older else applied):
            with suppress(SpecError):  # which is said when it is followed
                held[one.name] |= {text_digest(text) for text in read_lists(state.file, [one]).values()}
    return FollowedFiles(followed, lists, {one.name: frozenset(held[one.name] - {"", one.sha256}) for one in lists})


@dataclass(frozen=True)
class ListsRead:
    """What files hold now: the spec with it, and the *changes*; without a spec nothing has changed. *left* are the files
    that hold something else than what is applied, and are left as they are."""

    loaded: Loaded | None
    changes: tuple[ListChange, ...]
    left: tuple[str, ...] = ()


def read_files(files: FollowedFiles, *, settled: bool) -> ListsRead:
    """Read the files again. Unless they have *settled*, one that ends within a line is waited for.

    Raises SpecError with what is wrong with them or the spec, LeftError for lists that would keep everybody out of
    something, and UnreadyError.
    """
    state = files.followed.state
    here = [one for one in files.lists if not is_elsewhere(one)]
    texts = read_lists(state.file, here)
    if not settled and any(text and not text.endswith("\n") for text in texts.values()):
        raise UnreadyError
    other = {one.name: digest for one in here if (digest := text_digest(texts[one.name])) != one.sha256}
    left = {name for name, digest in other.items() if digest in files.held[name]}
    new = {name: texts[name] for name in other if name not in left}
    if not new:
        return ListsRead(None, (), tuple(sorted(left)))
    document = parse_recorded(state.file, state.text)
    lists = [replace(one, held=other[one.name]) if one.name in left else one for one in files.lists]
    loaded = check_document(put_lists(document, lists, new))
    if keep_slots(loaded, state.members).digest == state.digest:  # comments
        return ListsRead(None, (), tuple(sorted(left)))
    _refuse_closed(loaded, state)
    changes = [_change(one, files.followed.spec, loaded.spec) for one in here if one.name in new]
    return ListsRead(loaded, tuple(change for change in changes if change is not None), tuple(sorted(left)))


def _refuse_closed(loaded: Loaded, state: AppliedState) -> None:
    """Raise LeftError where the lists keep all clients out of something that clients may ask now."""
    closed = [found for found in loaded.warnings if found.kind in (LEAVES_OUT, NO_CLIENTS)]
    if not closed:
        return
    before = {found.found for found in check_document(parse_recorded(state.file, state.text)).warnings}
    new = next((found for found in closed if found.found not in before), None)
    if new is not None:
        raise LeftError(f"{new.text(state.file).splitlines()[0]}; if that is meant: dnsteer apply {state.file}")


def _change(one: FollowedList, before: Spec, after: Spec) -> ListChange | None:
    """What has changed in a file: in the first list that it belongs to. None where that is nothing but comments."""
    was, now = (_entries(spec, one.lists[0]) for spec in (before, after))
    added, removed = changed_entries(was, now)
    return ListChange(one.name, tuple(added), tuple(removed), len(now)) if was != now else None


def _entries(spec: Spec, path: SpecPath) -> list[str]:
    owner = spec.switch if path[0] == "switch" else spec.vips[str(path[1])]
    return [str(entry) for entry in getattr(owner.access, str(path[-1])) or ()]


def is_elsewhere(one: FollowedList) -> bool:
    """Whether the file is on another machine, as far as can be told."""
    return one.host != os.uname().nodename and not os.path.lexists(one.file)


def _changed_at(one: FollowedList) -> float:
    """When a file has changed last, also by being moved into its place, in seconds of Unix time; 0 where it is gone."""
    try:
        return os.stat(one.file).st_ctime  # noqa: PTH116
    except OSError:
        return 0.0


def stamp_of(lists: Iterable[FollowedList]) -> tuple[object, ...]:
    """What is another one whenever one of the files may have changed."""
    out: list[object] = []
    for one in lists:
        try:
            found = Path(one.file).stat()
            out.append((found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))
        except OSError as err:
            out.append(err.errno)
    return tuple(out)


class ListFollower:
    """Follows the files of the lists of the applied state of one bridge."""

    def __init__(self, switch: HeldSwitch, observer: AgentObserver) -> None:
        self._switch, self._observer = switch, observer
        self._files: FollowedFiles | None = None
        self._known: AppliedState | None = None
        self._times = ListTimes()
        self._left: tuple[str, ...] = ()
        """The files that were said to be left as they are."""

    async def run(self, followed: Callable[[], FollowedState | None], is_acting: Callable[[], bool]) -> None:
        """Follow until cancelled, while *is_acting*: the state that is *followed*, if one is."""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(POLL)
            state = followed()
            if state is None or not is_acting() or state.number != state.state.number:
                self._stand_by()
                continue
            if state.state is not self._known:
                await self._adopt(state)
            files = self._files
            if files is None or not files.lists:
                continue
            every = state.spec.switch.follow_lists
            stamp = await asyncio.to_thread(stamp_of, files.lists)  # a disk of the network may hang
            self._times.notice(stamp, clock())
            if self._times.is_due(clock(), every):
                await self._follow(files, clock)

    def _stand_by(self) -> None:
        """Forget what is followed: another agent does that now, or nothing is applied."""
        if self._files is not None:
            self._observer.lists_wrong("")
        self._files = self._known = None

    async def _adopt(self, followed: FollowedState) -> None:
        """Follow the files of another state."""
        before = self._known.number if self._known is not None else 0
        self._files = None
        if followed.spec.switch.follow_lists:
            self._files = await asyncio.to_thread(self._files_of, followed, before)
        self._known, self._left = followed.state, ()
        self._times.forget()
        if self._files is None or not self._files.lists:
            self._observer.lists_wrong("")
            return
        for one in filter(is_elsewhere, self._files.lists):
            why = f"it was read on {one.host}, and is not on this machine: apply the spec there after a change"
            self._observer.say(f"{one.name} is not followed: {why}", "list_left", file=one.name, reason=why)

    def _files_of(self, followed: FollowedState, before: int) -> FollowedFiles:
        def states() -> list[AppliedState]:
            with self._switch.session() as session:
                kept = session.states(session.record_of(followed.bridge))
                return [state for state in kept if isinstance(state, AppliedState)]

        return files_of(followed, before, states, time.time())

    async def _follow(self, files: FollowedFiles, clock: Callable[[], float]) -> None:
        """Read the files, and apply what they hold."""
        began, times = clock(), self._times
        settled = times.is_quiet(began)
        times.read()
        try:
            found = await asyncio.to_thread(read_files, files, settled=settled)
            if found.loaded is not None:
                decision = IDS.next()
                state = await asyncio.to_thread(self._apply, files.followed, found, decision)
                times.applied(clock())
                self._observer.lists_changed(found.changes, state, decision, clock() - began)
        except UnreadyError:
            times.again(clock() + POLL)
        except BusyError:
            times.again(clock() + _BUSY)
        except LeftError as err:
            self._observer.lists_wrong(f"a change of an access list waits for an operator: {err}")
        except SpecError as err:
            self._observer.lists_wrong(f"an access list is wrong, so what is applied stays: {first_of(err)}")
        except (SwitchError, PermissionError) as err:
            times.again(clock() + files.followed.spec.switch.follow_lists)
            self._observer.lists_wrong(f"a change of an access list cannot be applied: {err}")
        else:
            self._observer.lists_wrong("")
            self._tell_left(files, found.left)

    def _tell_left(self, files: FollowedFiles, left: tuple[str, ...]) -> None:
        """Say, once for a state, which files are left as they are."""
        for name in left:
            if name not in self._left:
                why = f"it has not changed since state {files.followed.number} was applied"
                text = f"{name} has other entries than what is applied, and is left so: {why}"
                self._observer.say(text, "list_left", file=name, reason=why)
        self._left = left

    def _apply(self, followed: FollowedState, found: ListsRead, decision: str) -> int:
        """Apply a spec with other entries, and return the number of its state. Raises as `deploy`, LeftError and
        UnreadyError. In a thread."""
        assert found.loaded is not None

        def refuse(reasons: list[str], _words: list[str]) -> None:
            raise LeftError(f"{'; '.join(reasons)}; to do it: dnsteer apply {followed.state.file}")

        CALLER.set(Caller(agent_name(), time.sleep))  # of this thread's context alone
        with deciding(decision):
            note = "; ".join(change.text for change in found.changes)
            if followed.state.rereads:
                note += f" (since state {followed.number}, whose place this one takes)"
            source = ListSource(found.loaded, followed.state)
            return deploy(source, self._switch, Options(note=note), confirm=refuse).state


def first_of(err: SpecError) -> str:
    """The first finding of an error in one line, and how many more there are."""
    more = len(err.findings) - 1 + err.more
    first = " ".join(err.findings[0].text(err.file).split())
    return f"{first} (and {counted(more, 'more mistake')})" if more > 0 else first
