# SPDX-License-Identifier: Apache-2.0
"""Maintenance: backends of a running switch that are out, or have another weight, since when, by whom and why.

The overlay is state, like the spec: the tables are a function of both, and change over time only when the overlay does.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

from dnsteer.slots.denial import Denial, denial_from_value

Kind = Literal["drain", "down", "health", "weight", "backup", "balance", "spill"]
STATE_WORDS: dict[Kind, str] = {
    "drain": "drained",
    "down": "down",
    "health": "unhealthy",
    "weight": "at weight",
    "backup": "in as a backup at weight",
    "balance": "given slots of others",
    "spill": "given slots of busy backends",
}
"""What a backend is called with an entry of that kind."""
OF_THE_AGENT: tuple[Kind, ...] = ("health", "backup", "balance", "spill")
"""What the agent writes, and ends by itself."""
MOVES_SLOTS: tuple[Kind, ...] = ("balance", "spill")
"""Kinds that give a backend slots of others, one by one: `spill` a backend of weight 0."""
DRAINED = 1000
"""`gone` is in thousandths of the slots that an entry moves: this is all of them."""
_LONGEST_ID = 32
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z")
MAX_WEIGHT = 65_535
"""The largest weight, as in the spec."""


@dataclass(frozen=True)
class Maintenance:
    """One backend of one pool that is drained, down or unhealthy, has another weight than the spec's, or slots of others.

    *since* and *until* are ISO 8601 times with offset; an empty *until* means until it is ended by hand. *over* is the
    duration of a change in seconds, 0 for at once. *gone* is its progress, in thousandths of the slots that it moves.
    *paced* is set when the duration was changed: the time at which it would have begun at the new pace. *returns* is set
    when slots go back over *over* seconds, as those of a backend that is healthy again: the time at which that began.
    *service* is the only service that an unhealthy backend is out of, such as `853/tcp`; empty: all of the pool's.
    *weight* is the weight that was given, None for a backend that is out. *was* is the weight before, where it is not the
    spec's. *slots* are those that a backend has beyond its own, by which load is balanced; empty for kinds that move none.
    *decision* is the id of the decision that wrote it, empty where that is not known. Entries that differ in it
    alone are equal: nothing depends on it.
    """

    pool: str
    backend: str
    kind: Kind
    since: str
    by: str
    note: str = ""
    until: str = ""
    over: float = 0
    gone: int = DRAINED
    paced: str = ""
    returns: str = ""
    weight: int | None = None
    was: int | None = None
    service: str = ""
    slots: tuple[int, ...] = ()
    decision: str = field(default="", compare=False)

    @property
    def takes_out(self) -> bool:
        """Whether the backend is out, or on its way out."""
        return self.weight is None and self.kind not in MOVES_SLOTS

    @property
    def kept_out_by_people(self) -> bool:
        """Whether people have the backend out: drained, down or at weight 0, and not on its way back."""
        return not self.returns and (self.kind in ("drain", "down") or (self.kind == "weight" and not self.weight))

    @property
    def name(self) -> str:
        """The backend as commands take it: POOL/BACKEND."""
        return f"{self.pool}/{self.backend}"

    @property
    def state(self) -> str:
        """What the backend is: `drained`, `at weight 5`."""
        return STATE_WORDS[self.kind] + ("" if self.weight is None else f" {self.weight}") + self.about_service

    @property
    def title(self) -> str:
        """What messages call it: `drain of POOL/BACKEND`, `weight 5 of POOL/BACKEND`, `health (853/tcp) of POOL/BACKEND`."""
        return f"{self.kind}{'' if self.weight is None else f' {self.weight}'}{self.about_service} of {self.name}"

    @property
    def about_service(self) -> str:
        """The only service that it is about, in brackets with a blank in front; empty: all are."""
        return f" ({self.service})" if self.service else ""

    @property
    def in_the_end(self) -> tuple[Maintenance, ...]:
        """The entry as it will be when it has moved all of its slots; empty when they go back."""
        return () if self.returns else (replace(self, gone=DRAINED),)

    def expired(self, now: datetime) -> bool:
        """Whether its *until* has passed."""
        return bool(self.until) and now >= datetime.fromisoformat(self.until)

    def advanced(self, now: datetime) -> Maintenance:
        """Return the entry with the progress that it should have at *now*. What the agent brings back stays as it is."""
        if self.kind in OF_THE_AGENT or (self.gone >= DRAINED and not self.returns):
            return self
        passed = (now - datetime.fromisoformat(self.returns or self.paced or self.since)).total_seconds()
        share = DRAINED if passed >= self.over or not self.over else int(DRAINED * passed / self.over)
        gone = min(self.gone, DRAINED - share) if self.returns else max(self.gone, share)
        return replace(self, gone=gone)

    def at_pace(self, over: float, now: datetime) -> Maintenance:
        """Return the entry at a new pace, *over* seconds for all slots. Slots that have moved already stay."""
        here = self.advanced(now)
        if here.gone >= DRAINED:
            return here
        began = now - timedelta(seconds=over * here.gone / DRAINED)
        return replace(here, over=over, paced=began.isoformat(timespec="milliseconds"))

    def going_back(self, over: float, now: datetime) -> Maintenance:
        """Return the entry with its slots on their way back, *over* seconds for all of them."""
        here = self.advanced(now)
        began = now - timedelta(seconds=over * (DRAINED - here.gone) / DRAINED)
        return replace(here, over=over, returns=began.isoformat(timespec="milliseconds"))


@dataclass(frozen=True)
class FoundNeighbor:
    """The MAC address at which a neighbour answered last, *since* when (ISO 8601), and the one *before* it, if any."""

    address: str
    mac: str
    since: str
    before: str = ""


@dataclass(frozen=True)
class Overlay:
    """All maintenance entries in the order in which they began, which is the order in which slots are taken away; and the
    denials of clients, oldest first. It iterates over the entries.

    *neighbors* are the MAC addresses at which neighbours of the spec answered last; None where the spec has none to follow.
    """

    entries: tuple[Maintenance, ...] = ()
    denials: tuple[Denial, ...] = ()
    neighbors: tuple[FoundNeighbor, ...] | None = None
    _by_pool: Mapping[str, tuple[Maintenance, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        pools: dict[str, list[Maintenance]] = {}
        for entry in self.entries:
            pools.setdefault(entry.pool, []).append(entry)
        object.__setattr__(self, "_by_pool", {name: tuple(found) for name, found in pools.items()})

    def __iter__(self) -> Iterator[Maintenance]:
        return iter(self.entries)

    def __bool__(self) -> bool:
        return bool(self.entries or self.denials)

    @property
    def macs(self) -> dict[str, str] | None:
        """The MAC addresses of neighbours, by their address; None where none are followed."""
        return None if self.neighbors is None else {n.address: n.mac for n in self.neighbors}

    @property
    def by_people(self) -> frozenset[tuple[str, Kind, int | None, bool]]:
        """Whom people have out or gave a weight, without their progress."""
        return frozenset((a.name, a.kind, a.weight, bool(a.returns)) for a in self if a.kind not in OF_THE_AGENT)

    def of(self, pool: str) -> tuple[Maintenance, ...]:
        """Return the entries of a pool."""
        return self._by_pool.get(pool, ())

    def find(self, pool: str, backend: str, kind: Kind, service: str = "") -> Maintenance | None:
        """Return the entry of that kind for a backend, or None."""
        wanted = backend, kind, service
        return next((a for a in self.of(pool) if (a.backend, a.kind, a.service) == wanted), None)

    def put(self, entry: Maintenance) -> Overlay:
        """Return the overlay with *entry* in place of the one for the same backend, kind and service, else at the end."""
        found = self.find(entry.pool, entry.backend, entry.kind, entry.service)
        if found is None:
            return self.with_entries((*self.entries, entry))
        return self.with_entries(entry if a is found else a for a in self.entries)

    def with_entries(self, entries: Iterable[Maintenance]) -> Overlay:
        """Return the overlay with other entries, and the rest as it is."""
        return replace(self, entries=tuple(entries))

    def with_denials(self, denials: Iterable[Denial]) -> Overlay:
        """Return the overlay with other denials, and the rest as it is."""
        return replace(self, denials=tuple(denials))

    def put_by_start(self, entries: Iterable[Maintenance]) -> Overlay:
        """Return the overlay with *entries* inserted by the time at which they began."""
        now = list(self.entries)
        for entry in entries:
            began = datetime.fromisoformat(entry.since)
            place = next((n for n, a in enumerate(now) if datetime.fromisoformat(a.since) > began), len(now))
            now.insert(place, entry)
        return self.with_entries(now)

    def without(self, gone: Iterable[Maintenance | Denial]) -> Overlay:
        """Return the overlay without the entries and denials in *gone*."""
        leave = set(gone)
        kept = tuple(a for a in self.denials if a not in leave)
        return replace(self, entries=tuple(a for a in self.entries if a not in leave), denials=kept)

    @property
    def denied(self) -> frozenset[tuple[str, int, str]]:
        """What is denied: the part of the denials that the tables depend on."""
        return frozenset(denial.key for denial in self.denials)

    def tables_key(self) -> str:
        """Return the part of the overlay that the tables depend on, as text: equal text means equal tables.

        One that has just begun is part of it: it has moved no slot, but later entries are computed as if it were done.
        """
        entries: list[Any] = [
            [
                a.pool,
                a.backend,
                a.gone,
                *([] if a.weight is None else [a.weight, a.was]),
                *filter(None, [a.service, list(a.slots)]),
            ]
            for a in self.entries
        ]
        value = entries + sorted(map(list, self.denied))
        return json.dumps([*value, self.macs] if self.neighbors is not None else value)

    def to_json(self) -> str:
        """Return the overlay as recorded in OVSDB, without decisions: equal overlays are equal text."""
        value: list[Any] = [*map(_slim, self.entries), *(a.to_value() for a in self.denials)]
        if self.neighbors is not None:
            value.append({"neighbors": [[n.address, n.mac, n.since, n.before] for n in self.neighbors]})
        return json.dumps(value, separators=(",", ":"), sort_keys=True)

    def decisions(self) -> str:
        """Return the decisions as recorded beside the overlay; empty if there are none.

        They have a key of their own, since releases without them refuse entries with a field that they do not know. The
        digest tells whether the overlay was written since by one of these.
        """
        decisions = [*(a.decision for a in self.entries), *(a.decision for a in self.denials)]
        return f"{_short_digest(self.to_json())} {','.join(decisions)}" if any(decisions) else ""

    def with_decisions(self, text: str) -> Overlay:
        """Return the overlay with the decisions that `decisions` gave; with none if it gave them for another overlay."""
        if not text:
            return self
        digest, _, listed = text.partition(" ")
        found = listed.split(",")
        number = len(self.entries)
        if digest != _short_digest(self.to_json()) or len(found) != number + len(self.denials):
            return self
        return replace(
            self,
            entries=tuple(replace(a, decision=_plain(d)) for a, d in zip(self.entries, found[:number], strict=True)),
            denials=tuple(replace(a, decision=_plain(d)) for a, d in zip(self.denials, found[number:], strict=True)),
        )

    @staticmethod
    def from_json(text: str) -> Overlay:
        """Parse the output of `to_json`. Raises ValueError that says what is wrong."""
        try:
            value = json.loads(text)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        if not isinstance(value, list):
            raise ValueError("not a list")
        neighbors = None
        if value and isinstance(value[-1], dict) and value[-1].keys() == {"neighbors"}:
            neighbors = _neighbors(value.pop()["neighbors"])
        is_denial = [isinstance(item, dict) and "prefix" in item for item in value]
        return Overlay(
            tuple(_entry(item) for item, other in zip(value, is_denial, strict=True) if not other),
            tuple(_denial(item) for item, own in zip(value, is_denial, strict=True) if own),
            neighbors,
        )


NO_OVERLAY = Overlay()


def _slim(entry: Maintenance) -> dict[str, Any]:
    return {k: v for k, v in asdict(entry).items() if k != "decision" and v != _DEFAULTS.get(k)}


def _short_digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


def _plain(decision: str) -> str:
    """An id as it was read; empty for what is none."""
    return decision if decision.isascii() and decision.isalnum() and len(decision) <= _LONGEST_ID else ""


_DEFAULTS: dict[str, Any] = {
    "note": "",
    "until": "",
    "over": 0,
    "gone": DRAINED,
    "paced": "",
    "returns": "",
    "weight": None,
    "was": None,
    "service": "",
    "slots": (),
}
_TYPES: dict[str, tuple[type, ...]] = {
    "over": (int, float),
    "gone": (int,),
    "weight": (int,),
    "was": (int,),
    "slots": (list,),
}


def _entry(item: Any) -> Maintenance:
    if not isinstance(item, dict):
        raise ValueError("an entry is not a mapping")
    known = {f.name for f in fields(Maintenance)} - {"decision"}
    for key, value in item.items():
        if key not in known or isinstance(value, bool) or not isinstance(value, _TYPES.get(key, (str,))):
            raise ValueError(f"an entry has {key!r} with {value!r}")
    missing = known - set(_DEFAULTS) - set(item)
    if missing:
        raise ValueError(f"an entry lacks {', '.join(sorted(missing))}")
    entry = Maintenance(**{**item, "slots": _slots(item)})
    known_kind, longest = entry.kind in STATE_WORDS, timedelta.max.total_seconds()
    if not known_kind or not 0 <= entry.gone <= DRAINED or not 0 <= entry.over < longest:
        raise ValueError(f"an entry has kind {entry.kind!r}, gone {entry.gone} and over {entry.over}")
    if (entry.weight is not None) != (entry.kind in ("weight", "backup")) or not all(
        0 <= weight <= MAX_WEIGHT for weight in (entry.weight, entry.was) if weight is not None
    ):
        raise ValueError(f"an entry of kind {entry.kind!r} has weight {entry.weight} and was {entry.was}")
    if bool(entry.slots) != (entry.kind in MOVES_SLOTS):
        raise ValueError(f"an entry of kind {entry.kind!r} has the slots {list(entry.slots)}")
    _check_times(entry.since, *filter(None, [entry.until, entry.paced, entry.returns]))
    return entry


def _denial(item: Mapping[str, Any]) -> Denial:
    denial = denial_from_value(item)
    _check_times(denial.since, *filter(None, [denial.until]))
    return denial


def _check_times(*times: str) -> None:
    for time in times:
        moment = datetime.fromisoformat(time)
        if moment.tzinfo is None:
            raise ValueError(f"the time {time} lacks its offset")
        try:
            moment.astimezone(timezone.utc)
        except OverflowError:
            raise ValueError(f"the time {time} is out of range") from None


def _neighbors(items: Any) -> tuple[FoundNeighbor, ...]:
    if not isinstance(items, list):
        raise ValueError(f"the neighbours are {items!r}")
    out = list[FoundNeighbor]()
    for item in items:
        if not isinstance(item, list) or len(item) != 4 or not all(isinstance(part, str) for part in item):
            raise ValueError(f"a neighbour is {item!r}")
        found = FoundNeighbor(*item)
        for mac in (found.mac, found.before):
            if mac and not is_station(mac):
                raise ValueError(f"a neighbour has the MAC address {mac!r}")
        if not found.mac or datetime.fromisoformat(found.since).tzinfo is None:
            raise ValueError(f"a neighbour is {item!r}")
        out.append(found)
    return tuple(out)


def is_station(mac: str) -> bool:
    """Whether *mac* is the address of one station, as text in lower case."""
    return bool(_MAC.match(mac)) and not int(mac[1], 16) & 1 and mac != "00:00:00:00:00:00"


def _slots(item: Mapping[str, Any]) -> tuple[int, ...]:
    found = item.get("slots", [])
    numbers = all(isinstance(slot, int) and not isinstance(slot, bool) and 0 <= slot < 1 << 16 for slot in found)
    if not numbers or found != sorted(set(found)):
        raise ValueError(f"an entry has the slots {found!r}")
    return tuple(found)


def marker(spec_digest: str, overlay: Overlay) -> int:
    """Return the 40-bit number in the switch's tables that identifies the spec and overlay they were made from."""
    text = f"{spec_digest}\n{overlay.tables_key()}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=5).digest(), "big")


def same_entry(overlay: Overlay, entry: Maintenance) -> Maintenance | None:
    """The entry for the same backend, kind and service; None if there is none."""
    return overlay.find(entry.pool, entry.backend, entry.kind, entry.service)


def is_decided(before: Maintenance | None, after: Maintenance) -> bool:
    """Whether *after* is more than the next step of what was decided *before*."""
    if before is None or bool(before.returns) != bool(after.returns):
        return True
    return replace(after, gone=before.gone, paced=before.paced, returns=before.returns) != before


def stamped(entries: Iterable[Maintenance], before: Overlay, decision: str) -> tuple[Maintenance, ...]:
    """Return *entries* with the decision in those that it wrote; the others keep theirs."""
    out = list[Maintenance]()
    for entry in entries:
        was = same_entry(before, entry)
        decided_by = decision if was is None or is_decided(was, entry) else was.decision
        out.append(replace(entry, decision=decided_by))
    return tuple(out)


def decisions_between(before: Overlay, after: Overlay, ended_by: str = "") -> tuple[str, ...]:
    """Return the ids of the decisions behind a change of the overlay. *ended_by* is that which took entries away at once."""
    found = list[str]()
    for entry in after:
        if same_entry(before, entry) != entry:
            found.append(entry.decision)
    for entry in before:
        if same_entry(after, entry) is None:
            found.append(entry.decision if entry.returns else ended_by)  # of one that went back this is the last step
    kept = set(before.denials)
    found += [denial.decision for denial in after.denials if denial not in kept]
    if {denial.key for denial in before.denials} - after.denied:
        found.append(ended_by)
    return tuple(dict.fromkeys(filter(None, found)))
