"""The part of a switch's status that is about some of its pools, backends and VIPs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches

from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.worker_names import names_of
from dnsteer.status.report import Status
from dnsteer.switch.tools import SwitchError


def narrow(status: Status, names: Sequence[str]) -> Status:
    """The status with the named pools, their VIPs, and the named VIPs with their pools; of POOL/BACKEND that backend alone.

    Without *names* all of it. What is about the switch as a whole stays. Raises SwitchError for a name that there is not.
    """
    if not names:
        return status
    workers = status.reading.state.workers if status.reading.state is not None else {}
    pools, backends, vips = set[str](), set[tuple[str, str]](), set[str]()
    own_pools = {pool.name for pool in status.pools}
    by_name = {vip.name: vip for vip in status.vips}
    for name in names:
        pool, slash, backend = name.partition("/")
        if slash:
            found = {(pool, each) for each in names_of(workers, pool, backend)}
            if not found & {(p.name, b.name) for p in status.pools for b in p.backends}:
                raise _unknown(name, status)
            backends |= found
        elif name not in own_pools and name not in by_name:
            raise _unknown(name, status)
        if name in own_pools:
            pools.add(name)
        if name in by_name:
            vips.add(name)
    of_vips = {by_name[name].pool for name in vips}
    of_backends = {pool for pool, _ in backends} - pools - of_vips
    whole = pools | of_vips
    shown = [
        pool if pool.name in whole
        else replace(pool, backends=tuple(b for b in pool.backends if (pool.name, b.name) in backends))
        for pool in status.pools
        if pool.name in whole | of_backends
    ]  # fmt: skip
    shown = [pool for pool in shown if pool.backends]  # a family in which no named backend is
    kept = [(pool.name, b.name) for pool in shown for b in pool.backends]
    overlay = status.reading.overlay
    if overlay is not None:
        overlay = Overlay(tuple(a for a in overlay if (a.pool, a.backend) in kept))
    return replace(
        status, pools=shown, reading=replace(status.reading, overlay=overlay),
        vips=[vip for vip in status.vips if vip.name in vips or vip.pool in pools],
    )  # fmt: skip


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
