"""The step that summarises a deployment: moves, removed services, and what the operator must confirm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dnsteer.deploy import movement
from dnsteer.deploy.diff import SwitchDiff
from dnsteer.deploy.goal import Goal
from dnsteer.deploy.movement import Assignment
from dnsteer.deploy.removed_services import removed_by_flows, removed_services
from dnsteer.deploy.spec_differences import SpecDifference, compare_specs
from dnsteer.deploy.summary import PlanSummary
from dnsteer.deploy.wanted import Wanted
from dnsteer.slots.maintenance import MOVES_SLOTS, Maintenance
from dnsteer.switch.state import NOT_FORWARDING, BridgeRecord
from dnsteer.switch.tools import SwitchError

if TYPE_CHECKING:
    from dnsteer.deploy.extension import ProgramChange

_RENUMBERED = (
    "another version of dnsteer made the tables, with other numbers: they get the numbers of this one, which loses no "
    "query; the counters of their flows begin again"
)


def summarize(
    goal: Goal, wanted: Wanted, found: SwitchDiff, before: Assignment, after: Assignment, *, preview: bool
) -> PlanSummary:
    """Return the summary. *before* and *after* are the slot assignments.

    A *preview* also warns of fragments that are too small to pass, which a deployment puts right or warns of itself.
    """
    rehashed: list[str] = []
    if not wanted.same_spec and wanted.plan.extension is not None and wanted.applied_spec is not None:
        rehashed = movement.rehashed(wanted.applied_spec, wanted.loaded.spec)
    moves = movement.moves(before, after, rehashed)
    if wanted.applied is not None:
        vips = {name: vip.pool for name, vip in wanted.loaded.spec.vips.items()}
        moves += movement.moved_vips(wanted.applied.vips, vips, {m.pool: m.slots for m in after.pools})
    unreadable = _unreadable(wanted, goal.record, found)
    differences, removed = ([], []) if wanted.same_spec else _compare_with_applied(wanted, found, unreadable)
    program, faults = _program(wanted, found)
    fragment = found.fragment.warning if found.fragment is not None and preview else ""
    return PlanSummary(
        goal.loaded, wanted.plan, found, goal.system, goal.record, wanted.applied, wanted.overlay, differences, moves,
        ask=[
            *unreadable, *removed, *movement.reasons_to_ask(moves, before, after),
        ],
        warnings=[
            *movement.pools_without_backends(after), *movement.last_backends_left(before, after), *goal.warnings,
             *([NOT_FORWARDING] if goal.waits else []), *faults,
            *found.warnings_of_others, *([fragment] if fragment else []),
        ],
        record_stale=goal.record_stale,
        program=program,
        named=_named(goal.switch_name, goal.name),
        ended=[f"{a.title} is over (it was until {a.until})" for a in goal.expired]
        + [f"{a.title} ends: {_why_ended(a, goal)}" for a in goal.ended],
        notes=[*goal.notes, *([_RENUMBERED] if found.flows.renumbered else [])],
        returned=[
            f"{a.title} applies again; it ended when the backend was removed{_why(a)}" for a in goal.returned
        ],
    )  # fmt: skip


def _why_ended(entry: Maintenance, goal: Goal) -> str:
    pool = goal.loaded.spec.pools.get(entry.pool)
    if pool is None or not any(b.name == entry.backend for b in pool.backends):
        return "the backend is no longer in the spec"
    if entry.kind in MOVES_SLOTS:
        return (
            "the pool's slots are others, or its balance" if pool.balance else "the pool's load is no longer balanced"
        )
    return "it is no longer checked" if entry.kind == "health" else "the spec gives it that weight"


def _why(entry: Maintenance) -> str:
    return f" ({entry.note})" if entry.note else ""


def _compare_with_applied(
    wanted: Wanted, found: SwitchDiff, unreadable: list[str]
) -> tuple[list[SpecDifference], list[str]]:
    """Return the differences from the applied spec, and those that remove services from clients.

    *unreadable*: there is an applied state, and it cannot be read.
    """
    applied, new = wanted.applied, wanted.loaded.spec
    if applied is not None and applied.digest == wanted.loaded.digest:
        return [], []
    spec = wanted.applied_spec
    if spec is not None:
        return compare_specs(spec, new), removed_services(spec, new)
    by_flows = removed_by_flows(found.flows.remove, new)  # then the tables alone tell
    if applied is None and unreadable:
        why = "what is applied now cannot be read, so what changes is known of flows alone (-v)"
        return [SpecDifference("unknown", "spec", why)], by_flows
    if applied is None:
        return compare_specs(None, new), by_flows
    why = "the applied spec cannot be read by this version; see the flows with -v"
    return [SpecDifference("unknown", "spec", why)], by_flows


def _unreadable(wanted: Wanted, record: BridgeRecord | None, found: SwitchDiff) -> list[str]:
    """Return a reason to confirm if something is applied whose record cannot be read."""
    tables = found.tables
    there = record is not None and (record.number or tables.same or tables.flows or tables.groups)
    if wanted.applied is not None or record is None or not there:
        return []
    why = f"state {record.number} is damaged" if record.number else "the record has no state"
    return [f"the applied state cannot be read ({why}): which VIPs are removed and which clients move is unknown"]


def _program(wanted: Wanted, found: SwitchDiff) -> tuple[ProgramChange | None, list[str]]:
    """Return what changes in the extension, if there is one, and its faults."""
    handover = found.handover
    if handover is None:
        return None, []
    from dnsteer.deploy.extension import change_of, extended_pools

    then = "and an apply needs the extension" if extended_pools(wanted.loaded.spec) else "and it keeps its program"
    away = [f"{_text(handover.away)}: what would change in it is unknown, {then}"] if handover.away else []
    left_out = [
        f"the extension cannot serve {name} and its new VIPs at once: queries in flight to {name} may be lost"
        for name in handover.between.left_out
    ]
    return change_of(handover), [*away, *handover.faults, *left_out]


def _text(err: SwitchError | PermissionError) -> str:
    return f"{err.filename}: {err.strerror}" if isinstance(err, PermissionError) else str(err)


def _named(old: str, new: str) -> str:
    if not new or old == new:
        return ""
    return (
        f"the switch, with all of its bridges, is renamed {old} -> {new}" if old else f"the switch gets the name {new}"
    )
