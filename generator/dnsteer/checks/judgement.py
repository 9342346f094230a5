"""Keys of a pool about how the agent judges health that cannot work."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.scope import Scope


def check_judgement(scope: Scope) -> Iterator[Finding]:
    """All findings about `keep_at_least`."""
    for name, pool in scope.spec.pools.items():
        least, path = pool.keep_at_least, ("pools", name, "keep_at_least")
        if not least:
            continue
        if not pool.health:
            yield scope.finding(
                path, f"{least} for a pool without health checks", "the key health",
                "without checks the agent takes nobody out: add health: {check: dns}, or leave keep_at_least out",
            )  # fmt: skip
        takers = sum(1 for backend in pool.backends if backend.weight)
        joining = scope.spec.pools.get(pool.backup.pool) if pool.backup is not None else None
        helpers = sum(1 for backend in joining.backends if backend.weight) if joining is not None else 0
        if least >= takers + helpers:
            own = f"{takers} backends with a weight" + (f" and {helpers} of its backup" if helpers else "")
            yield scope.finding(
                path, f"{least}, and {own}", f"a number from 0 to {max(takers + helpers - 1, 0)}",
                "nobody would ever be taken out, not even one that is dead",
            )  # fmt: skip
        if pool.backup is not None and least > pool.backup.below:
            below: Path = ("pools", name, "backup")
            yield scope.finding(
                path, f"{least}, and a backup that joins below {pool.backup.below}",
                f"a number from 0 to {pool.backup.below}",
                f"backends that fail would stay in service while the backup stands by: set below: {least}; see "
                f"{scope.where(below)}",
            )  # fmt: skip
