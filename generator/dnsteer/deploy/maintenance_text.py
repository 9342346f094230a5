# SPDX-License-Identifier: Apache-2.0
"""How maintenance changes, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone

from dnsteer.slots.denial import Denial
from dnsteer.slots.maintenance import DRAINED, Maintenance, Overlay, same_entry
from dnsteer.spec.errors import escape


def begun_and_ended(before: Overlay, after: Overlay) -> list[str]:
    """Return which maintenance begins and which ends, the same of denials, and which neighbours have other MAC addresses."""
    new = [
        f"{a.name} is {a.state if a.gone >= DRAINED else _partly(a) + a.about_service}"
        for a in after
        if same_entry(before, a) is None
    ]
    ended = [f"{a.title} ends" for a in before if same_entry(after, a) is None]
    known = before.macs or {}
    found = [
        f"{n.address} moved from {known[n.address]} to {n.mac}" if n.address in known else f"{n.address} is at {n.mac}"
        for n in after.neighbors or ()
        if known.get(n.address) != n.mac
    ]
    return new + ended + denials_begun_and_ended(before, after) + found


def denials_begun_and_ended(before: Overlay, after: Overlay) -> list[str]:
    """Return who is denied by hand from now on, and whose denial ends."""
    was, denied = before.denied, after.denied
    new = [f"{denial.name} is denied" for denial in after.denials if denial.key not in was]
    return new + [f"{denial.title} ends" for denial in before.denials if denial.key not in denied]


def _partly(entry: Maintenance) -> str:
    if entry.weight is not None:
        return f"on its way to weight {entry.weight}"
    return "returning" if entry.returns else "draining"


def altered(before: Overlay, after: Overlay) -> list[str]:
    """Return changed times, paces and notes of entries that stay."""
    out = []
    for new in after:
        old = same_entry(before, new)
        if old is not None and (what := ", ".join(_fields(old, new))):
            about = old.title if old.weight == new.weight else f"{new.kind}{new.about_service} of {new.name}"
            out.append(f"{about}: {what}")
    there = {denial.key: denial for denial in before.denials}
    for denial in after.denials:
        was = there.get(denial.key)
        if was is not None and (what := ", ".join(_time_and_note(was, denial))):
            out.append(f"{denial.title}: {what}")
    return out


def _fields(old: Maintenance, new: Maintenance) -> Iterator[str]:
    if old.slots != new.slots:
        yield f"slots of others {len(old.slots)} -> {len(new.slots)}"
    if old.weight != new.weight:
        yield f"{old.weight} -> {new.weight}" if new.kind == "weight" else f"weight {old.weight} -> {new.weight}"
    if new.weight is not None and bool(old.returns) != bool(new.returns):
        yield f"goes back over {new.over:g} s" if new.returns else "does not go back"
    elif old.over != new.over:
        yield f"over {old.over:g} s -> {new.over:g} s"
    yield from _time_and_note(old, new)


def _time_and_note(old: Maintenance | Denial, new: Maintenance | Denial) -> Iterator[str]:
    if old.until != new.until:
        yield f"until {_when(old.until)} -> {_when(new.until)}"
    if old.note != new.note:
        yield f"note {old.note!r} -> {new.note!r}"


def concerning(overlay: Overlay, pool: str, service: str, base: str | None, slot: int | None) -> list[Maintenance]:
    """Return the entries that may have taken a *slot* from its *base* backend, for a service such as `53/udp`.

    Another backend's weight may have, and what balances load.
    """
    about = [a for a in overlay.of(pool) if a.service in ("", service)]
    return [a for a in about if slot in a.slots or a.weight is not None or (a.takes_out and a.backend == base)]


def why_not_base(base: str | None, backend: str | None, outages: Sequence[Maintenance]) -> str:
    """Return a slot's backend when nobody is out, and why it does not have the slot now; empty where it has."""
    if base is None or base == backend:
        return ""
    reasons = [_outage(a) for a in outages if a.takes_out]
    given = [f"{a.name} is {_outage(a)}" for a in outages if not a.takes_out]
    if not reasons and not given:
        reasons = ["down by the spec (state: down)"]
    return "; ".join([f"{base}{', which is ' if reasons else ''}{'; '.join(reasons)}", *given])


def _outage(outage: Maintenance) -> str:
    until = f", until {_minute(outage.until)} UTC" if outage.until else ""
    note = f": {escape(outage.note)}" if outage.note else ""
    since = _minute(outage.since)
    return f"{outage.state}{percent_gone(outage)} since {since} UTC{until}, by {escape(outage.by)}{note}"


def _minute(time: str) -> str:
    """A recorded time, in UTC, to the minute."""
    try:
        return datetime.fromisoformat(time).astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return escape(time)


def percent_gone(outage: Maintenance) -> str:
    """Return how far an entry that has not moved all of its slots is, with a blank in front; else nothing."""
    if outage.gone >= DRAINED:
        return ""
    return f" {outage.gone / 10:g} %" if outage.weight is None else f", {outage.gone / 10:g} % of the way to it,"


def _when(time: str) -> str:
    """A recorded time, in UTC."""
    if not time:
        return "it is ended"
    return datetime.fromisoformat(time).astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
