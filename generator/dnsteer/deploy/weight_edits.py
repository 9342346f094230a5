"""The edits of the overlay behind `weight`."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from dnsteer.deploy.caller import operator_name
from dnsteer.deploy.decision import decision_id
from dnsteer.deploy.overlay_change import Edit
from dnsteer.deploy.overlay_edits import members_named, refuse_early_end, split_name
from dnsteer.deploy.times import stamp
from dnsteer.slots.maintenance import DRAINED, Maintenance, Overlay
from dnsteer.switch.state import AppliedState


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
