"""The part of a switch's status that is about some of its pools, backends and VIPs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.worker_names import names_of
from dnsteer.status.pools import PoolView
from dnsteer.status.report import Status
from dnsteer.switch.tools import SwitchError


def narrow(status: Status, names: Sequence[str]) -> Status:
    """The status with the named pools, their VIPs, and the named VIPs with their pools; of POOL/BACKEND that backend alone.

    Without *names* all of it. What is about the switch as a whole stays. Raises SwitchError for a name that there is not.
    """
    if not names:
        return status
    chosen = _choose(status, names)
    whole = chosen.pools | {vip.pool for vip in status.vips if vip.name in chosen.vips}
    in_part = {pool for pool, _ in chosen.backends} - whole
    pools = list[PoolView]()
    for pool in status.pools:
        if pool.name in whole:
            pools.append(pool)
        elif pool.name in in_part:
            backends = tuple(b for b in pool.backends if (pool.name, b.name) in chosen.backends)
            pools.append(replace(pool, backends=backends))
    pools = [pool for pool in pools if pool.backends]  # a family in which no named backend is
    kept = [(pool.name, b.name) for pool in pools for b in pool.backends]
    overlay = status.reading.overlay
    if overlay is not None:
        overlay = Overlay(tuple(a for a in overlay if (a.pool, a.backend) in kept))
    vips = [vip for vip in status.vips if vip.name in chosen.vips or vip.pool in chosen.pools]
    return replace(status, pools=pools, reading=replace(status.reading, overlay=overlay), vips=vips)


@dataclass(frozen=True)
class _Chosen:
    """What was named: pools, VIPs, and single backends, each with its pool."""

    pools: set[str] = field(default_factory=set)
    vips: set[str] = field(default_factory=set)
    backends: set[tuple[str, str]] = field(default_factory=set)


def _choose(status: Status, names: Sequence[str]) -> _Chosen:
    """What *names* stand for; one may be that of a pool and of a VIP. Raises SwitchError for an unknown one."""
    workers = status.reading.state.workers if status.reading.state is not None else {}
    known = {(pool.name, b.name) for pool in status.pools for b in pool.backends}
    pools, vips = {pool.name for pool in status.pools}, {vip.name for vip in status.vips}
    chosen = _Chosen()
    for name in names:
        pool, slash, backend = name.partition("/")
        found = {(pool, each) for each in names_of(workers, pool, backend)} if slash else set[tuple[str, str]]()
        if not (found & known if slash else name in pools | vips):
            raise _unknown(name, status)
        chosen.backends.update(found)
        if name in pools:
            chosen.pools.add(name)
        if name in vips:
            chosen.vips.add(name)
    return chosen


def _unknown(name: str, status: Status) -> SwitchError:
    backends = [f"{pool.name}/{b.name}" for pool in status.pools for b in pool.backends]
    known = [*dict.fromkeys(pool.name for pool in status.pools), *(vip.name for vip in status.vips)]
    near = get_close_matches(name, backends if "/" in name else known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else _some("pools", (pool.name for pool in status.pools))
    return SwitchError(f"found {name!r}; expected the name of a pool or VIP that is applied, or POOL/BACKEND{hint}")


def _some(what: str, names: Iterable[str]) -> str:
    found = list(dict.fromkeys(names))
    more = f" and {len(found) - 4} more" if len(found) > 4 else ""
    return f"; its {what} are {', '.join(found[:4])}{more}" if found else ""
