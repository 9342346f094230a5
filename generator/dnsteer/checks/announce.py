# SPDX-License-Identifier: Apache-2.0
"""VIPs that cannot be announced as the spec says."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.spec.announced import announced_prefixes, settings_of, vips_in
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.announce import LastResort
from dnsteer.spec.model.spec import Spec, State
from dnsteer.spec.model.types import Address, Network


def check_announce(scope: Scope) -> Iterator[Finding]:
    """All findings about announcing VIPs."""
    spec = scope.spec
    yield from _prefixes(scope)
    first: dict[Address, str] = {}
    for name, vip in spec.vips.items():
        if vip.announce not in (None, "never") and spec.switch.announce is None:
            yield scope.finding(
                ("vips", name, "announce"),
                "a VIP's announce without switch.announce",
                "the key switch.announce",
                "say who announces the VIPs: announce: {via: bird}, or leave this out",
            )
        yield from _min_healthy(scope, spec, name)
        yield from _last_resort(scope, spec, name)
        for i, address in enumerate(vip.addresses):
            other = first.setdefault(address, name)
            if spec.switch.announce is not None and spec.vips[other].announce != vip.announce:
                path = ("vips", name, *(("announce",) if vip.announce is not None else ("addresses", i)))
                yield scope.finding(
                    path,
                    f"another announce for {address} than VIP {other} has",
                    "the same for both",
                    f"an address is one route; see {scope.where(('vips', other))}",
                )


def _prefixes(scope: Scope) -> Iterator[Finding]:
    """Prefixes that are written twice, are a VIP's own route, or would never be announced."""
    spec = scope.spec
    first: dict[Network, int] = {}
    for i, one in enumerate(announced_prefixes(spec)):
        path: Path = ("switch", "announce", "prefixes", i)
        vips = vips_in(spec, one.prefix)
        if (other := first.setdefault(one.prefix, i)) != i:
            yield scope.finding(
                path, f"{one.prefix} a second time", "each prefix once", f"remove it: prefixes[{other}] is the same"
            )
        elif one.prefix.prefixlen == one.prefix.max_prefixlen and vips:
            yield scope.finding(
                path,
                f"{one.prefix}, which is a VIP's own route",
                "a shorter prefix",
                "leave it out: it is announced anyway",
            )
        elif one.prefix.prefixlen == 0:
            yield scope.finding(
                path, f"{one.prefix}, which is all addresses", "a prefix of yours", "routers would send everything here"
            )
        elif len(vips) < one.min_vips:
            yield scope.finding(
                path,
                f"{one.prefix} with min_vips {one.min_vips}",
                f"at most {len(vips)}" if vips else "a prefix with an address of a VIP that is announced",
                f"announced VIPs in {one.prefix}: {len(vips)}; it would never be announced",
            )


def _min_healthy(scope: Scope, spec: Spec, name: str) -> Iterator[Finding]:
    vip = spec.vips[name]
    settings, pool = settings_of(vip), spec.pools.get(vip.pool)
    if settings is None or pool is None:
        return
    most = sum(1 for b in pool.backends if b.weight and b.state is State.UP)
    if settings.min_healthy > max(most, 1):
        yield scope.finding(
            ("vips", name, "announce", "min_healthy"),
            str(settings.min_healthy),
            f"at most {most}",
            f"backends of pool {vip.pool} that take queries: {most}; the VIP would never be announced",
        )


def _last_resort(scope: Scope, spec: Spec, name: str) -> Iterator[Finding]:
    settings, announce = settings_of(spec.vips[name]), spec.switch.announce
    resort = announce.when_none_pass if announce is not None else None
    if settings is not None and isinstance(resort, LastResort) and resort.med <= (settings.med or 0):
        yield scope.finding(
            ("switch", "announce", "when_none_pass", "med"),
            str(resort.med),
            f"more than {settings.med}",
            f"VIP {name} has that MED while it works; see {scope.where(('vips', name, 'announce', 'med'))}",
        )
