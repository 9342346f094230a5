"""Keys of a pool about how the agent judges health that cannot work."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.spec import Pool, State


def check_judgement(scope: Scope) -> Iterator[Finding]:
    """All findings about `keep_at_least`."""
    for name, pool in scope.spec.pools.items():
        least, path = pool.keep_at_least, ("pools", name, "keep_at_least")
        if not least:
            continue
        if not any(check.on_failure == "out" for check in pool.health or ()):
            yield scope.finding(
                path,
                f"{least} for a pool without checks that take backends out",
                "such a check in the key health",
                "without checks the agent takes nobody out: add health: {check: dns}, or leave keep_at_least out",
            )
        takers = _serving(pool)
        joining = scope.spec.pools.get(pool.backup.pool) if pool.backup is not None else None
        helpers = _serving(joining) if joining is not None else 0
        if least >= takers + helpers:
            own = f"{takers} backends that are up with a weight" + (f" and {helpers} of its backup" if helpers else "")
            yield scope.finding(
                path,
                f"{least}, and {own}",
                f"a number from 0 to {max(takers + helpers - 1, 0)}",
                "nobody would ever be taken out, not even one that is dead",
            )
        if pool.backup is not None and least > pool.backup.below:
            below: Path = ("pools", name, "backup")
            yield scope.finding(
                path,
                f"{least}, and a backup that joins below {pool.backup.below}",
                f"a number from 0 to {pool.backup.below}",
                f"backends that fail would stay in service while the backup stands by: set below: {least}; see "
                f"{scope.where(below)}",
            )


def _serving(pool: Pool) -> int:
    """How many backends of a pool take queries by the spec."""
    return sum(1 for backend in pool.backends if backend.weight and backend.state is State.UP)
