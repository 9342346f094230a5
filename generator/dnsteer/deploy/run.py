# SPDX-License-Identifier: Apache-2.0
"""Change a running switch to a spec or an earlier state: the steps of `apply`, `rollback` and `plan` in order."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from dnsteer.deploy.agreement import Agreement, refuse_outdated
from dnsteer.deploy.apply import apply_change, apply_state
from dnsteer.deploy.bounded_lists import bounded_lines
from dnsteer.deploy.diff import SwitchDiff, compute_and_diff
from dnsteer.deploy.goal import Goal, SpecSource, make_goal, new_state
from dnsteer.deploy.journal import JournalEntry
from dnsteer.deploy.movement import Assignment
from dnsteer.deploy.prefetch import Prefetch
from dnsteer.deploy.role import first_role
from dnsteer.deploy.send import ApplyResult
from dnsteer.deploy.settle import as_settled, settle_or_replace
from dnsteer.deploy.summary import PlanSummary, sentence_groups, summarize
from dnsteer.deploy.target_switch import GRACE, Confirm, Progress, TargetSwitch, silent
from dnsteer.deploy.times import now
from dnsteer.deploy.wanted_switch import WantedSwitch
from dnsteer.switch.database import Database
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.restart_fence import RestartedError
from dnsteer.switch.session import Session
from dnsteer.switch.state import BridgeRecord

_STANDBY = "on standby: the switch answers for none of its VIPs until dnsteer role active, or dnsteer vrrp, says so"
_PENDING = "a change is pending; the next command that changes the switch settles it first"


Review = Callable[[PlanSummary], None]
"""Sees what would be done, and may raise."""


@dataclass(frozen=True)
class Options:
    """Options of a deployment. *adopt* takes over a foreign bridge, *rename* a switch with another name.

    *grace* is how long, in seconds, answers of backends that leave may still take. *standby*: a switch that has no role yet
    is on standby.
    """

    adopt: bool = False
    rename: bool = False
    note: str = ""
    grace: float = GRACE
    standby: bool = False


@dataclass(frozen=True)
class DeployResult:
    """What a deployment did. *state* is the number of the state that is applied now."""

    summary: PlanSummary
    result: ApplyResult

    @property
    def state(self) -> int:
        """The number of the state that is applied now."""
        return self.result.state


def deploy(
    source: SpecSource,
    switch: TargetSwitch,
    options: Options = Options(),
    *,
    review: Review = lambda _: None,
    confirm: Confirm | None = None,
    prefetch: Prefetch | None = None,
    progress: Progress = silent,
) -> DeployResult:
    """Change the switch to the spec of *source*, and keep the maintenance. *confirm* is called if many clients are affected.

    *prefetch* may have the tables already. The lock is not held while the operator thinks: the switch is read again
    afterwards, and the operator asked again when it has changed. Raises SwitchError, or UnavailableError when the switch
    cannot be reached.
    """
    agreement = Agreement(confirm, progress)
    while True:
        try:
            summary, result = _deploy_if_agreed(source, switch, options, review, agreement, prefetch, progress)
        except RestartedError:
            if prefetch is None:
                raise
            prefetch = None  # its tables are those of before
            progress("ovs-vswitchd was restarted in the meantime; reading the switch again")
            continue
        if result is not None:
            return DeployResult(replace(summary, warnings=[*summary.warnings, *result.warnings]), result)
        words = bounded_lines(sentence_groups(summary), how="dnsteer plan -v")
        agreement.ask(summary.question, summary.ask, words)


def _deploy_if_agreed(
    source: SpecSource,
    switch: TargetSwitch,
    options: Options,
    review: Review,
    agreement: Agreement,
    prefetch: Prefetch | None,
    progress: Progress,
) -> tuple[PlanSummary, ApplyResult | None]:
    """Change the switch; without a result nothing was changed, since the operator has not agreed to what would be done."""
    with _no_garbage_collection(), _session(switch, prefetch) as session:
        # lock, read, settle
        bridge = source.find_bridge(session)
        session.lock(bridge)  # until the session ends
        record = settle_or_replace(switch, session, session.record(bridge), progress)
        refuse_outdated(record, again=True)
        with switch.database() as database:
            # plan, diff: the plan is computed while the switch dumps its tables
            client = _client(switch, bridge, record, prefetch)
            connections = _Connections(switch, session, record, database, client)
            goal, wanted, found = _plan_and_diff(source, connections, options)
            role = first_role(switch, record) if options.standby else ""
            summary = _summary(goal, wanted, found, preview=False, role=role)
            review(summary)
            # ask
            if not agreement.is_given_for(summary.question):
                return summary, None
            if found.flows.renumbered and _changes_more(goal, wanted):
                connections = _renumber(connections, bridge, goal, options, progress)
                goal, wanted, found = _plan_and_diff(source, connections, options)
            # begin, ports, bundle, commit
            state = new_state(goal, wanted)
            entry = JournalEntry(
                bridge, state, goal.overlay, summary.writes_record, goal.name, connections.record, summary.role
            )
            result = apply_change(
                wanted, found, entry, session, database, client, grace=options.grace, progress=progress
            )
            return summary, result


def preview(
    source: SpecSource, switch: TargetSwitch, options: Options = Options(), *, prefetch: Prefetch | None = None
) -> PlanSummary:
    """Return what `deploy` would do. Changes nothing."""
    with _no_garbage_collection(), _session(switch, prefetch) as session:
        bridge = source.find_bridge(session)
        now_recorded = session.record(bridge)
        record = as_settled(switch, now_recorded) if now_recorded is not None else None
        refuse_outdated(record)
        with switch.database() as database:
            client = _client(switch, bridge, record, prefetch)
            connections = _Connections(switch, session, record, database, client)
            goal, wanted, found = _plan_and_diff(source, connections, options, needs_extension=False)
        role = first_role(switch, now_recorded) if options.standby else ""
        summary = _summary(goal, wanted, found, preview=True, role=role)
        if now_recorded is not None and now_recorded.pending is not None:
            summary.warnings.append(_PENDING)
        return summary


@dataclass(frozen=True)
class _Connections:
    """A deployment's connections to the switch: to its record, its OVSDB and its OpenFlow."""

    switch: TargetSwitch
    session: Session
    record: BridgeRecord | None
    database: Database
    client: OpenFlow


def _session(switch: TargetSwitch, prefetch: Prefetch | None) -> Session:
    """Return the session of the prefetch, or a new one."""
    return prefetch.session() if prefetch is not None else switch.session()


def _client(switch: TargetSwitch, bridge: str, record: BridgeRecord | None, prefetch: Prefetch | None) -> OpenFlow:
    """Return the OpenFlow whose dump the prefetch has begun, or a new one."""
    return (prefetch.client(record) if prefetch is not None else None) or switch.client(bridge)


def _plan_and_diff(
    source: SpecSource, connections: _Connections, options: Options, *, needs_extension: bool = True
) -> tuple[Goal, WantedSwitch, SwitchDiff]:
    """Return the spec and overlay to reach, what follows from them, and how the switch differs.

    Unless it *needs_extension*, the extension may be away.
    """
    time = now()
    sourced = source.read(connections.session, connections.record, time)
    goal = make_goal(sourced, connections.session, connections.record, time, rename=options.rename, note=options.note)
    wanted = WantedSwitch(goal.loaded, goal.overlay, goal.applied)
    found = compute_and_diff(
        wanted,
        connections.database,
        connections.client,
        connections.switch.extension,
        adopt=options.adopt,
        needs_extension=needs_extension,
    )
    return goal, wanted, found


def _changes_more(goal: Goal, wanted: WantedSwitch) -> bool:
    """Whether a state that this version can load is applied, and what is wanted is another one."""
    if goal.applied is None or wanted.applied_spec is None:
        return False
    return wanted.plan.digest != goal.applied.digest or goal.overlay != goal.overlay_before


def _renumber(connections: _Connections, bridge: str, goal: Goal, options: Options, progress: Progress) -> _Connections:
    """Load the applied state with the table numbers of this version, before it is changed.

    Packets in flight need flows of the old state in the tables where the new one has them, and a table that has gone to
    another number would lose those flows.
    """
    assert goal.applied is not None
    progress(f"the tables have numbers of another version: loading state {goal.applied.number} with the new ones first")
    apply_state(
        connections.switch,
        connections.session,
        goal.applied,
        goal.overlay_before,
        progress,
        needs_extension=False,
        grace=options.grace,
    )
    return replace(connections, record=connections.session.record(bridge))


def _summary(goal: Goal, wanted: WantedSwitch, found: SwitchDiff, *, preview: bool, role: str) -> PlanSummary:
    before = Assignment(goal.applied.members if goal.applied else (), goal.overlay_before)
    after = Assignment(wanted.plan.members, goal.overlay)
    summary = summarize(goal, wanted, found, before, after, preview=preview)
    return replace(summary, role=role, notes=[*summary.notes, _STANDBY]) if role else summary


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Disable garbage collection: a large plan is a million objects in use, which each collection would visit."""
    searching = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searching:
            gc.enable()
