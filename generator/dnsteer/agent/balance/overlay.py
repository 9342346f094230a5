"""From the overlay to the slots that a pool's load is balanced by, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from dnsteer.agent.balance.decide import Counted, Moves
from dnsteer.agent.balance.rules import Rule
from dnsteer.deploy.caller import agent_name
from dnsteer.deploy.times import stamp
from dnsteer.slots.maintenance import Maintenance, Overlay
from dnsteer.slots.membership import Membership
from dnsteer.slots.owners import known_owners_of
from dnsteer.slots.weights import weights_in_the_end

Packets = Callable[[int, int], Sequence[float]]
"""Packets lately of each slot of a membership, by its number and how many slots it has."""


def balanced(
    overlay: Overlay,
    pool: str,
    members: Sequence[Membership],
    packets: Packets,
    rule: Rule,
    most: int,
    time: datetime,
) -> tuple[Overlay, Moves]:
    """Return the overlay in which at most *most* more slots of a pool balance its load, and what moves."""
    here = overlay.of(pool)
    ours = [entry for entry in here if entry.kind == rule.kind]
    given = {slot: entry.backend for entry in ours for slot in entry.slots}
    counted = [_counted(m, here, packets, rule.to) for m in members if m.pool == pool]
    moves = rule.decide([c for c in counted if c.owners and c.weights], given, most)
    if not moves.moved:
        return overlay, moves
    note = rule.note(moves)
    wanted: dict[str, list[int]] = {}
    for slot, backend in sorted(moves.given.items()):
        wanted.setdefault(backend, []).append(slot)
    found = {entry.backend: entry for entry in ours}
    now = overlay.without([entry for entry in ours if entry.backend not in wanted])
    for backend, slots in wanted.items():
        entry = found.get(backend) or Maintenance(pool, backend, rule.kind, stamp(time), agent_name())
        if entry.slots != tuple(slots):
            now = now.put(replace(entry, slots=tuple(slots), note=note, decision=""))
    return now, moves


def _counted(members: Membership, here: tuple[Maintenance, ...], packets: Packets, to: str) -> Counted:
    mine = tuple(entry for entry in here if entry.service in ("", members.service))
    out = {*members.down, *(entry.backend for entry in mine if entry.takes_out)}
    by_command = [entry for entry in mine if entry.weight is not None]
    weights: Mapping[str, float] = weights_in_the_end(members.weights, by_command)
    if to in weights and all(entry.backend != to for entry in by_command):
        weights = {**weights, to: weights[to] or 1}
    return Counted(
        packets(members.number, members.slots),
        known_owners_of(members, mine),
        known_owners_of(members, tuple(entry for entry in mine if not entry.slots)),
        {name: weight for name, weight in weights.items() if weight and name not in out},
    )
