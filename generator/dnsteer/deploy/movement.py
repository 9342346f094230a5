# SPDX-License-Identifier: Apache-2.0
"""Which slots move between backends, and whether so many that the operator must confirm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dnsteer.slots.maintenance import Overlay
from dnsteer.slots.membership import Membership
from dnsteer.slots.owners import known_owners_of, no_backend
from dnsteer.slots.weights import in_service
from dnsteer.spec.errors import some_of

if TYPE_CHECKING:
    from dnsteer.spec.model.spec import Pool, Spec

NO_BACKEND = "no backend"
"""Stands for the owner of slots whose queries are dropped."""


@dataclass(frozen=True)
class LastBackend:
    """The backend of a pool that is in service alone.

    *planned*: people have all others out. *backup*: the pool that helps; empty: none.
    """

    members: Membership
    name: str
    planned: bool
    backup: str = ""

    @property
    def text(self) -> str:
        """The sentence that it is alone, and what follows when it goes too."""
        m = self.members
        lost = "its queries are dropped" if m.on_all_down == "drop" else "queries still go to it"
        if self.backup:
            lost = f"its backup serves, pool {self.backup}, or without an agent {lost}"
        alone = f"{self.name} is the last of {sum(map(bool, m.weights.values()))} backends in service"
        return f"{m.title}: {alone}; without it {lost} (on_all_down: {m.on_all_down})"


@dataclass(frozen=True)
class Assignment:
    """The pools of a switch and their maintenance, which together determine the backend of each slot."""

    pools: Sequence[Membership]
    overlay: Overlay

    def without_backends(self) -> list[Membership]:
        """Pools in which no backend is left."""
        return [m for m in self.pools if no_backend(m, self.overlay.of(m.pool))]

    def with_one_backend(self, backups: Mapping[str, str]) -> list[LastBackend]:
        """Pools of several backends of which one alone is in service. *backups*: pools by the name of the one they help."""
        found = []
        for m in self.pools:
            entries = self.overlay.of(m.pool)
            serving = in_service(m, entries)
            several = {name for name, weight in m.weights.items() if weight}
            if len(serving) == 1 and len(several) > 1:
                kept_out = {entry.backend for entry in entries if entry.kept_out_by_people}
                found.append(
                    LastBackend(
                        m,
                        min(serving),
                        planned=several - serving <= kept_out | set(m.down),
                        backup=backups.get(m.pool, ""),
                    )
                )
        return found


@dataclass(frozen=True)
class Move:
    """What moves in a pool: how many of its *slots* between which backends; or *why* all may move.

    Where the number of slots changes, *resized* has the old and the new one, and *slots* is the greater of both: a slot of
    the smaller number is several of these. With a *why*, *most* is the part of the clients that may move. *who* moves are
    clients, unless the pool sprays: then a client's queries go to all slots.
    """

    pool: str
    title: str
    slots: int
    transfers: Mapping[tuple[str, str], int] = field(default_factory=dict)
    why: str = ""
    who: str = "clients"
    resized: tuple[int, int] | None = None
    most: float = 1.0

    @property
    def moved(self) -> int:
        """How many slots move."""
        return sum(self.transfers.values())

    @property
    def share(self) -> float:
        """The part of the pool's clients that moves."""
        return self.most if self.why else self.moved / self.slots

    def text(self) -> str:
        """In words."""
        if self.why:
            part = "all" if self.share == 1 else f"up to {percent_of_clients(self.share)}"
            return f"{self.title}: {self.why}: {part} of its {self.who} may move"
        most_first = sorted(self.transfers.items(), key=lambda i: (-i[1], i[0]))
        transfers = some_of(f"{n} {a} -> {b}" for (a, b), n in most_first)
        part = f"{percent_of_clients(self.share)} of its {self.who}"
        if self.resized is not None:
            was, becomes = self.resized
            moved = f"{self.moved} of {self.slots} move ({transfers})"
            return f"{self.title} has {becomes} slots instead of {was}: {moved}: {part}"
        return f"{self.moved} of {self.slots} slots of {self.title} move ({transfers}): {part}"

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        transfers = [{"from": a, "to": b, "slots": n} for (a, b), n in sorted(self.transfers.items())]
        return {
            "pool": self.pool,
            "title": self.title,
            "slots": self.slots,
            "moved": self.moved,
            "share": round(self.share, 4),
            "ways": transfers,
            "text": self.text(),
        }


def percent_of_clients(share: float) -> str:
    """A part of the clients in per cent: `21.9 %`."""
    return f"{share * 100:.3g} %"


_CHANGED = {"client": "its hash_fields change", "source-address": "its client_prefix changes"}


def moves(before: Assignment, after: Assignment, rehashed: Collection[str] = ()) -> list[Move]:
    """Return the moves in pools that exist before and after, without pools where nothing moves.

    *rehashed* are the pools whose hash fields or prefixes of clients change, so that a client may get any slot.
    """
    pools: dict[str, list[Membership]] = {}
    for members in before.pools:
        pools.setdefault(members.pool, []).append(members)
    out = []
    for members in after.pools:
        for earlier in _earlier(members, pools.get(members.pool, [])):
            was, becomes = before.overlay.of(members.pool), after.overlay.of(members.pool)
            if earlier == members and was == becomes and members.pool not in rehashed:
                continue
            owners = known_owners_of(earlier, was), known_owners_of(members, becomes)
            title = members.title if len(members.title) >= len(earlier.title) else earlier.title
            move = Move(members.pool, title, max(earlier.slots, members.slots), who=_who(members))
            if earlier.selection != members.selection or members.pool in rehashed:
                why = "its selection changes" if members.pool not in rehashed else _CHANGED[members.selection]
                most = _most_that_may_move(*owners)
                if most:
                    out.append(replace(move, why=why, most=most))
                continue
            transfers = _transfers(*owners, move.slots)
            if transfers:
                resized = None if earlier.slots == members.slots else (earlier.slots, members.slots)
                out.append(replace(move, transfers=transfers, resized=resized))
    return out


def _who(members: Membership) -> str:
    return "queries" if members.selection == "spray" else "clients"


def _earlier(members: Membership, before: Sequence[Membership]) -> list[Membership]:
    """Return the earlier *members*: of the same pool and families, which may have been merged or split since."""
    same = [m for m in before if m.title == members.title]
    whole = f"pool {members.pool}"
    return same or [m for m in before if whole in (m.title, members.title)]


def rehashed(old: Spec, new: Spec) -> list[str]:
    """Return the pools whose hash fields or prefixes of clients change."""
    from dnsteer.spec.derived import client_prefix, hash_fields  # here, since the quick verbs do without

    def looks_at(pool: Pool) -> object:
        if pool.selection.value == "source-address":
            return client_prefix(pool, "ipv4"), client_prefix(pool, "ipv6")
        return set(hash_fields(pool)) if pool.selection.value == "client" else None

    return [
        name
        for name, pool in new.pools.items()
        if (was := old.pools.get(name)) and pool.selection is was.selection and looks_at(was) != looks_at(pool)
    ]


def moved_vips(old: Mapping[str, str], new: Mapping[str, str], slots: Mapping[str, int]) -> list[Move]:
    """Return the VIPs whose pool changes. *old* and *new* have the pool by VIP, *slots* the slots by pool."""
    return [
        Move(pool, f"VIP {name}", slots.get(pool, 1), why=f"pool {old[name]} -> {pool}")
        for name, pool in new.items()
        if name in old and old[name] != pool
    ]


def _transfers(before: Sequence[str], after: Sequence[str], slots: int) -> dict[tuple[str, str], int]:
    """Return how many of *slots* slots go from whom to whom. Each of the owners' numbers of slots divides *slots*.

    A slot is the hash, or the source port, modulo the number of slots, whichever way a slot is selected. So with
    twice as many slots each of the old ones is two of the new, and hash values that were together may part.
    """
    if before == after:
        return {}
    before, after = before or (NO_BACKEND,), after or (NO_BACKEND,)
    pairs = ((before[slot % len(before)], after[slot % len(after)]) for slot in range(slots))
    return dict(Counter((a, b) for a, b in pairs if a != b))


def _most_that_may_move(before: Sequence[str], after: Sequence[str]) -> float:
    """Return the greatest part of the clients that may move where their slots before and after have nothing in common.

    Those stay at a backend in any case by whom its parts before and after exceed the whole.
    """
    parts = [
        {name: Fraction(n, len(owners)) for name, n in Counter(owners).items()}
        for owners in (before or (NO_BACKEND,), after or (NO_BACKEND,))
    ]
    stay = sum(max(Fraction(0), part + parts[1].get(name, Fraction(0)) - 1) for name, part in parts[0].items())
    return float(1 - stay)


def reasons_to_ask(found: Iterable[Move], before: Assignment, after: Assignment) -> list[str]:
    """Return why the operator must confirm: more than half of a pool moves, or a pool loses its last backend."""
    already = {m.title for m in before.without_backends()}  # there it can only get better
    much = [m for m in found if m.share > 0.5 and m.title not in already]
    out = [f"{m.title}: {percent_of_clients(m.share)} of its {m.who} would move" for m in much]
    return out + [all_down(m) for m in after.without_backends() if m.title not in already]


def all_down(members: Membership) -> str:
    """Return the sentence that a pool has no backend left, and what follows."""
    kept = "its queries would be dropped" if members.on_all_down == "drop" else "its slots stay where they are"
    return f"{members.title}: no backend would be left, so {kept} (on_all_down: {members.on_all_down})"


def pools_without_backends(pools: Assignment) -> list[str]:
    """Warnings about pools in which no backend is left."""
    out = []
    for m in pools.without_backends():
        what = "queries are dropped" if m.on_all_down == "drop" else "queries still go where they went before"
        out.append(f"{m.title}: every backend is out of service; {what} (on_all_down: {m.on_all_down})")
    return out


def last_backends_left(before: Assignment, after: Assignment) -> list[str]:
    """Warnings about pools in which a change takes out the last backend but one."""
    out = []
    for m in after.pools:
        serving = sorted(in_service(m, after.overlay.of(m.pool)))
        if len(serving) != 1:
            continue
        earlier = _earlier(m, [each for each in before.pools if each.pool == m.pool])
        if any(len(in_service(each, before.overlay.of(m.pool))) > 1 for each in earlier):
            out.append(
                f"{m.title}: {serving[0]} would be the last backend in service; if it fails, none of the pool's own is left"
            )
    return out
