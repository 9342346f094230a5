"""The steps that write a change into the bridge's record: before it happens (begin) and when it happened (commit)."""

from __future__ import annotations

from dataclasses import dataclass

from dnsteer.slots.maintenance import Overlay
from dnsteer.switch.session import Session
from dnsteer.switch.signals import defer_signals
from dnsteer.switch.state import STILL_BEGUN, AppliedState, BridgeRecord, Pending
from dnsteer.switch.tools import SwitchError, UnwrittenError, reworded


@dataclass(frozen=True)
class JournalEntry:
    """What is written down of a change. *state* has number 0 when it is new; *name* is the switch's, where it has one.

    *stale* is whether the record says something else, so that it is written even when nothing of the switch changes.
    """

    bridge: str
    state: AppliedState
    overlay: Overlay
    stale: bool = True
    name: str = ""


@dataclass(frozen=True)
class Begun:
    """A change that is begun. *goes_on*: it was before. *unwritten*: the disk is full, and the record says it already."""

    pending: Pending
    goes_on: bool = False
    unwritten: bool = False


def begin(session: Session, entry: JournalEntry) -> Begun:
    """Write down what is about to happen. Raises UnwrittenError, unless the record says that already."""
    record = _record(session, entry.bridge)
    wanted = Pending(entry.state.number, entry.state.digest, entry.overlay)
    goes_on = record.pending == wanted
    try:
        return Begun(session.begin(record, entry.state, entry.overlay), goes_on)
    except UnwrittenError:
        # A full disk must not keep the tables from what the record says: after a restart they would stay empty.
        is_so = record.pending is None and wanted == Pending(record.number, record.digest, record.overlay)
        if not (is_so or goes_on):
            raise
        return Begun(wanted, goes_on, unwritten=is_so)


def begin_or_nothing(session: Session, entry: JournalEntry) -> Begun:
    """The same before anything was changed, which the error says then. Signals must be deferred."""
    try:
        return begin(session, entry)
    except SwitchError as err:
        raise reworded(err, f"{err}; nothing was changed") from None


def commit(session: Session, entry: JournalEntry, begun: Begun) -> None:
    """Write down that it happened."""
    record = _record(session, entry.bridge)
    if not begun.unwritten or (entry.name and entry.name != record.name):
        session.commit(record, begun.pending, entry.state, name=entry.name)


def take_back(session: Session, bridge: str, begun: Begun | None) -> str:
    """Write down that it did not happen; a change that was begun before this one stays begun.

    Returns what could not be taken back, in words: the next verb does it then.
    """
    if begun is None or begun.goes_on or begun.unwritten:
        return ""
    try:
        with defer_signals():
            session.take_back(_record(session, bridge))
    except SwitchError as err:
        return STILL_BEGUN.format(err)
    return ""


def _record(session: Session, bridge: str) -> BridgeRecord:
    record = session.record(bridge)
    if record is None:
        raise SwitchError(f"bridge {bridge} was removed meanwhile")
    return record
