# SPDX-License-Identifier: Apache-2.0
"""Change the overlay of a running switch: backends go out and come back, and only slots of their pools change.

Nothing here loads the spec or looks at other tables: members and weights come from the record. Where the tables are not
what the record says, all of the recorded state is applied instead, which takes longer and mends them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from dnsteer import __version__
from dnsteer.deploy import maintenance_text, movement
from dnsteer.deploy.agreement import Agreement, refuse_outdated
from dnsteer.deploy.journal import JournalEntry, PendingChange, begin_or_nothing, commit, take_back
from dnsteer.deploy.movement import Assignment
from dnsteer.deploy.overlay_flows import overlay_flows
from dnsteer.deploy.target_switch import Confirm, Progress, TargetSwitch, silent
from dnsteer.deploy.times import expire, now
from dnsteer.render.flows import Flow
from dnsteer.render.templates import register_value
from dnsteer.slots.maintenance import Kind, Maintenance, Overlay, marker
from dnsteer.slots.membership import Membership
from dnsteer.spec.worker_names import Workers, names_of
from dnsteer.switch.openflow import OpenFlow, Tables, UnconfirmedError
from dnsteer.switch.restart_fence import RestartedError, send_bundle
from dnsteer.switch.session import Session
from dnsteer.switch.signals import defer_signals
from dnsteer.switch.state import FAILURES_KEY, KNOWN_KEY, NOT_FORWARDING, AppliedState, BridgeRecord
from dnsteer.switch.table_changes import compare_tables
from dnsteer.switch.tools import SwitchError, UnwrittenError, reworded
from dnsteer.tables.cookies import OBJECT_BITS, Category
from dnsteer.tables.order import PIPELINE
from dnsteer.tables.slot import group_row

if TYPE_CHECKING:
    from dnsteer.deploy.wanted_switch import WantedSwitch
    from dnsteer.extension.handover import Handover

Edit = Callable[[Overlay, AppliedState, datetime], Overlay]
"""The overlay that is wanted, given the one that there is, the state and the time. May raise SwitchError."""


class Differing(Enum):
    """What of the switch is not as recorded."""

    TABLES = "the tables"
    PROGRAM = "the extension's program"


@dataclass
class OverlayChange:
    """What a change of the overlay did or would do. *slots* has the number of slots of each pool.

    *ask* is why an operator is asked first. *differing* is what was not as recorded, and was put right. *workers*
    are those of the state; *wanted* is what it leads to where other clients are denied than before.
    """

    bridge: str
    before: Overlay
    after: Overlay
    moves: list[movement.Move]
    warnings: list[str] = field(default_factory=list)
    slots: Mapping[str, int] = field(default_factory=dict)
    members: tuple[Membership, ...] = ()
    ask: list[str] = field(default_factory=list)
    differing: Differing | None = None
    workers: Workers = field(default_factory=dict)
    wanted: WantedSwitch | None = None

    def entries(self, name: str, kind: Kind) -> list[Maintenance]:
        """Return the entries of that kind for POOL/BACKEND: several where it has workers."""
        pool, _, backend = name.partition("/")
        found = (self.after.find(pool, each, kind) for each in names_of(self.workers, pool, backend))
        return [entry for entry in found if entry is not None]

    @property
    def edited(self) -> bool:
        return self.before != self.after

    @property
    def repaired(self) -> bool:
        """Whether something was put right."""
        return self.differing is not None

    @property
    def changed(self) -> bool:
        return self.edited or self.repaired

    def words(self) -> list[str]:
        """Return what changes, one sentence each; empty when the overlay is the same."""
        moves = [move.text() for move in self.moves]
        altered = maintenance_text.altered(self.before, self.after)
        if moves or not self.edited:
            return moves + maintenance_text.denials_begun_and_ended(self.before, self.after) + altered
        begun = maintenance_text.begun_and_ended(self.before, self.after)
        stays = ["no slot moves"] if self.before.entries != self.after.entries else []
        return [*begun, *altered, *stays]

    def repair_text(self, *, dry_run: bool) -> str:
        """Return what was put right, as a sentence; empty if nothing."""
        if self.differing is None:
            return ""
        were, they = ("were", "they") if self.differing is Differing.TABLES else ("was", "it")
        return f"{self.differing.value} {'would be' if dry_run else were} corrected: {they} differed from the record"

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "ok": True,
            "changed": self.changed,
            "bridge": self.bridge,
            "repaired": self.repaired,
            "moved": sum(m.moved for m in self.moves),
            "moves": [m.as_json() for m in self.moves],
            "words": self.words(),
            "asks": self.ask,
            "warnings": self.warnings,
        }


def change_overlay(
    switch: TargetSwitch,
    bridge: str | None,
    edit: Edit,
    *,
    pools: Collection[str] = (),
    dry_run: bool = False,
    confirm: Confirm | None = None,
    progress: Progress = silent,
    time: datetime | None = None,
    unrecorded: bool = False,
) -> OverlayChange:
    """Change the overlay of a switch, and its tables in one bundle. Maintenance that has expired ends with it.

    The slots of *pools* are looked at, and put right, also where the overlay is what it should be already.
    *confirm* is asked where much is at stake. What may be *unrecorded* changes the tables also while OVSDB refuses to
    write, if *switch* can keep it; no maintenance ends with it. Raises SwitchError, or UnavailableError when the switch
    cannot be reached.
    """
    with switch.session() as session:
        record = session.record_of(bridge)
        agreement = Agreement(confirm, progress)
        while True:
            if not dry_run:
                record = _locked(switch, session, record.bridge, progress, unrecorded=unrecorded)
            refuse_outdated(record)
            if not record.number:
                raise SwitchError(f"no spec was applied to bridge {record.bridge} by this version; apply one first")
            state = session.state(record, record.number)
            change, final_moves = _plan_change(record, state, edit, time or now(), expires=not unrecorded)
            if change.before.denied != change.after.denied:
                _find_effects(switch, state, change)
            question = (record.uuid, _lasting(record), final_moves, change.ask) if change.ask and not dry_run else None
            if agreement.is_given_for(question):
                break
            session.unlock()  # while somebody thinks, others work
            agreement.ask(question, change.ask, [m.text() for m in final_moves])
        if dry_run and change.edited:
            return change
        locked = _LockedSwitch(switch, session, record, state, unrecorded)
        if change.wanted is not None:
            return replace(change, warnings=[*change.warnings, *_apply_denials(locked, change, progress)])
        found = _read_slots(locked, change, pools)
        differing = found.differing
        if differing is None and change.edited:
            try:
                _move_slots(locked, change.after, found)
            except RestartedError:  # ovs-vswitchd has lost the tables, or somebody the fence
                differing = Differing.TABLES
        if differing is None:
            return change
        warnings = [] if dry_run else _repair(locked, change.after, differing, found, progress)
        return replace(change, differing=differing, warnings=[*change.warnings, *warnings])


def _find_effects(switch: TargetSwitch, state: AppliedState, change: OverlayChange) -> None:
    """Add to a change of denials what it leads to, and what it cuts besides."""
    from dnsteer.deploy.denial_effects import denial_effects  # here, since quick verbs do without the spec

    change.wanted = switch.wanted(state, change.after)
    warnings, asks = denial_effects(change.wanted.loaded, change.before, change.after)
    change.warnings += warnings
    change.ask += asks


def _apply_denials(locked: _LockedSwitch, change: OverlayChange, progress: Progress) -> list[str]:
    """Bring the whole switch to other denials, since their lists depend on the spec. Returns warnings."""
    before, after, state = change.before, change.after, locked.state
    moved = any(before.of(m.pool) != after.of(m.pool) and m.pool in state.extended for m in state.members)
    return _apply_whole(locked, after, progress, needs_extension=moved, wanted=change.wanted)


def _lasting(record: BridgeRecord) -> dict[str, str]:
    """The record's keys without what the agent notes there for others, on which no change depends."""
    return {key: value for key, value in record.ids.items() if key not in (FAILURES_KEY, KNOWN_KEY)}


def _locked(
    switch: TargetSwitch, session: Session, bridge: str, progress: Progress, *, unrecorded: bool
) -> BridgeRecord:
    """Take the bridge's lock, settle a pending change, and return the record."""
    session.lock(bridge)
    record = session.record_of(bridge)
    if record.pending is None:
        return record
    from dnsteer.deploy.settle import settle, settle_or_keep  # here, since it loads all that quick verbs do without

    return (settle_or_keep if unrecorded else settle)(switch, session, record, progress)


def _plan_change(
    record: BridgeRecord, state: AppliedState, edit: Edit, time: datetime, *, expires: bool
) -> tuple[OverlayChange, list[movement.Move]]:
    """Return the change of an edit, and the moves once gradual changes are done: these are confirmed beforehand."""
    before, members = record.overlay, state.members
    after = edit(expire(before, time) if expires else before, state, time)
    # The moves of this edit alone, without those of gradual changes that are under way.
    own = after.with_entries(b for a in after for b in ((a,) if a in set(before) else a.in_the_end))
    was, becomes = Assignment(members, before), Assignment(members, after)
    final_moves = movement.moves(was, Assignment(members, own)) if before != after else []
    goal = after.with_entries(b for a in after for b in a.in_the_end)
    change = OverlayChange(
        record.bridge,
        before,
        after,
        moves=movement.moves(was, becomes),
        warnings=[
            *movement.pools_without_backends(becomes),
            *movement.last_backends_left(was, Assignment(members, goal)),
            *([NOT_FORWARDING] if record.waits else []),
        ],
        slots={m.pool: m.slots for m in members},
        members=members,
        ask=movement.reasons_to_ask(final_moves, was, Assignment(members, goal)) if before != after else [],
        workers=state.workers,
    )
    return change, final_moves


@dataclass(frozen=True)
class _LockedSwitch:
    """The switch that is changed, with its record and the state that is applied; the change may be *unrecorded*."""

    switch: TargetSwitch
    session: Session
    record: BridgeRecord
    state: AppliedState
    unrecorded: bool

    def keep(self, overlay: Overlay) -> Callable[[UnwrittenError], Callable[[], None]] | None:
        """What keeps an overlay that OVSDB refuses to write; None where nothing may."""
        return partial(self.switch.keep_overlay, self.session, self.record.bridge, overlay) if self.unrecorded else None


@dataclass(frozen=True)
class _SlotSnapshot:
    """The slots of *pools* as the switch has them, in its *tables*, and what the extension is to be given."""

    pools: Sequence[Membership] = ()
    tables: Tables = field(default_factory=Tables)
    handover: Handover | None = None
    differing: Differing | None = None


def _read_slots(locked: _LockedSwitch, change: OverlayChange, pools_named: Collection[str]) -> _SlotSnapshot:
    """Compare the pools whose maintenance changes, and those that are named, with the record."""
    before, after = change.before, change.after
    touched = [m for m in locked.state.members if m.pool in pools_named or before.of(m.pool) != after.of(m.pool)]
    if not touched and not change.edited:
        return _SlotSnapshot()
    handover = _plan_handover(locked, after, touched)
    pools = [m for m in touched if m.number not in locked.state.elsewhere]
    tables = _tables_as_recorded(locked, before, pools)
    if tables is None:
        return _SlotSnapshot(handover=handover, differing=Differing.TABLES)
    strays = not change.edited and handover is not None and handover.loads
    return _SlotSnapshot(pools, tables, handover, Differing.PROGRAM if strays else None)


def _plan_handover(locked: _LockedSwitch, after: Overlay, touched: Iterable[Membership]) -> Handover | None:
    """Return what the extension is to be given, where it serves one of the pools."""
    if not any(m.pool in locked.state.extended for m in touched):
        return None
    from dnsteer.deploy.extension_program import handover_for  # here, since it loads all that quick verbs do without

    return handover_for(locked.switch, locked.state, after)


def _tables_as_recorded(locked: _LockedSwitch, before: Overlay, pools: Sequence[Membership]) -> Tables | None:
    """Return the slots of pools as the switch has them; None where they are not what the record says."""
    lines, groups = overlay_flows(locked.state, before, pools)
    if locked.switch.is_intact(locked.record.bridge, marker(locked.state.digest, before)):
        return Tables(set(lines), groups={group.number: group for group in groups})
    have = _tables_of(locked.switch.client(locked.record.bridge), pools)
    return None if compare_tables(lines, groups, have) else have


def _move_slots(locked: _LockedSwitch, after: Overlay, found: _SlotSnapshot) -> None:
    """Move the slots of the pools: the journal, the extension, which may refuse, then one bundle; and record it.

    Raises SwitchError, or RestartedError where the tables are no longer what was found; nothing was changed then.
    """
    handover, todo = found.handover, compare_tables(*overlay_flows(locked.state, after, found.pools), found.tables)
    entry = JournalEntry(locked.record.bridge, locked.state, after, record=locked.record, keep=locked.keep(after))
    # Signals are deferred, since it is short.
    with locked.switch.moving(locked.record.bridge, locked.state, after, todo), defer_signals():
        pending_change = begin_or_nothing(locked.session, entry)
        if handover is not None and handover.loads:
            _load_slots(locked.session, pending_change, handover)
        try:
            send_bundle(locked.switch.client(locked.record.bridge), todo.bundle(), fenced=True)
        except UnconfirmedError:
            raise  # the outcome is unknown; the next verb settles it
        except SwitchError as err:
            failed = [handover.roll_back()] if handover is not None and handover.loads else []
            left = "; ".join(filter(None, [*failed, take_back(locked.session, pending_change)]))
            if left:
                raise reworded(err, f"{err}; {left}") from None
            raise
        try:
            commit(locked.session, entry, pending_change)
        except SwitchError as err:
            raise reworded(
                err,
                f"the slots have moved, but {err}; the change is still pending in the record: to complete it, "
                "run dnsteer reconcile or repeat this command",
            ) from None


def _load_slots(session: Session, pending_change: PendingChange, handover: Handover) -> None:
    """Load the slots into the extension. On an error other than ConnectionLostError nothing was changed."""
    from dnsteer.extension.client import ConnectionLostError

    try:
        handover.load_new()
    except ConnectionLostError as err:
        raise ConnectionLostError(f"{err}; it is unknown whether it has the new slots: repeat the command") from None
    except (SwitchError, PermissionError) as err:
        left = take_back(session, pending_change)
        if left and isinstance(err, SwitchError):
            raise reworded(err, f"{err}; {left}") from None
        raise


def _repair(
    locked: _LockedSwitch, after: Overlay, differing: Differing, found: _SlotSnapshot, progress: Progress
) -> list[str]:
    """Apply the whole recorded state with the wanted overlay, since something is not as recorded. Returns warnings."""
    other = f"dnsteer {locked.state.version} made the tables, and this is {__version__}"
    are = "are" if differing is Differing.TABLES else "is"
    why = f"{differing.value} {are} not as recorded" if locked.state.version == __version__ else other
    progress(f"{why}: applying the whole recorded state")
    return _apply_whole(locked, after, progress, needs_extension=found.handover is not None)


def _apply_whole(
    locked: _LockedSwitch,
    after: Overlay,
    progress: Progress,
    *,
    needs_extension: bool,
    wanted: WantedSwitch | None = None,
) -> list[str]:
    """Apply the recorded state with another overlay, whatever the switch has. Returns warnings."""
    from dnsteer.deploy.apply import apply_state  # here, since it loads all that quick verbs do without

    applied = apply_state(
        locked.switch,
        locked.session,
        locked.state,
        after,
        progress,
        needs_extension=needs_extension,
        keep=locked.keep(after),
        wanted=wanted,
    )
    return [f"the extension did not get its program: {applied.away}"] if applied.away is not None else []


def _tables_of(client: OpenFlow, touched: Iterable[Membership]) -> Tables:
    """Read the pools' slots and the flow with the marker from the switch."""
    tables = client.dump(only=f"table={PIPELINE.holding('state').number}")
    pool = PIPELINE.registers["pool"]
    for members in touched:
        for contents in ("slots", "connections") if members.keeps else ("slots",):
            table = PIPELINE.holding(contents)
            one = client.dump(only=f"table={table.number},{pool.field}={register_value(members.number)}")
            tables.flows.update((key, flow) for key, flow in one.flows.items() if not _is_of_probes(flow))
            tables.flags.update(one.flags)
            tables.other.update(one.other)
        if members.selection == "dp-hash":
            number = group_row(members, ()).group
            group = client.group(number)
            if group is not None:
                tables.groups[number] = group
    return tables


def _is_of_probes(flow: Flow) -> bool:
    """Whether it is one of the flows of probes, which do not depend on the overlay."""
    return flow.cookie >> OBJECT_BITS & 0xFF == Category.PROBE
