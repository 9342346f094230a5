# SPDX-License-Identifier: Apache-2.0
"""The spec and overlay that a deployment leads to: from a file or a recorded state, and the record."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from dnsteer import __version__
from dnsteer.deploy.caller import operator_name
from dnsteer.deploy.decision import decision_id
from dnsteer.deploy.neighbors import describe_neighbors, with_found
from dnsteer.deploy.recorded_spec import is_applied, spec_of
from dnsteer.deploy.times import expire, stamp
from dnsteer.deploy.wanted_switch import WantedSwitch
from dnsteer.plan.pool_slots import describe_chosen_slots, describe_kept_slots, keep_slots
from dnsteer.slots.denial import Denial
from dnsteer.slots.maintenance import MOVES_SLOTS, NO_OVERLAY, Maintenance, Overlay
from dnsteer.slots.membership import Membership
from dnsteer.spec.derived import slot_count
from dnsteer.spec.health_checks import own_slots
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.neighbors import followed_addresses, is_followed, macs_given
from dnsteer.spec.workers import worker_counts
from dnsteer.switch.session import Session
from dnsteer.switch.state import AppliedState, BridgeRecord, DamagedError, RecordFormatError
from dnsteer.switch.tools import SwitchError


@dataclass(frozen=True)
class SourcedSpec:
    """The spec to deploy, and the note for its state if none is given.

    *returned* is maintenance that starts again with it; *warnings* are about maintenance that cannot be restored. *restores*
    is the number of the state that a rollback brings back; 0: it is none. *rolls_back* is that of the applied state, where
    the spec that is brought back is older. *rereads* is as in AppliedState.
    """

    loaded: Loaded
    note: str = ""
    returned: tuple[Maintenance, ...] = ()
    warnings: tuple[str, ...] = ()
    restores: int = 0
    rolls_back: int = 0
    rereads: int = 0


class SpecSource(Protocol):
    """Where the spec comes from, and which bridge it is for."""

    def find_bridge(self, session: Session) -> str:
        """Return the name of the bridge to change. Raises SwitchError."""

    def read(self, session: Session, record: BridgeRecord | None, time: datetime) -> SourcedSpec:
        """Return the spec to deploy. Raises SwitchError."""


@dataclass(frozen=True)
class FileSource:
    """A spec that was loaded from its file already."""

    loaded: Loaded

    def find_bridge(self, _session: Session) -> str:
        """The bridge that the spec names."""
        return self.loaded.spec.switch.bridge

    def read(self, _session: Session, _record: BridgeRecord | None, _time: datetime) -> SourcedSpec:
        """The spec itself."""
        return SourcedSpec(self.loaded)


@dataclass(frozen=True)
class Goal:
    """What a deployment leads to, and what was there before. *applied* is None if no state can be read.

    *ended* is maintenance of backends that the spec no longer has, or to which it gives the same weight, *expired* what
    has an end that has passed, *returned* what a rollback restores. *warnings* and *notes* are for the operator; *waits*:
    flow-restore-wait is set. *restores* is the number of the state that a rollback brings back, else 0; *rolls_back* and
    *rereads* as in `SourcedSpec`. *system* tells the switch from others, *switch_name* is the name that it has now.
    """

    loaded: Loaded
    overlay: Overlay
    record: BridgeRecord | None
    applied: AppliedState | None
    system: str
    switch_name: str
    note: str
    time: datetime
    ended: tuple[Maintenance, ...]
    expired: tuple[Maintenance | Denial, ...]
    returned: tuple[Maintenance, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    waits: bool
    restores: int
    rolls_back: int
    rereads: int

    @property
    def name(self) -> str:
        """The switch's name in the spec; empty if it has none."""
        return self.loaded.spec.switch.name or ""

    @property
    def overlay_before(self) -> Overlay:
        return self.record.overlay if self.record else NO_OVERLAY

    @property
    def record_stale(self) -> bool:
        """Whether the record differs from what is wanted."""
        written = self.record is not None and self.record.digest == self.loaded.digest  # it may be gone by hand
        renamed = bool(self.name and self.name != self.switch_name)
        return not (is_applied(self.loaded, self.applied) and written) or self.overlay != self.overlay_before or renamed


def make_goal(
    sourced: SourcedSpec, session: Session, record: BridgeRecord | None, time: datetime, *, rename: bool, note: str
) -> Goal:
    """Return the spec with the slots and maintenance that the bridge keeps. Raises SwitchError or SpecError."""
    system, switch_name = session.switch()
    _refuse_other_switch(sourced.loaded.spec.switch.name or "", switch_name, rename)
    applied = _applied(session, record)
    known = applied.members if applied is not None else ()
    loaded = keep_slots(sourced.loaded, known)
    spec = sourced.loaded.spec
    kept = (*describe_kept_slots(spec, known), *describe_chosen_slots(spec, known))
    before = record.overlay if record else NO_OVERLAY
    current = expire(before, time)
    # Entries of backends that left the spec end, and those of weights that the spec gives itself; others have no weight.
    weights = {(name, b.name): b.weight for name, pool in loaded.spec.pools.items() for b in pool.backends}
    ended = tuple(
        a
        for a in current
        if weights.get((a.pool, a.backend), a.weight) == a.weight or _agent_cannot_end(loaded.spec, known, a)
    )
    returned = tuple(a for a in sourced.returned if weights[a.pool, a.backend] != a.weight)
    overlay = current.without(ended).put_by_start(returned)
    neighbors = with_found(before, followed_addresses(spec), _fixed_before(spec, applied, before), time)
    return Goal(
        loaded,
        replace(overlay, neighbors=neighbors if is_followed(spec) else None),
        record,
        applied,
        system,
        switch_name,
        note or sourced.note,
        time,
        ended=ended,
        expired=tuple(a for a in (*before, *before.denials) if a not in {*current, *current.denials}),
        returned=returned,
        warnings=sourced.warnings,
        notes=(*kept, *describe_neighbors(spec, neighbors)),
        waits=record.waits if record else session.waits(),
        restores=sourced.restores,
        rolls_back=sourced.rolls_back,
        rereads=sourced.rereads,
    )


def _fixed_before(spec: Spec, applied: AppliedState | None, before: Overlay) -> dict[str, str]:
    """The MAC addresses that the applied spec gives to what *spec* follows: they hold until the neighbours have answered."""
    known = before.macs or {}
    if applied is None or not set(followed_addresses(spec)) - known.keys():
        return {}
    with suppress(SwitchError):
        return {address: mac for address, mac in macs_given(spec_of(applied), spec).items() if address not in known}
    return {}


def _agent_cannot_end(spec: Spec, known: Sequence[Membership], entry: Maintenance) -> bool:
    """Whether the agent wrote an entry, and would not end it by the new spec.

    There is no check any more that would bring a backend back; nothing balances a pool, or its slots have other clients.
    """
    pool = spec.pools[entry.pool]
    if entry.kind == "health":
        return not pool.health or entry.service not in ("", *own_slots(spec, entry.pool))
    if entry.kind in MOVES_SLOTS:
        same, balance = (slot_count(spec, pool), pool.selection.value), pool.balance
        if balance is None or (entry.kind == "spill") != (balance.policy == "spill"):
            return True
        return balance.spills_to not in ("", entry.backend) or any(
            (m.slots, m.selection) != same for m in known if m.pool == entry.pool
        )
    return False


def new_state(goal: Goal, wanted: WantedSwitch) -> AppliedState:
    """Return the state to record: the one that is applied already, or a new one."""
    if goal.applied is not None and wanted.same_spec:
        return goal.applied
    loaded = goal.loaded
    extended, elsewhere = _extended(wanted)
    return AppliedState(
        loaded.file,
        loaded.document.text,
        loaded.digest,
        __version__,
        stamp(goal.time),
        operator_name(),
        tuple(wanted.plan.members),
        {name: vip.pool for name, vip in loaded.spec.vips.items()},
        goal.note,
        ended=goal.ended,
        extended=extended,
        elsewhere=elsewhere,
        decision=decision_id(),
        workers=worker_counts(loaded.spec),
        restores=goal.restores,
        rolls_back=goal.rolls_back,
        rereads=goal.rereads,
    )


def _extended(wanted: WantedSwitch) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the pools that the extension serves, and the numbers of those whose slots it alone has."""
    if wanted.loaded.spec.switch.extension is None:
        return (), ()
    from dnsteer.deploy.extension_program import extended_pools, pools_outside_tables

    return extended_pools(wanted.loaded.spec), pools_outside_tables(wanted.plan)


def _applied(session: Session, record: BridgeRecord | None) -> AppliedState | None:
    """Return the state that is applied now; None if there is none that can be read."""
    if record is None or not record.number:
        return None
    try:
        return session.state(record, record.number)
    except RecordFormatError:
        raise
    except DamagedError:
        return None  # this deployment writes a new one


def _refuse_other_switch(name: str, switch_name: str, rename: bool) -> None:
    if not switch_name or name == switch_name or rename:
        return
    spec = f"is for switch {name}" if name else "names no switch (switch.name)"
    raise SwitchError(
        f"this switch is named {switch_name}, and the spec {spec}; is this the right switch? To apply it anyway: --rename"
    )
