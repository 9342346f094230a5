# SPDX-License-Identifier: Apache-2.0
"""What backends send and get for themselves (`switch.pass`): their own addresses, and the ports that are not for it."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from typing import NamedTuple

from dnsteer.spec import derived
from dnsteer.spec.errors import Path
from dnsteer.spec.model.families import FAMILIES, Family
from dnsteer.spec.model.spec import Backend, Spec
from dnsteer.spec.model.types import Network
from dnsteer.spec.networks import networks_of
from dnsteer.spec.tunnels import tunnel_pools

_USUAL_NETWORK: dict[Family, int] = {"ipv4": 24, "ipv6": 64}
"""Length of the prefix that routers send here for a backend's address, where `switch.routed` does not say it."""


class OwnAddress(NamedTuple):
    """An address of a backend, with the first backend that has it, and its place in the spec."""

    address: str
    family: Family
    backend: Backend
    pool: str
    path: Path


def own_addresses(spec: Spec) -> Iterator[OwnAddress]:
    """Yield the addresses of backends whose own traffic passes, each once; none where it does not.

    Backends at the ends of tunnels are behind routers, so that nothing of theirs comes here.
    """
    seen: set[str] = set()
    away = tunnel_pools(spec)
    for name, pool in spec.pools.items() if spec.switch.own_traffic is not None else ():
        for i, backend in enumerate(pool.backends if name not in away else ()):
            for family in FAMILIES:
                found = derived.address_of(backend, family)
                if found is not None and str(found) not in seen:
                    seen.add(str(found))
                    yield OwnAddress(str(found), family, backend, name, ("pools", name, "backends", i))


def has_outside(spec: Spec) -> bool:
    """Whether routers reach backends through the switch: there is a network of an uplink that has no backends in it."""
    return any(network.outside for network in networks_of(spec))


def served_ports(spec: Spec) -> dict[str, list[int]]:
    """The ports at which backends serve VIPs, by protocol: of those, nothing is traffic of their own.

    Port 0 is one of them, which nobody has: Open vSwitch shows it where a header is damaged.
    """
    workers: dict[str, int] = dict.fromkeys(spec.pools, 1)
    for name, pool in spec.pools.items():
        workers[name] += max(backend.port_offset for backend in pool.backends)
    found: dict[str, set[int]] = {"udp": {0}, "tcp": {0}}
    for vip in spec.vips.values():
        for e in derived.endpoints(vip):
            found[e.protocol.value] |= {e.target_port + worker for worker in range(workers[vip.pool])}
    return {protocol: sorted(ports) for protocol, ports in found.items()}


def own_prefixes(spec: Spec) -> list[Network]:
    """What routers send here for backends' own addresses: the prefixes of `switch.routed` that hold them, else the /24 or
    /64 around each."""
    found: dict[Network, None] = {}
    for own in own_addresses(spec):
        host = ip_network(own.address)
        routed = [prefix for prefix in spec.switch.routed or () if derived.contains(prefix, host)]
        found |= dict.fromkeys(routed or [ip_network((own.address, _USUAL_NETWORK[own.family]), strict=False)])
    return list(found)
