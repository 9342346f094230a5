"""Backends that operators took out of a running switch: who, when, why, until when, and how far a drain has come.

The overlay is state, like the spec: the tables are a function of both, and time changes them only by changing the overlay.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, Literal

Kind = Literal["drain", "down"]
KINDS: tuple[Kind, Kind] = ("drain", "down")
DRAINED = 1000
"""`gone` is in thousandths of a backend's slots: this is all of them."""


@dataclass(frozen=True)
class Maintenance:
    """One backend of one pool that is drained or down.

    *since* and *until* are times in ISO 8601 with their offset; an empty *until*: until somebody ends it. *over* is how many
    seconds a drain takes, 0: at once. *gone* is how far it has come, in thousandths of the backend's slots. *paced* is when
    a drain that got another pace would have begun at that pace; empty: it has its first one.
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

    @property
    def name(self) -> str:
        """The backend as commands call it."""
        return f"{self.pool}/{self.backend}"

    def expired(self, now: datetime) -> bool:
        """Whether its time is over."""
        return bool(self.until) and now >= datetime.fromisoformat(self.until)

    def advanced(self, now: datetime) -> Maintenance:
        """The same entry as far as it should have come by *now*."""
        if self.gone >= DRAINED:
            return self
        passed = (now - datetime.fromisoformat(self.paced or self.since)).total_seconds()
        share = DRAINED if passed >= self.over else max(self.gone, int(DRAINED * passed / self.over))
        return replace(self, gone=share)

    def at_pace(self, over: float, now: datetime) -> Maintenance:
        """The same drain at a new pace: *over* seconds for all of it. Slots that are drained stay drained."""
        here = self.advanced(now)
        if here.gone >= DRAINED:
            return here
        began = now - timedelta(seconds=over * here.gone / DRAINED)
        return replace(here, over=over, paced=began.isoformat(timespec="milliseconds"))


@dataclass(frozen=True)
class Overlay:
    """All maintenance, in the order in which it began. Slots are taken from the backends in this order."""

    entries: tuple[Maintenance, ...] = ()
    _by_pool: Mapping[str, tuple[Maintenance, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        pools: dict[str, list[Maintenance]] = {}
        for entry in self.entries:
            pools.setdefault(entry.pool, []).append(entry)
        object.__setattr__(self, "_by_pool", {name: tuple(found) for name, found in pools.items()})

    def __iter__(self) -> Iterator[Maintenance]:
        return iter(self.entries)

    def __bool__(self) -> bool:
        return bool(self.entries)

    def of(self, pool: str) -> tuple[Maintenance, ...]:
        """The maintenance of a pool."""
        return self._by_pool.get(pool, ())

    def find(self, pool: str, backend: str, kind: Kind) -> Maintenance | None:
        """The maintenance of that kind of a backend."""
        return next((a for a in self.of(pool) if a.backend == backend and a.kind == kind), None)

    def put(self, entry: Maintenance) -> Overlay:
        """With this entry: in the place of the one that it replaces, else as the last."""
        found = self.find(entry.pool, entry.backend, entry.kind)
        if found is None:
            return Overlay((*self.entries, entry))
        return Overlay(tuple(entry if a is found else a for a in self.entries))

    def put_by_start(self, entries: Iterable[Maintenance]) -> Overlay:
        """With *entries* in the places where they would stand had they never left: by when they began."""
        now = list(self.entries)
        for entry in entries:
            began = datetime.fromisoformat(entry.since)
            place = next((n for n, a in enumerate(now) if datetime.fromisoformat(a.since) > began), len(now))
            now.insert(place, entry)
        return Overlay(tuple(now))

    def without(self, gone: Iterable[Maintenance]) -> Overlay:
        """Without these entries."""
        leave = set(gone)
        return Overlay(tuple(a for a in self.entries if a not in leave))

    def tables_key(self) -> str:
        """What of the overlay decides about the tables: the same text, the same tables.

        A drain that has just begun counts too: it has moved nothing, but those after it are taken out as if it were gone.
        """
        return json.dumps([[a.pool, a.backend, a.gone] for a in self.entries])

    def to_json(self) -> str:
        """As it is recorded."""
        return json.dumps([_slim(a) for a in self.entries], separators=(",", ":"), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Overlay:
        """Read what `to_json` wrote. Raises ValueError that says what is wrong."""
        try:
            value = json.loads(text)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        if not isinstance(value, list):
            raise ValueError("not a list")
        return Overlay(tuple(_entry(item) for item in value))


NO_OVERLAY = Overlay()


def _slim(entry: Maintenance) -> dict[str, Any]:
    return {k: v for k, v in asdict(entry).items() if v != _DEFAULTS.get(k)}


_DEFAULTS: dict[str, Any] = {"note": "", "until": "", "over": 0, "gone": DRAINED, "paced": ""}
_TYPES: dict[str, tuple[type, ...]] = {"over": (int, float), "gone": (int,)}


def _entry(item: Any) -> Maintenance:
    if not isinstance(item, dict):
        raise ValueError("an entry is not a mapping")
    known = {f.name for f in fields(Maintenance)}
    for key, value in item.items():
        if key not in known or isinstance(value, bool) or not isinstance(value, _TYPES.get(key, (str,))):
            raise ValueError(f"an entry has {key!r} with {value!r}")
    missing = known - set(_DEFAULTS) - set(item)
    if missing:
        raise ValueError(f"an entry lacks {', '.join(sorted(missing))}")
    entry = Maintenance(**item)
    if entry.kind not in KINDS or not 0 <= entry.gone <= DRAINED or not 0 <= entry.over < timedelta.max.total_seconds():
        raise ValueError(f"an entry has kind {entry.kind!r}, gone {entry.gone} and over {entry.over}")
    for time in (entry.since, *filter(None, [entry.until, entry.paced])):
        if datetime.fromisoformat(time).tzinfo is None:
            raise ValueError(f"the time {time} lacks its offset")
    return entry


def marker(spec_digest: str, overlay: Overlay) -> int:
    """The number (40 bits) by which the switch's tables tell which spec and overlay they were made from."""
    text = f"{spec_digest}\n{overlay.tables_key()}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=5).digest(), "big")
