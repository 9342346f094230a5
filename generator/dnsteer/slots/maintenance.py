"""Maintenance: backends that are out of a running switch by command or by their health, since when, by whom and why.

The overlay is state, like the spec: the tables are a function of both, and change over time only when the overlay does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, Literal

Kind = Literal["drain", "down", "health"]
KINDS: tuple[Kind, ...] = ("drain", "down", "health")
STATE_WORDS: dict[Kind, str] = {"drain": "drained", "down": "down", "health": "unhealthy"}
"""What a backend is called with an entry of that kind."""
DRAINED = 1000
"""`gone` is in thousandths of a backend's slots: this is all of them."""


@dataclass(frozen=True)
class Maintenance:
    """One backend of one pool that is drained, down or unhealthy.

    *since* and *until* are ISO 8601 times with offset; an empty *until* means until it is ended by hand. *over* is the
    duration of a drain in seconds, 0 for at once. *gone* is its progress, in thousandths of the backend's slots. *paced* is
    set when the duration was changed: the time at which the drain would have begun at the new pace. *returns* is set when
    an unhealthy backend is healthy again and gets its slots back over *over* seconds: the time at which that began.
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

    @property
    def name(self) -> str:
        """The backend as commands take it: POOL/BACKEND."""
        return f"{self.pool}/{self.backend}"

    def expired(self, now: datetime) -> bool:
        """Whether its *until* has passed."""
        return bool(self.until) and now >= datetime.fromisoformat(self.until)

    def advanced(self, now: datetime) -> Maintenance:
        """Return the entry with the progress that it should have at *now*."""
        if self.gone >= DRAINED or self.returns:
            return self
        passed = (now - datetime.fromisoformat(self.paced or self.since)).total_seconds()
        share = DRAINED if passed >= self.over else max(self.gone, int(DRAINED * passed / self.over))
        return replace(self, gone=share)

    def at_pace(self, over: float, now: datetime) -> Maintenance:
        """Return the drain at a new pace, *over* seconds for all slots. Slots that are drained already stay drained."""
        here = self.advanced(now)
        if here.gone >= DRAINED:
            return here
        began = now - timedelta(seconds=over * here.gone / DRAINED)
        return replace(here, over=over, paced=began.isoformat(timespec="milliseconds"))


@dataclass(frozen=True)
class Overlay:
    """All maintenance entries in the order in which they began, which is the order in which slots are taken away."""

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
        """Return the entries of a pool."""
        return self._by_pool.get(pool, ())

    def find(self, pool: str, backend: str, kind: Kind) -> Maintenance | None:
        """Return the entry of that kind for a backend, or None."""
        return next((a for a in self.of(pool) if a.backend == backend and a.kind == kind), None)

    def put(self, entry: Maintenance) -> Overlay:
        """Return the overlay with *entry* in place of the one for the same backend and kind, else at the end."""
        found = self.find(entry.pool, entry.backend, entry.kind)
        if found is None:
            return Overlay((*self.entries, entry))
        return Overlay(tuple(entry if a is found else a for a in self.entries))

    def put_by_start(self, entries: Iterable[Maintenance]) -> Overlay:
        """Return the overlay with *entries* inserted by the time at which they began."""
        now = list(self.entries)
        for entry in entries:
            began = datetime.fromisoformat(entry.since)
            place = next((n for n, a in enumerate(now) if datetime.fromisoformat(a.since) > began), len(now))
            now.insert(place, entry)
        return Overlay(tuple(now))

    def without(self, gone: Iterable[Maintenance]) -> Overlay:
        """Return the overlay without the entries in *gone*."""
        leave = set(gone)
        return Overlay(tuple(a for a in self.entries if a not in leave))

    def tables_key(self) -> str:
        """Return the part of the overlay that the tables depend on, as text: equal text means equal tables.

        A drain that has just begun is part of it: it has moved no slot, but later entries are computed as if it were done.
        """
        return json.dumps([[a.pool, a.backend, a.gone] for a in self.entries])

    def to_json(self) -> str:
        """Return the overlay as recorded in OVSDB."""
        return json.dumps([_slim(a) for a in self.entries], separators=(",", ":"), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Overlay:
        """Parse the output of `to_json`. Raises ValueError that says what is wrong."""
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


_DEFAULTS: dict[str, Any] = {"note": "", "until": "", "over": 0, "gone": DRAINED, "paced": "", "returns": ""}
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
    for time in (entry.since, *filter(None, [entry.until, entry.paced, entry.returns])):
        if datetime.fromisoformat(time).tzinfo is None:
            raise ValueError(f"the time {time} lacks its offset")
    return entry


def marker(spec_digest: str, overlay: Overlay) -> int:
    """Return the 40-bit number in the switch's tables that identifies the spec and overlay they were made from."""
    text = f"{spec_digest}\n{overlay.tables_key()}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=5).digest(), "big")
