# SPDX-License-Identifier: Apache-2.0
"""Backups of pools that cannot work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dnsteer.modes import MODES
from dnsteer.spec import derived
from dnsteer.spec.errors import Finding, Path, near
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.families import FAMILIES, FAMILY_NAMES
from dnsteer.spec.model.spec import Backup, Pool, Spec


def check_backups(scope: Scope) -> Iterator[Finding]:
    """All findings about backups. Whether their backends can serve the VIPs, all other checks say once they are added."""
    for name, pool in scope.spec.pools.items():
        if pool.backup is not None:
            base: Path = ("pools", name, "backup")
            yield from _pool(scope, base, name, pool, pool.backup)


def as_written(finding: Finding, spec: Spec) -> Finding:
    """Return a finding about a backend that a backup adds to a pool as one about where *spec* has that backend."""
    match finding.path:
        case ("pools", str(name), "backends", int(index), *rest):
            pool = spec.pools[name]
            own = len(pool.backends)
            if pool.backup is not None and index >= own:
                path: Path = ("pools", pool.backup.pool, "backends", index - own, *rest)
                return replace(finding, path=path, found=f"{finding.found}, as a backup of pool {name}")
    return finding


def _pool(scope: Scope, base: Path, name: str, pool: Pool, backup: Backup) -> Iterator[Finding]:
    pools = scope.spec.pools
    at: Path = (*base, "pool") if (*base, "pool") in scope.doc.lines else base  # its name may stand alone
    other = pools.get(backup.pool)
    if other is None:
        others = [n for n in pools if n != name]
        hint = (
            near(backup.pool, others) if others else "there is no other pool: add one with the backends that stand by"
        )
        yield scope.finding(at, f'"{backup.pool}"', "the name of a pool", hint)
    elif other is pool:
        yield scope.finding(
            at, f'"{backup.pool}", the pool itself', "another pool", "its own backends are in it already"
        )
    elif other.backup is not None:
        yield scope.finding(
            at,
            f'"{backup.pool}", which has a backup itself',
            "a pool without a backup",
            f"backups do not follow one another; see {scope.where(('pools', backup.pool, 'backup'))}",
        )
    else:
        yield from _families(scope, at, name, other, backup)
    takers = sum(1 for b in pool.backends if b.weight)
    if backup.below > takers:
        yield scope.finding(
            (*base, "below"),
            f"{backup.below}, and {takers} backends with a weight",
            f"a number from 1 to {max(takers, 1)}",
            "the backup would always be in use: give the pool these backends instead",
        )
    if not pool.health:
        yield scope.finding(
            base,
            "a backup of a pool without health checks",
            "the key health",
            "dnsteer agent puts a backup into service when backends fail their checks: health: {check: dns}",
        )


def _families(scope: Scope, path: Path, name: str, other: Pool, backup: Backup) -> Iterator[Finding]:
    """One finding for each family that VIPs of the pool have addresses in and the backup does not serve."""
    for asked in FAMILIES:
        for title, vip in scope.spec.vips.items():
            if vip.pool != name or not any(derived.family_of(a) == asked for a in vip.addresses):
                continue
            reached = MODES[vip.forwarding].reach(asked)
            if reached != "any" and not any(b.weight for b in derived.members(other, reached)):
                yield scope.finding(
                    path,
                    f'"{backup.pool}", without a backend for {FAMILY_NAMES[reached]}',
                    f"a pool with a backend that has an {FAMILY_NAMES[reached]} address and a weight",
                    f"VIP {title} has {FAMILY_NAMES[asked]} addresses, which nobody would answer",
                )
                break
