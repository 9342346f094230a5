# SPDX-License-Identifier: Apache-2.0
"""Rules for traffic of backends' own (`switch.pass`): it has a way out, and what comes back is told from answers."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.loaded import Scope
from dnsteer.spec.networks import networks_of, own_vlan, show_vlan, vlan_of
from dnsteer.spec.own_traffic import has_outside, own_addresses
from dnsteer.spec.tunnels import tunnel_pools


def check_own_traffic(scope: Scope) -> Iterator[Finding]:
    """All findings about traffic of backends' own."""
    switch = scope.spec.switch
    path: Path = ("switch", "pass")
    limited = switch.limits is not None and "backends" in switch.limits.model_fields_set
    if switch.own_traffic is None:
        if limited:
            yield scope.finding(
                ("switch", "limits", "backends"),
                "a limit of what comes for backends' own addresses, and nothing passes to them",
                "the key pass in switch",
                "set switch.pass: backends, or leave it out",
            )
        return
    if not switch.gateways:
        yield scope.finding(
            path,
            "backends, and no gateways",
            "addresses in switch.gateways",
            "backends send by a gateway what is for others, and routers what is for them; see docs/pass.md",
        )
    elif not any(uplink.next_hop for uplink in switch.uplinks.values()):
        yield scope.finding(
            path,
            "backends, and no uplink with a next hop",
            "next_hop at an uplink",
            "give the MAC address of the router that takes what backends send",
        )
    elif not any(own_addresses(scope.spec)):
        yield scope.finding(
            path,
            "backends, which are all at the ends of tunnels",
            "a pool whose backends send by the gateways",
            "these backends are behind routers, and what they send does not come here: leave it out",
        )
    elif not has_outside(scope.spec):
        mixed = list(_mixed(scope))
        yield from mixed
        if limited and not mixed:
            yield scope.finding(
                ("switch", "limits", "backends"),
                "a limit of what comes for backends' own addresses, and the routers are in their network",
                "no such limit",
                "routers send to these backends directly, and nothing for them passes the switch: leave it out",
            )


def _mixed(scope: Scope) -> Iterator[Finding]:
    """A backend in another network than the uplinks', where others are in the uplinks' own.

    What comes from outside is told from answers by the network that it comes in by.
    """
    switch = scope.spec.switch
    first: Path | None = None
    away: Path | None = None
    tunneled = tunnel_pools(scope.spec)
    for name, pool in scope.spec.pools.items():
        for i, backend in enumerate(pool.backends if name not in tunneled else ()):
            ports = [backend.port] if backend.port else list(switch.uplinks)
            vlan = vlan_of(switch, backend)
            here: Path = ("pools", name, "backends", i)
            if any(port in switch.uplinks and own_vlan(switch, port) == vlan for port in ports):
                first = first or here
            else:
                away = away or here
    if first is None or away is None:
        return
    name = next(n.port for n in networks_of(scope.spec) if n.vips)
    network = f"the network of uplink {name} ({show_vlan(own_vlan(switch, name))})"
    yield scope.finding(
        away,
        f"a backend in another network than the uplinks', while others are in {network}",
        "with switch.pass: backends, all of them there, or none",
        "what comes from outside and answers of backends there would look alike: give those others a port or a VLAN, or "
        f"leave switch.pass out; see {scope.where(first)}",
    )
