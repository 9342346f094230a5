# SPDX-License-Identifier: Apache-2.0
"""The edits of the overlay behind `drain`, `undrain`, `down`, `up`, `weight` and `reconcile`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from dnsteer.deploy.caller import operator_name
from dnsteer.deploy.decision import decision_id
from dnsteer.deploy.overlay_change import Edit
from dnsteer.deploy.times import stamp
from dnsteer.slots.maintenance import DRAINED, Kind, Maintenance, Overlay
from dnsteer.slots.membership import Member
from dnsteer.spec.errors import near
from dnsteer.spec.worker_names import names_of
from dnsteer.switch.state import AppliedState
from dnsteer.switch.tools import SwitchError


def split_name(name: str) -> tuple[str, str]:
    """`POOL/BACKEND` as its two parts. Raises SwitchError."""
    pool, slash, backend = name.partition("/")
    if not (pool and slash and backend) or "/" in backend:
        raise SwitchError(f"found {name!r}; expected POOL/BACKEND, such as resolvers/ns1")
    return pool, backend


def take_out(
    name: str, kind: Kind, *, over: float = 0, lasts: float = 0, note: str = "", to_the_end: bool = False
) -> Edit:
    """Return the edit that takes a backend out, or all of its workers; *over* and *lasts* are seconds.

    One that is out already keeps its place and its progress, and the time, pace and note that are not given anew. With
    *to_the_end* as it will be when a gradual drain is done.
    """
    pool, backend = split_name(name)

    def edit(overlay: Overlay, state: AppliedState, time: datetime) -> Overlay:
        until = stamp(time + timedelta(seconds=lasts)) if lasts else ""
        decision = decision_id()
        for member in members_named(state, pool, backend):
            found = overlay.find(pool, member.name, kind)
            if found is None:
                wanted = Maintenance(
                    pool,
                    member.name,
                    kind,
                    stamp(time),
                    operator_name(),
                    note,
                    until,
                    over,
                    0 if over else DRAINED,
                    decision=decision,
                )
            else:
                wanted = replace(found, note=note or found.note, until=until or found.until)
                if over and over != found.over:
                    wanted = wanted.at_pace(over, time)
                if wanted != found:
                    wanted = replace(wanted, by=operator_name(), decision=decision)
            refuse_early_end(wanted)
            overlay = overlay.put(replace(wanted, gone=DRAINED) if to_the_end else wanted)
        return overlay

    return edit


def refuse_early_end(entry: Maintenance) -> None:
    """Raise SwitchError for a gradual change that would end before its last slots have moved."""
    if entry.until and entry.gone < DRAINED:
        done = datetime.fromisoformat(entry.paced or entry.since) + timedelta(seconds=entry.over)
        if datetime.fromisoformat(entry.until) <= done:
            ends = "its drain ends" if entry.kind == "drain" else "that ends"
            raise SwitchError(
                f"{entry.name} would be {entry.state} at {stamp(done)}, and {ends} at {entry.until}; give a longer --for"
            )


def bring_back(name: str, kind: Kind) -> Edit:
    """Return the edit that brings a backend back in, or all of its workers that are out."""
    pool, backend = split_name(name)

    def edit(overlay: Overlay, state: AppliedState, _time: datetime) -> Overlay:
        asked = names_of(state.workers, pool, backend)
        found = [entry for each in asked if (entry := overlay.find(pool, each, kind)) is not None]
        if found:
            return overlay.without(found)
        if members_named(state, pool, backend)[0].down and kind == "down":
            raise SwitchError(f"{name} is down in the spec (state: down); change the spec and apply it")
        return overlay

    return edit


def combine_edits(edits: Sequence[Edit]) -> Edit:
    """Return the edit that makes all of *edits*, or none: where one raises SwitchError, nothing is changed."""

    def edit(overlay: Overlay, state: AppliedState, time: datetime) -> Overlay:
        for each in edits:
            overlay = each(overlay, state, time)
        return overlay

    return edit


def advance(overlay: Overlay, _state: AppliedState, time: datetime) -> Overlay:
    """Advance every gradual change to where it should be now; what has gone back altogether ends."""
    return overlay.with_entries(a for a in (b.advanced(time) for b in overlay) if a.gone or not a.returns)


def members_named(state: AppliedState, pool: str, backend: str) -> list[Member]:
    """Return the recorded backend, or all of its workers. Raises SwitchError with the nearest name."""
    return [member_of(state, pool, name) for name in names_of(state.workers, pool, backend)]


def member_of(state: AppliedState, pool: str, backend: str) -> Member:
    """Return the recorded backend. Raises SwitchError with the nearest name."""
    here = [m for members in state.members if members.pool == pool for m in members.members]
    found = next((m for m in here if m.name == backend), None)
    if found is not None:
        return found
    if here:
        hint = near(backend, sorted({*state.workers.get(pool, {}), *(m.name for m in here)}))
        raise SwitchError(f"pool {pool} has no backend {backend!r}; {hint}")
    pools = sorted({m.pool for m in state.members})
    owner = [f"{m.pool}/{backend}" for m in state.members if any(b.name == backend for b in m.members)]
    hint = f"did you mean {owner[0]}?" if owner else near(pool, pools)
    raise SwitchError(f"there is no pool {pool!r} that a VIP uses; {hint}")


def give_weight(
    name: str, weight: int, *, over: float = 0, lasts: float = 0, note: str = "", to_the_end: bool = False
) -> Edit:
    """Return the edit that gives a backend, or each of its workers, a weight; *over* and *lasts* are seconds. Given
    the weight of the spec, the backend gets its slots back over that time, and the entry ends.

    A weight that one has already keeps the time, pace and note that are not given anew. With *to_the_end* as it will be when
    a gradual change is done.
    """
    pool, backend = split_name(name)

    def edit(overlay: Overlay, state: AppliedState, time: datetime) -> Overlay:
        members = members_named(state, pool, backend)
        if weight == members[0].weight:  # workers of one backend have one in the spec
            return take_weight_back(name, over=over, to_the_end=to_the_end)(overlay, state, time)
        until = stamp(time + timedelta(seconds=lasts)) if lasts else ""
        decision = decision_id()
        for member in members:
            found = overlay.find(pool, member.name, "weight")
            if found is None:
                begin = 0 if over else DRAINED
                wanted = Maintenance(
                    pool,
                    member.name,
                    "weight",
                    stamp(time),
                    operator_name(),
                    note,
                    until,
                    over,
                    begin,
                    weight=weight,
                    decision=decision,
                )
            else:
                wanted = replace(found, note=note or found.note, until=until or found.until)
                again = found.weight == weight
                wanted = _again(wanted, over, time) if again else _other(wanted, weight, member.weight, over, time)
                if wanted != found:
                    wanted = replace(wanted, by=operator_name(), decision=decision)
            refuse_early_end(wanted)
            overlay = overlay.put(replace(wanted, gone=DRAINED) if to_the_end else wanted)
        return overlay

    return edit


def take_weight_back(name: str, *, over: float = 0, to_the_end: bool = False) -> Edit:
    """Return the edit that gives a backend, or its workers, the spec's weight again, *over* seconds, or at once."""
    pool, backend = split_name(name)

    def edit(overlay: Overlay, state: AppliedState, time: datetime) -> Overlay:
        decision = decision_id()
        for member in members_named(state, pool, backend):
            found = overlay.find(pool, member.name, "weight")
            if found is None:
                continue
            if not over or to_the_end:
                overlay = overlay.without([found])
                continue
            if found.returns and found.over == over:
                continue
            back = _from_the_spec(found, member.weight, time).going_back(over, time)
            overlay = overlay.put(replace(back, by=operator_name(), decision=decision))
        return overlay

    return edit


def _again(found: Maintenance, over: float, time: datetime) -> Maintenance:
    """Return the entry for the weight that it is of already: at another pace, or no longer on its way back."""
    if found.returns:
        return replace(found.advanced(time), returns="").at_pace(over, time) if over else _at_once(found)
    return found.at_pace(over, time) if over and over != found.over else found


def _other(found: Maintenance, weight: int, spec: int, over: float, time: datetime) -> Maintenance:
    """Return the entry with another weight, beginning at the one that the backend has now."""
    wanted = replace(_at_once(found), weight=weight, since=stamp(time))
    return replace(wanted, over=over, gone=0, was=_weight_now(found.advanced(time), spec)) if over else wanted


def _from_the_spec(found: Maintenance, spec: int, time: datetime) -> Maintenance:
    """Return the entry as one that began at the spec's weight: if it did not, of the whole weight that is nearest now."""
    if found.was is None:
        return found
    return replace(_at_once(found), weight=_weight_now(found.advanced(time), spec))


def _at_once(found: Maintenance) -> Maintenance:
    return replace(found, over=0, gone=DRAINED, paced="", returns="", was=None)


def _weight_now(found: Maintenance, spec: int) -> int:
    before = spec if found.was is None else found.was
    return before + round(((found.weight or 0) - before) * found.gone / DRAINED)
