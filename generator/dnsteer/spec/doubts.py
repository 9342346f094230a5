"""What is allowed but probably not meant."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.spec import meaning
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.families import FAMILIES
from dnsteer.spec.model import Forwarding, State
from dnsteer.spec.rules import WORD
from dnsteer.spec.scope import Scope
from dnsteer.spec.types import Address


def doubts(scope: Scope) -> Iterator[Finding]:
    """All warnings of a valid spec."""
    yield from _ports(scope)
    yield from _pools(scope)
    yield from _vips(scope)


def _ports(scope: Scope) -> Iterator[Finding]:
    used = {b.port for pool in scope.spec.pools.values() for b in pool.backends}
    for name in scope.spec.switch.ports:
        if name not in used:
            yield scope.finding(
                ("switch", "ports", name), "a port that no backend uses", f"a backend with port: {name}",
                "a backend without port is asked by the uplink that the query came in by",
            )  # fmt: skip


def _pools(scope: Scope) -> Iterator[Finding]:
    spec = scope.spec
    asked = {(vip.pool, meaning.family_of(a)) for vip in spec.vips.values() for a in vip.addresses}
    used = {name for name, _ in asked}
    for name, pool in spec.pools.items():
        base: Path = ("pools", name)
        if name not in used:
            yield scope.finding(base, "a pool that no VIP uses", "a VIP with this pool")
            continue
        dark = [
            family
            for family in FAMILIES
            if (name, family) in asked
            and not any(b.weight and b.state is State.UP for b in meaning.members(pool, family))
        ]
        if dark:
            both = all((name, family) in asked and family in dark for family in FAMILIES)
            what = "every backend" if both else f"every backend for {' and '.join(WORD[f] for f in dark)}"
            yield scope.finding(
                (*base, "backends"), f"{what} down", "a backend that is up",
                "the base assignment is kept: queries still go to backends that are down",
            )  # fmt: skip


def _vips(scope: Scope) -> Iterator[Finding]:
    echo: dict[Address, str] = {}
    for name, vip in scope.spec.vips.items():
        if vip.echo:
            for address in vip.addresses:
                echo.setdefault(address, name)
    for name, vip in scope.spec.vips.items():
        if vip.forwarding is Forwarding.DSR and vip.fragments == "drop":
            yield scope.finding(
                ("vips", name, "fragments"), '"drop" with forwarding dsr', "no fragments key with dsr",
                "direct server return translates no answers, so that fragments of them are never dropped",
            )  # fmt: skip
        others = [a for a in vip.addresses if a in echo]
        if not vip.echo and others:
            yield scope.finding(
                ("vips", name, "echo"), f"false, while VIP {echo[others[0]]} with the same address says true",
                "one answer for an address", f"echo requests to {others[0]} are answered",
            )  # fmt: skip
