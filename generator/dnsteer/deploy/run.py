"""Bring a running switch to a spec, recorded: what `apply`, `plan`, `rollback` and `restore` do."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from dnsteer import __version__
from dnsteer.deploy import movement
from dnsteer.deploy.apply import Apply, Prepared
from dnsteer.deploy.prefetch import Ahead
from dnsteer.deploy.removed_services import vanishing, vanishing_flows
from dnsteer.deploy.rollback import Back, chosen, out_again, put_in
from dnsteer.deploy.send import Applied
from dnsteer.deploy.settle import Journal, NoJournal, as_settled, forget, reach, settle, spec_of
from dnsteer.deploy.spec_differences import Difference, differences
from dnsteer.deploy.summary import Outlook, sentences
from dnsteer.deploy.target_switch import (
    GRACE,
    MOVED_ON,
    WAITS,
    Confirm,
    Progress,
    Switch,
    expire,
    now,
    silent,
    stamp,
    who,
)
from dnsteer.plan.applied_slots import keep_slots, notes
from dnsteer.slots.maintenance import NO_OVERLAY, Absence, Overlay
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Spec
from dnsteer.switch import database as db
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.record import Record
from dnsteer.switch.restart_fence import RestartedError
from dnsteer.switch.state import DamagedError, Standing, State
from dnsteer.switch.tools import SwitchError, UnavailableError, UnwrittenError

if TYPE_CHECKING:
    from dnsteer.deploy.extension import ProgramChange


@dataclass(frozen=True)
class Options:
    """How to deploy. *adopt* takes over a bridge of somebody else, *rename* a switch of another name.

    *grace* is how long, in seconds, answers of backends that leave may still take.
    """

    adopt: bool = False
    rename: bool = False
    note: str = ""
    grace: float = GRACE


@dataclass
class Deployed:
    """What a deployment did. *state* is the number of the state that the switch has now."""

    outlook: Outlook
    applied: Applied
    state: int


class Deployment:
    """A deployment under way, with the record open: look first, then carry it out."""

    def __init__(
        self, target: Loaded | Back, switch: Switch, client: OpenFlow, record: Record, base: db.Database,
        standing: Standing | None, options: Options, time: datetime, progress: Progress, *, change: bool,
    ) -> None:  # fmt: skip
        asked, note = _target(target, record, standing, options)
        bridge = asked.spec.switch.bridge
        was = standing.overlay if standing else NO_OVERLAY
        old = _old(record, standing)
        known = old.members if old is not None else ()
        loaded = keep_slots(asked, known)
        spec_digest = loaded.digest
        same = standing is not None and old is not None and old.digest == spec_digest and old.version == __version__
        system, switch_name = record.switch()
        _guard(loaded.spec.switch.name or "", switch_name, options.rename)
        kept, ended, over = _kept(was, loaded, time)
        back, unknown = (
            out_again(record.states(standing), loaded, time) if standing and isinstance(target, Back) else ([], [])
        )
        overlay = put_in(kept, back)
        written = standing is not None and standing.digest == spec_digest  # it may have been taken away by hand
        name = loaded.spec.switch.name or ""
        stale = not same or not written or overlay != was or bool(name and name != switch_name)
        spec_before = cache(lambda: _spec_before(old))
        how = reach(switch, loaded.spec, spec_before, needed=change)
        work = Apply(loaded, overlay, base, client, NoJournal(), progress, options.grace, how)
        prepared = work.prepare(adopt=options.adopt, meanwhile=(lambda: None) if same else spec_before)
        members = tuple(work.plan.members)
        if same and old is not None:
            state = old
        else:
            vips = {vip: found.pool for vip, found in loaded.spec.vips.items()}
            state = State(
                loaded.file, loaded.document.text, spec_digest, __version__, stamp(time), who(), members, vips,
                options.note or note, ended=tuple(ended), **_extended(loaded.spec, work),
            )  # fmt: skip
        work.journal = self.journal = Journal(record, bridge, state, overlay, stale, name=name)
        before = old.members if old else ()
        found = movement.moves(before, was, members, overlay)
        if old is not None:
            found += movement.moved_vips(old.vips, state.vips, {m.pool: m.slots for m in members})
            spec_then = None if same or loaded.spec.switch.extension is None else spec_before()
            found += movement.rehashed(spec_then, loaded.spec) if spec_then else []
        found_small = prepared.fragment.warning if prepared.fragment is not None and not change else ""
        differ, gone = ([], []) if same else _differences(old, spec_before, loaded, prepared)
        unread = _unread(standing, old, prepared)
        waits = standing.waits if standing else record.other_config().get("flow-restore-wait") == "true"
        program, faults = _program(prepared, state.extended)
        self.work = work
        self.outlook = Outlook(
            loaded, prepared, system, standing, old, overlay, differ, found,
            ask=unread + gone + movement.reasons_to_ask(found, before, was, members, overlay),
            warnings=[*movement.dark_pools(members, overlay), *unknown, *([WAITS] if waits else []), *faults,
                      *prepared.warnings, *([found_small] if found_small else [])],
            record=stale,
            program=program,
            named=_named(switch_name, name),
            ended=[f"{a.kind} of {a.name} is over (it was until {a.until})" for a in over]
            + [f"{a.kind} of {a.name} ends: the spec does not have that backend" for a in ended],
            notes=notes(asked.spec, known),
            returned=[f"{a.kind} of {a.name} is back, which ended when the backend left{_why(a)}" for a in back],
        )  # fmt: skip

    def carry_out(self) -> Deployed:
        """Do it."""
        applied = self.work.carry_out(self.outlook.prepared)
        self.outlook.warnings += applied.warnings
        pending = self.journal.pending
        return Deployed(self.outlook, applied, pending.number if pending else self.journal.state.number)


@contextmanager
def _much_is_kept() -> Iterator[None]:
    """No search for garbage meanwhile: a large plan is a million objects, none of them garbage, all looked at each time."""
    searching = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searching:
            gc.enable()


@contextmanager
def deployment(
    target: Loaded | Back,
    switch: Switch,
    options: Options = Options(),
    *,
    change: bool,
    ahead: Ahead | None = None,
    progress: Progress = silent,
    time: datetime | None = None,
) -> Iterator[Deployment]:
    """Look at what a deployment would do. With *change* the switch is locked, and what was cut off is ended first.

    Raises SwitchError, or UnavailableError when the switch cannot be reached.
    """
    ahead = ahead or Ahead(switch)
    with _much_is_kept(), ahead.record() as record:
        bridge = record.the_bridge(target.bridge).bridge if isinstance(target, Back) else target.spec.switch.bridge
        if change:
            record.lock(bridge)
        standing = record.standing(bridge)
        cut_off = standing is not None and standing.pending is not None and not change
        if standing is not None:
            standing = _settled(switch, record, standing, progress) if change else as_settled(switch, standing)
        with db.Database(switch.remote, switch.timeout) as base:
            client = ahead.client(standing) or switch.client(bridge)
            at = time or now()
            work = Deployment(target, switch, client, record, base, standing, options, at, progress, change=change)
            if cut_off:
                work.outlook.warnings.append("a change was cut off; the next verb that changes something ends it first")
            yield work


def _settled(switch: Switch, record: Record, standing: Standing, progress: Progress) -> Standing:
    """The bridge after what was cut off is ended; or, where the switch does not take that, replaced by this deployment."""
    try:
        return settle(switch, record, standing, progress)
    except (UnavailableError, UnwrittenError):
        raise
    except SwitchError as err:
        after = record.standing(standing.bridge)
        if after is None or after.pending is None:
            raise
        settled = forget(switch, record, after)
        progress(f"a change that was cut off cannot be ended, and is replaced: {err}")
        return settled


def deploy(
    target: Loaded | Back,
    switch: Switch,
    options: Options = Options(),
    *,
    check: Callable[[Outlook], None] = lambda _: None,
    confirm: Confirm | None = None,
    ahead: Ahead | None = None,
    progress: Progress = silent,
) -> Deployed:
    """Make the switch what the spec says, with its overlay. *confirm* is asked where much is at stake.

    *ahead* may have the tables already. *check* sees what would be done, and may raise. Nobody is kept from the switch while
    somebody thinks: it is looked at again afterwards, and asked again when it has changed.
    """
    said_yes_to: object = None
    while True:
        try:
            with deployment(target, switch, options, change=True, ahead=ahead, progress=progress) as work:
                outlook = work.outlook
                check(outlook)
                asks = confirm is not None and outlook.changed and outlook.ask
                basis = (outlook.ask, outlook.basis()) if asks else None
                if confirm is None or basis == said_yes_to or not asks:
                    return work.carry_out()
        except RestartedError:
            if ahead is None:
                raise
            ahead = None  # its tables are those of before
            progress("ovs-vswitchd was started anew meanwhile; it is looked at again")
            continue
        if said_yes_to is not None:
            progress(MOVED_ON)
        confirm(outlook.ask, sentences(outlook))
        said_yes_to = basis


def look(target: Loaded | Back, switch: Switch, options: Options = Options(), *, ahead: Ahead | None = None) -> Outlook:
    """What `deploy` would do. Changes nothing."""
    with deployment(target, switch, options, change=False, ahead=ahead) as work:
        return work.outlook


def _target(target: Loaded | Back, record: Record, standing: Standing | None, options: Options) -> tuple[Loaded, str]:
    """The spec to apply, and the note of one that is gone back to."""
    if not isinstance(target, Back):
        return target, ""
    assert standing is not None  # it was the bridge's name that was found
    loaded, state = chosen(record, standing, target.number)
    return loaded, f"rollback to state {state.number}"


def _kept(was: Overlay, loaded: Loaded, time: datetime) -> tuple[Overlay, list[Absence], list[Absence]]:
    """The overlay that stays, absences of backends that the spec does not have, and those whose time is over."""
    current = expire(was, time)
    pools = {name: {b.name for b in pool.backends} for name, pool in loaded.spec.pools.items()}
    gone = [a for a in current if a.backend not in pools.get(a.pool, ())]
    return current.without(gone), gone, [a for a in was if a not in set(current)]


def _why(absence: Absence) -> str:
    return f" ({absence.note})" if absence.note else ""


def _spec_before(old: State | None) -> Spec | None:
    """The spec that is applied; None without one, or when it is of a version that took other specs."""
    with suppress(SwitchError):
        return spec_of(old) if old is not None else None
    return None


def _differences(
    old: State | None, spec_before: Callable[[], Spec | None], loaded: Loaded, prepared: Prepared
) -> tuple[list[Difference], list[str]]:
    """What differs between the spec that is applied and the new one; and what of it takes answers from clients."""
    if old is not None and old.digest == loaded.digest:
        return [], []
    spec = spec_before()
    if spec is not None:
        return differences(spec, loaded.spec), vanishing(spec, loaded.spec)
    by_flows = vanishing_flows(prepared.todo.remove, loaded.spec)  # then the tables alone tell
    if old is None:
        return differences(None, loaded.spec), by_flows
    why = "the applied spec cannot be read by this version; see the flows with -v"
    return [Difference("unknown", "spec", why)], by_flows


def _unread(standing: Standing | None, old: State | None, prepared: Prepared) -> list[str]:
    """That what is applied cannot be told, where something is."""
    tables = prepared.tables
    if old is not None or standing is None or not (standing.number or tables.same or tables.flows or tables.groups):
        return []
    why = f"state {standing.number} is damaged" if standing.number else "the record has no state"
    return [f"the applied state cannot be read ({why}): what is removed and who moves is not known"]


def _extended(spec: Spec, work: Apply) -> dict[str, Any]:
    """What the record keeps of the extension, for the quick verbs."""
    if spec.switch.extension is None:
        return {}
    from dnsteer.deploy.extension import elsewhere, extended_pools

    return {"extended": extended_pools(spec), "elsewhere": elsewhere(work.plan)}


def _program(prepared: Prepared, pools: Sequence[str]) -> tuple[ProgramChange | None, list[str]]:
    """What changes in the extension, where there is one, and what is wrong with it."""
    found = prepared.program
    if found is None:
        return None, []
    from dnsteer.deploy.extension import change_of

    then = "and an apply needs it" if pools else "and it keeps its program"
    away = [f"{_said(found.away)}: what changes in it is not known, {then}"] if found.away else []
    return change_of(found), [*away, *found.faults, *(_left_out(name) for name in found.between.left_out)]


def _said(err: SwitchError | PermissionError) -> str:
    return f"{err.filename}: {err.strerror}" if isinstance(err, PermissionError) else str(err)


def _left_out(name: str) -> str:
    return f"the extension cannot serve {name} beside its new VIPs: its last queries may be lost"


def _named(old: str, new: str) -> str:
    if not new or old == new:
        return ""
    return (
        f"the switch, with all of its bridges, is renamed {old} -> {new}" if old else f"the switch gets the name {new}"
    )


def _old(record: Record, standing: Standing | None) -> State | None:
    """The state that is applied now; None when there is none, or none that can be read."""
    if standing is None or not standing.number:
        return None
    try:
        return record.state(standing, standing.number)
    except DamagedError:
        return None  # this apply writes a new one


def _guard(name: str, switch_name: str, rename: bool) -> None:
    """Refuse the spec of another switch."""
    if not switch_name or name == switch_name or rename:
        return
    spec = f"is for switch {name}" if name else "names no switch (switch.name)"
    raise SwitchError(
        f"this switch is named {switch_name}, and the spec {spec}; is it the right switch? --rename applies it all the same"
    )
