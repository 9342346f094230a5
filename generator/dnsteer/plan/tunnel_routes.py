# SPDX-License-Identifier: Apache-2.0
"""What ovs-vswitchd must know beside flows to make the tunnels of a plan: addresses, routes, and a neighbour.

Open vSwitch looks for a route to the end of each tunnel, in the kernel's table and in one of its own. Those of its own table
are used here, one for each backend, so that neither the machine's traffic nor tunnels of others go another way. It takes the
source address from the bridge's own port, and forgets its table with the process.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address, ip_interface

from dnsteer.plan.plan import Plan
from dnsteer.tables.forward import ForwardRow
from dnsteer.tables.ingress import TunnelRow


@dataclass(frozen=True, order=True)
class TunnelRoute:
    """A route to the end of a tunnel: a host's *prefix*, by a *gateway*, with a *source* address."""

    prefix: str
    gateway: str
    source: str


@dataclass(frozen=True)
class TunnelRoutes:
    """The *addresses* of the *bridge*'s own port, with their prefix lengths, the *routes*, and MAC addresses of gateways."""

    bridge: str
    addresses: tuple[str, ...]
    routes: tuple[TunnelRoute, ...]
    neighbors: tuple[tuple[str, str], ...]


def tunnel_routes(plan: Plan) -> TunnelRoutes | None:
    """Return what the plan's tunnels need; None where it has none."""
    rows = {row.family: row for row in plan.rows.of(TunnelRow)}
    if not rows:
        return None
    ends = sorted({ip_address(row.tunnel_end) for row in plan.rows.of(ForwardRow) if row.tunnel_end}, key=str)
    routes = []
    for end in ends:
        row = rows.get("ipv4" if end.version == 4 else "ipv6")
        if row is not None:
            routes.append(TunnelRoute(f"{end}/{end.max_prefixlen}", row.gateway, row.source))
    return TunnelRoutes(
        plan.bridge,
        tuple(with_length(row.source) for row in rows.values()),
        tuple(routes),
        tuple((row.gateway, row.mac) for row in rows.values() if row.mac),
    )


def with_length(source: str) -> str:
    """A source address as the bridge's own port has it, with the prefix length that holds its gateway too."""
    return str(ip_interface((source, ip_address(source).max_prefixlen - 1)))
