# SPDX-License-Identifier: Apache-2.0
"""A change under way: pending in the record before it happens, committed after it, undone if it fails before its bundle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace

from dnsteer.slots.maintenance import Overlay
from dnsteer.switch.openflow import UnconfirmedError
from dnsteer.switch.session import Session
from dnsteer.switch.signals import defer_signals
from dnsteer.switch.state import PENDING_KEY, REMOVED, STILL_PENDING, AppliedState, BridgeRecord, Pending
from dnsteer.switch.tools import SwitchError, UnavailableError, UnwrittenError, reworded


@dataclass(frozen=True)
class JournalEntry:
    """What is recorded of a change. *state* has number 0 when it is new; *name* is the switch's, if it has one.

    *record_stale* is whether the record says something else, so that it is written even when nothing of the switch changes.
    *record* is the bridge's record where it was read since the lock was taken; else it is read when the change begins.
    *role* is the role that a switch without one gets, as it is recorded.
    *keep* keeps the overlay elsewhere when OVSDB refuses to write it, with the reason, and returns what takes that back;
    None: then nothing is changed.
    """

    bridge: str
    state: AppliedState
    overlay: Overlay
    record_stale: bool = True
    name: str = ""
    record: BridgeRecord | None = None
    role: str = ""
    keep: Callable[[UnwrittenError], Callable[[], None]] | None = None


@dataclass(frozen=True)
class PendingChange:
    """A pending change, and the record that has it. *was_pending*: it was pending before.

    *unwritten*: the disk is full, and the record says it already, or the change is kept elsewhere, which
    *forget* takes back.
    """

    record: BridgeRecord
    pending: Pending
    was_pending: bool = False
    unwritten: bool = False
    forget: Callable[[], None] | None = None


def begin(session: Session, entry: JournalEntry) -> PendingChange:
    """Record the change as pending. Raises UnwrittenError, unless the record has it already."""
    record = entry.record or session.record(entry.bridge)
    if record is None:
        raise SwitchError(REMOVED.format(entry.bridge))
    wanted = Pending(entry.state.number, entry.state.digest, entry.overlay)
    was_pending = record.pending == wanted
    try:
        pending = session.begin(record, entry.state, entry.overlay, entry.role)
        return PendingChange(replace(record, ids={**record.ids, PENDING_KEY: pending.to_json()}), pending, was_pending)
    except UnwrittenError as err:
        # A full disk must not keep the tables from what the record says: after a restart they would stay empty.
        is_recorded = record.pending is None and wanted == Pending(record.number, record.digest, record.overlay)
        if entry.role or not (is_recorded or was_pending):
            if entry.keep is None:
                raise
            return PendingChange(record, wanted, unwritten=True, forget=entry.keep(err))
        return PendingChange(record, wanted, was_pending, unwritten=is_recorded)


def begin_or_nothing(session: Session, entry: JournalEntry) -> PendingChange:
    """As `begin`, with an error that says that nothing was changed. Signals must be deferred."""
    try:
        return begin(session, entry)
    except SwitchError as err:
        raise reworded(err, f"{err}; nothing was changed") from None


def commit(session: Session, entry: JournalEntry, pending_change: PendingChange) -> None:
    """Record the change as done."""
    if pending_change.unwritten and not (entry.name and entry.name != pending_change.record.name):
        return
    try:
        session.commit(pending_change.record, pending_change.pending, entry.state, name=entry.name)
    except UnwrittenError as err:
        if entry.keep is None:
            raise
        entry.keep(err)


def take_back(session: Session, pending_change: PendingChange | None) -> str:
    """Drop the pending change; one that was pending before stays so.

    Returns what could not be taken back, in words: the next verb does it then.
    """
    if pending_change is not None and pending_change.forget is not None:
        pending_change.forget()
    if pending_change is None or pending_change.was_pending or pending_change.unwritten:
        return ""
    try:
        with defer_signals():
            session.take_back(pending_change.record)
    except SwitchError as err:
        return STILL_PENDING.format(err)
    return ""


class Attempt:
    """A change of *bridge*; *is_new*: it creates that.

    *pending_change* is its journal entry, *restore_ports* what undoes its change of the bridge and ports. That is told
    whether to wait until the switch has followed, and may raise SwitchError.
    """

    def __init__(self, session: Session, bridge: str, *, is_new: bool) -> None:
        self._session, self._bridge, self._is_new = session, bridge, is_new
        self._deferred = ExitStack()
        self.pending_change: PendingChange | None = None
        self.restore_ports: Callable[[bool], None] | None = None
        self.undo_routes: Callable[[], None] | None = None
        self._kept = False

    def defer_signals(self) -> list[int]:
        """From here on, requests to end are obeyed when a failure is undone, or all is done. Returns those that come."""
        return self._deferred.enter_context(defer_signals())

    @property
    def kept(self) -> bool:
        """Whether nothing is undone any more: the switch has the new tables, or may have."""
        return self._kept

    def keep(self) -> None:
        """From here on nothing is undone: the switch has the new tables, or may have, and they need what was done before."""
        self._kept = True

    @contextmanager
    def sending(self, *, early: bool = False) -> Iterator[None]:
        """In the block a bundle is sent. Nothing is undone afterwards unless the switch has surely not taken it.

        All can be undone after an *early* bundle, whose flows nothing uses yet, if the switch has confirmed it.
        """
        before, self._kept = self._kept, True
        try:
            yield
        except UnconfirmedError:
            raise
        except SwitchError:  # it was refused, or could not be sent
            self._kept = before
            raise
        if early:
            self._kept = before

    @contextmanager
    def undone_on_failure(self) -> Iterator[None]:
        """Undo what was done when the block fails before the bundle is sent. The error says what became of the switch."""
        try:
            with self._deferred:
                try:
                    yield
                except BaseException as err:
                    self._undo(err)
                    raise
        except KeyboardInterrupt as err:
            if str(err):
                raise
            failed = err.__context__  # what the block raised before a request to end was obeyed
            end = "the change was already made" if self._kept else "nothing was changed"
            raise KeyboardInterrupt(str(failed) if isinstance(failed, SwitchError) else end) from None

    def _undo(self, err: BaseException) -> None:
        """Undo the last step first, and raise the error with what came of that, where there is something to say."""
        if self._kept:
            return
        said, end = str(err), ""
        if self.undo_routes is not None:
            with suppress(SwitchError), defer_signals():
                self.undo_routes()
        if self.restore_ports is not None:
            end = f"bridge {self._bridge} was removed again" if self._is_new else "nothing was changed"
            try:
                with defer_signals():
                    self.restore_ports(not isinstance(err, UnavailableError))
            except SwitchError as why:
                end = f"the bridge could not be restored to what it was ({why}); fix the cause and apply again"
            said = said.removesuffix("; nothing was changed")
        left = "" if self._is_new else take_back(self._session, self.pending_change)
        if isinstance(err, KeyboardInterrupt):
            raise KeyboardInterrupt("; ".join(filter(None, [end or "nothing was changed", left]))) from None
        if isinstance(err, SwitchError) and (end or left):
            raise reworded(err, "; ".join(filter(None, [said, end, left]))) from None
