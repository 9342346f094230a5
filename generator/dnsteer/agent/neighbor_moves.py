# SPDX-License-Identifier: Apache-2.0
"""Which MAC addresses of neighbours the agent takes over, and which it only names: a pure function of what was heard."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from dnsteer.slots.maintenance import is_station
from dnsteer.spec.neighbors import Neighbor

SILENT = 10.0
"""Seconds without an answer after which it is said."""
MOVES, WITHIN = 3, 60.0
"""So many changes of one neighbour are made within so many seconds; further ones wait."""


@dataclass
class Heard:
    """What was heard of a neighbour: the MAC address it had last, when it answered last, and when it was changed here."""

    mac: str = ""
    answered: float = 0.0
    moves: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class NeighborDecision:
    """The MAC addresses to take over, by address, and what does not work, by the address that it is about.

    *silent* are the addresses that do not answer; *until* is when a change that waits is due, None where none does.
    """

    macs: Mapping[str, str]
    troubles: Mapping[str, str]
    silent: frozenset[str]
    until: float | None = None


def decide_moves(
    neighbors: Iterable[Neighbor],
    recorded: Mapping[str, str],
    heard: Mapping[str, Heard],
    own: Collection[str],
    now: float,
) -> NeighborDecision:
    """Decide about *neighbors*, whose MAC addresses are *recorded* so; *own* are those of the switch, which no other has.

    The last MAC address stays where a neighbour does not answer. A neighbour that changes for the fourth time in a minute
    waits until the first of these changes is a minute old: two stations that fight for an address must not make a change of
    all flows each second.
    """
    macs: dict[str, str] = {}
    troubles: dict[str, str] = {}
    silent, due = set[str](), list[float]()
    for n in neighbors:
        known, has = heard.get(n.address, Heard()), n.mac or recorded.get(n.address, "")
        if now - known.answered > SILENT:
            silent.add(n.address)
            stays = f"its MAC address stays {has}" if has else "it has no MAC address yet, and gets no packets"
            troubles[n.address] = f"{n.title} does not answer: {stays}"
        elif not known.mac:
            continue  # it has been asked, and may still answer
        elif known.mac in own or not is_station(known.mac):
            troubles[n.address] = f"{n.title} answers with {known.mac}, which is no other station's: that is ignored"
        elif known.mac == has:
            continue
        elif n.mac:
            troubles[n.address] = f"{n.title} answers with {known.mac}, and the spec has {n.mac}: it stays so"
        elif len(recent := [at for at in known.moves if now - at < WITHIN]) < MOVES:
            macs[n.address] = known.mac
        else:
            due.append(recent[-MOVES] + WITHIN)
            # Without the other MAC address: the text stays while two fight.
            often = f"has changed its MAC address {len(recent)} times in {WITHIN:g} s"
            troubles[n.address] = f"{n.title} {often}: {has} stays for a while; do two stations have the address?"
    return NeighborDecision(macs, troubles, frozenset(silent), min(due, default=None))
