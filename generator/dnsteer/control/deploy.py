"""Bring a running switch to a spec, recorded: what `apply`, `plan`, `rollback` and `restore` do."""

from __future__ import annotations

import gc
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from dnsteer import __version__
from dnsteer.control import movement
from dnsteer.control.recorded import Journal, load_state, settle
from dnsteer.control.where import GRACE, MOVED_ON, Confirm, Progress, Switch, expire, now, silent, stamp, who
from dnsteer.plan.absence import NO_OVERLAY, Absence, Overlay
from dnsteer.spec.load import Loaded, digest
from dnsteer.switch import database as db
from dnsteer.switch.apply import Applied, Apply, Prepared
from dnsteer.switch.record import Record
from dnsteer.switch.state import DamagedError, Standing, State
from dnsteer.switch.tools import SwitchError


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
class Outlook:
    """What a deployment would do. *old* is the state that is applied now, None when there is none that can be read."""

    loaded: Loaded
    prepared: Prepared
    system: str
    standing: Standing | None
    old: State | None
    overlay: Overlay
    moves: list[movement.Move]
    ask: list[str]
    warnings: list[str]
    record: bool
    ended: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether anything would change."""
        return bool(self.prepared.differ) or bool(self.prepared.todo) or self.record

    def basis(self) -> dict[str, Any]:
        """What it rests on: the switch, how it stands, and the changes that follow from that."""
        standing, bridge = self.standing, self.prepared.before
        what = bridge and [bridge.datapath_type, bridge.fail_mode, list(bridge.protocols), sorted(bridge.ports)]
        return {
            "switch": self.system,
            "state": standing.number if standing else 0,
            "applied spec": standing.digest if standing else "",
            "overlay": standing.overlay.to_json() if standing else "[]",
            "bridge and ports": hash_of(what),
            "settings": self.prepared.settings,
            "its flows or groups": hash_of(self.prepared.todo.bundle()),
        }


@dataclass
class Deployed:
    """What a deployment did. *state* is the number of the state that the switch has now."""

    outlook: Outlook
    applied: Applied
    state: int


class Deployment:
    """A deployment under way, with the record open: look first, then carry it out."""

    def __init__(
        self, loaded: Loaded, switch: Switch, record: Record, base: db.Database, standing: Standing | None,
        options: Options, time: datetime, progress: Progress,
    ) -> None:  # fmt: skip
        self.loaded = loaded
        self.standing = standing
        was = standing.overlay if standing else NO_OVERLAY
        self.overlay, ended = _overlay(was, loaded, time)
        spec_digest = digest(loaded.spec)
        old = _old(record, standing)
        same = standing is not None and old is not None and old.digest == spec_digest and old.version == __version__
        name = loaded.spec.switch.name or ""
        system, switch_name = record.switch()
        _guard(name, switch_name, options.rename)
        written = standing is not None and standing.digest == spec_digest  # it may have been taken away by hand
        stale = not same or not written or self.overlay != was or bool(name and name != switch_name)
        work = Apply(
            loaded, self.overlay, base, switch.client(loaded.spec.switch.bridge), _NoJournal(), progress, options.grace
        )
        prepared = work.prepare(adopt=options.adopt)
        members = tuple(work.plan.members)
        if same and old is not None:
            state = old
        else:
            vips = {vip: found.pool for vip, found in loaded.spec.vips.items()}
            text = loaded.document.text
            state = State(loaded.file, text, spec_digest, __version__, stamp(time), who(), members, vips, options.note)
        work.journal = self.journal = Journal(
            record, loaded.spec.switch.bridge, state, self.overlay, stale, name=name
        )  # fmt: skip
        before = old.members if old else ()
        found = movement.moves(before, was, members, self.overlay)
        if old is not None:
            found += movement.moved_vips(old.vips, state.vips, {m.pool: m.slots for m in members})
        ask = movement.reasons_to_ask(found, before, was, members, self.overlay)
        dark = movement.dark_pools(members, self.overlay)
        self.work = work
        self.outlook = Outlook(loaded, prepared, system, standing, old, self.overlay, found, ask, dark, stale, ended)

    def carry_out(self) -> Deployed:
        """Do it."""
        applied = self.work.carry_out(self.outlook.prepared)
        pending = self.journal.pending
        return Deployed(self.outlook, applied, pending.number if pending else self.journal.state.number)


class _NoJournal:
    """Until the journal is there."""

    stale = False

    def begin(self) -> None:
        raise AssertionError

    commit = take_back = begin


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
    loaded: Loaded,
    switch: Switch,
    options: Options = Options(),
    *,
    change: bool,
    progress: Progress = silent,
    time: datetime | None = None,
) -> Iterator[Deployment]:
    """Look at what a deployment would do. With *change* the switch is locked, and what was cut off is ended first.

    Raises SwitchError, or UnavailableError when the switch cannot be reached.
    """
    bridge = loaded.spec.switch.bridge
    with _much_is_kept(), Record(switch.remote, switch.timeout) as record:
        if change:
            record.lock(bridge)
        standing = record.standing(bridge)
        if change and standing is not None:
            standing = settle(switch, record, standing, progress)
        with db.Database(switch.remote, switch.timeout) as base:
            yield Deployment(loaded, switch, record, base, standing, options, time or now(), progress)


def deploy(
    loaded: Loaded,
    switch: Switch,
    options: Options = Options(),
    *,
    check: Callable[[Outlook], None] = lambda _: None,
    confirm: Confirm | None = None,
    progress: Progress = silent,
) -> Deployed:
    """Make the switch what the spec says, with its overlay. *confirm* is asked where much is at stake.

    *check* sees what would be done, and may raise. Nobody is kept from the switch while somebody thinks: it is looked at
    again afterwards, and asked again when it has changed.
    """
    said_yes_to: object = None
    while True:
        with deployment(loaded, switch, options, change=True, progress=progress) as work:
            outlook = work.outlook
            check(outlook)
            asks = confirm is not None and outlook.changed and outlook.ask
            basis = (outlook.ask, outlook.basis()) if asks else None
            if confirm is None or basis == said_yes_to or not asks:
                return work.carry_out()
        from dnsteer.control.outlook import sentences  # here, since it uses this module

        if said_yes_to is not None:
            progress(MOVED_ON)
        confirm(outlook.ask, sentences(outlook))
        said_yes_to = basis


def look(loaded: Loaded, switch: Switch, options: Options = Options()) -> Outlook:
    """What `deploy` would do. Changes nothing."""
    with deployment(loaded, switch, options, change=False) as work:
        if work.standing is not None and work.standing.pending is not None:
            work.outlook.warnings.append("a change was cut off; the next verb that changes something ends it first")
        return work.outlook


def state_to_roll_back_to(switch: Switch, bridge: str | None, number: int | None) -> tuple[Loaded, State]:
    """The spec of state *number*, or of the state before the current one. Raises SwitchError when it is not kept."""
    with Record(switch.remote, switch.timeout) as record:
        standing = record.the_bridge(bridge)
        if number is None:
            older = [s for s in record.states(standing) if isinstance(s, State) and s.number < standing.number]
            if not older:
                raise SwitchError(f"there is no state before the current one in the record of bridge {standing.bridge}")
            state = older[0]
        else:
            kept = [s.number for s in record.states(standing) if isinstance(s, State)]
            if number not in kept:
                has = f"it has {', '.join(map(str, kept))}" if kept else "it has none"
                record.state(standing, number)  # names the damage, where that is the cause
                raise SwitchError(f"state {number} is not kept in the record of bridge {standing.bridge}; {has}")
            state = record.state(standing, number)
    loaded = load_state(state)
    return replace(loaded, document=replace(loaded.document, file=state.file)), state


def hash_of(value: Any) -> str:
    """SHA-256 (hex) of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _overlay(was: Overlay, loaded: Loaded, time: datetime) -> tuple[Overlay, list[str]]:
    """The overlay without what is over and without backends that the spec no longer has; and what ended, in words."""
    current = expire(was, time)
    ended = [f"{a.kind} of {a.name} is over (it was until {a.until})" for a in was if a not in set(current)]
    pools = {name: {b.name for b in pool.backends} for name, pool in loaded.spec.pools.items()}
    gone: list[Absence] = [a for a in current if a.backend not in pools.get(a.pool, ())]
    ended += [f"{a.kind} of {a.name} ends: the spec does not have that backend" for a in gone]
    return current.without(gone), ended


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
