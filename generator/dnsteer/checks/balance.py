"""Pools whose load cannot be balanced."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.model.spec import Pool, Selection
from dnsteer.spec.scope import Scope


def check_balance(scope: Scope) -> Iterator[Finding]:
    """All findings about the balancing of load."""
    for name, pool in scope.spec.pools.items():
        if pool.balance is not None:
            yield from _pool(scope, ("pools", name, "balance"), pool)


def _pool(scope: Scope, base: Path, pool: Pool) -> Iterator[Finding]:
    if pool.selection is Selection.SPRAY:
        yield scope.finding(
            base, "a pool with selection: spray", "another selection, or no balance",
            "each packet gets another slot, so all slots have the same load",
        )  # fmt: skip
    if sum(1 for backend in pool.backends if backend.weight) < 2:
        yield scope.finding(
            base, "a pool with one backend that has a weight", "two backends or more, or no balance",
            "its slots have nowhere else to go",
        )  # fmt: skip
