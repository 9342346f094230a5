# SPDX-License-Identifier: Apache-2.0
"""Prefixes of `switch.routed` that cannot be what routers send here."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.spec import derived
from dnsteer.spec.announced import announced_prefixes
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.types import Address, Network


def check_routed(scope: Scope) -> Iterator[Finding]:
    """A prefix within another one, and a VIP or an announced prefix that none holds."""
    prefixes = scope.spec.switch.routed
    if prefixes is None:
        return
    where: Path = ("switch", "routed")
    for i, prefix in enumerate(prefixes):
        for j, other in enumerate(prefixes):
            if derived.contains(other, prefix) and (prefix != other or j < i):
                found = f"{prefix} a second time" if prefix == other else f"{prefix}, which is within {other}"
                yield scope.finding(
                    (*where, i),
                    found,
                    "each prefix once, and none within another",
                    f"remove it: {where[-1]}[{j}] covers it",
                )
                break
    for i, one in enumerate(announced_prefixes(scope.spec)):
        if not any(derived.contains(prefix, one.prefix) for prefix in prefixes):
            yield scope.finding(
                ("switch", "announce", "prefixes", i),
                f"{one.prefix}, which is in no prefix of switch.routed",
                "a prefix that routers send here",
                f"add it there; see {scope.where(where)}",
            )
    for name, vip in scope.spec.vips.items():
        for i, address in enumerate(vip.addresses):
            if not any(_holds(prefix, address) for prefix in prefixes):
                yield scope.finding(
                    ("vips", name, "addresses", i),
                    f"{address}, which is in no prefix of switch.routed",
                    "an address that routers send here",
                    f"add its prefix there; see {scope.where(where)}",
                )


def _holds(prefix: Network, address: Address) -> bool:
    return address.version == prefix.version and address in prefix
