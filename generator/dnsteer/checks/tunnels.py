# SPDX-License-Identifier: Apache-2.0
"""The switch's end of tunnels: nobody needs it, or something else of the spec has its addresses or its ports' names."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.checks.addresses import all_addresses
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.types import Address
from dnsteer.spec.tunnels import TUNNELS, tunnel_kinds

_AT: Path = ("switch", "tunnel")


def check_tunnels(scope: Scope) -> Iterator[Finding]:
    """All findings of `switch.tunnel`; what VIPs with tunnels lack is found by their mode."""
    part = scope.spec.switch.tunnel
    if part is None:
        return
    kinds = tunnel_kinds(scope.spec)
    if not kinds:
        words = ", ".join(word.value for word in TUNNELS)
        yield scope.finding(
            _AT,
            "tunnel, and no VIP whose queries go into one",
            f"a VIP with one of the forwardings {words}",
            "leave it out",
        )
    yield from _addresses(scope)
    taken: dict[str, Path] = {
        name: ("switch", "uplinks", uplink) if name == uplink else ("switch", "uplinks", uplink, "members", name)
        for uplink, found in scope.spec.switch.uplinks.items()
        for name in (uplink, *(found.members or ()))
    }
    taken |= {name: ("switch", "ports", name) for name in scope.spec.switch.ports}
    if scope.spec.switch.probe is not None:
        taken[scope.spec.switch.probe.port] = ("switch", "probe", "port")
    for kind in kinds.values():
        if kind.port in taken:
            yield scope.finding(
                taken[kind.port],
                f'"{kind.port}", the name of the port that makes tunnels',
                "another name",
                f"dnsteer adds a port of this name for forwarding {kind.type}",
            )


def _addresses(scope: Scope) -> Iterator[Finding]:
    """Sources of tunnels that another object of the spec has as its address. Those of backends are found by the mode."""
    switch = scope.spec.switch
    used: dict[Address, Path] = {address: path for path, address in all_addresses(scope) if path[0] != "pools"}
    if switch.probe is not None:
        used |= {own.ip: ("switch", "probe", "addresses", i) for i, own in enumerate(switch.probe.addresses)}
    own = switch.tunnel
    for key in ("ipv4", "ipv6"):
        address = getattr(own, key)
        if address is not None and address in used:
            yield scope.finding(
                (*_AT, key),
                f"{address}, which is in use",
                "an address that is used for nothing else",
                f"see {scope.where(used[address])}",
            )
