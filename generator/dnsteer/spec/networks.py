# SPDX-License-Identifier: Apache-2.0
"""The networks that a switch serves: at each port the VLAN of the port itself, and those of the backends behind it."""

from __future__ import annotations

from typing import NamedTuple

from dnsteer.spec.model.spec import Backend, Spec, Switch
from dnsteer.spec.model.vlan import UNTAGGED
from dnsteer.spec.tunnels import tunnel_pools

NO_VLAN = 0
"""The VLAN of frames without a tag. A tag that has only a priority has this ID (IEEE 802.1Q)."""


class Network(NamedTuple):
    """The frames of a port with a VLAN ID. *vips*: neighbours there ask for VIPs; *gateways*: they ask for gateways.

    *outside*: routers send there, by a gateway, what is for backends' own addresses (`pass: backends`).
    """

    port: str
    vlan: int
    vips: bool
    gateways: bool
    outside: bool = False


def has_vlans(spec: Spec) -> bool:
    """Whether the spec says of some network which VLAN it is."""
    switch = spec.switch
    return any(p.vlan is not None for p in (*switch.uplinks.values(), *switch.ports.values())) or any(
        backend.vlan is not None for pool in spec.pools.values() for backend in pool.backends
    )


def own_vlan(switch: Switch, port: str) -> int:
    """The VLAN of an uplink or port itself."""
    named = switch.uplinks.get(port) or switch.ports.get(port)
    return number_of(named.vlan) if named is not None else NO_VLAN


def vlan_of(switch: Switch, backend: Backend) -> int:
    """The VLAN of a backend. One without a port has that of the uplinks, which is the same at all of them."""
    if backend.vlan is not None:
        return number_of(backend.vlan)
    return own_vlan(switch, backend.port or next(iter(switch.uplinks)))


def networks_of(spec: Spec) -> list[Network]:
    """The networks of each uplink, then of each port, first its own.

    Gateways are asked for where backends are; at a port that has none behind it, in its own network. Where traffic of the
    backends' own passes, routers ask for them in the network of each uplink that has no backends in it.
    """
    switch, passes = spec.switch, spec.switch.own_traffic is not None
    behind: dict[str, dict[int, None]] = {name: {} for name in (*switch.uplinks, *switch.ports)}
    away = tunnel_pools(spec)
    for name, pool in spec.pools.items():
        for backend in pool.backends if name not in away else ():
            for port in [backend.port] if backend.port else switch.uplinks:
                vlan = number_of(backend.vlan) if backend.vlan is not None else own_vlan(switch, port)
                behind.get(port, {})[vlan] = None
    found = []
    for port, vlans in behind.items():
        own = own_vlan(switch, port)
        here = vlans or {own: None}
        uplink = port in switch.uplinks
        outside = passes and uplink and own not in vlans
        if uplink or own in here:
            found.append(Network(port, own, uplink, own in here or outside, outside))
        found += (Network(port, vlan, False, True) for vlan in here if vlan != own)
    return found


def number_of(vlan: int | str | None) -> int:
    """The VLAN ID of what the spec says."""
    return vlan if isinstance(vlan, int) else NO_VLAN


def show_vlan(vlan: int) -> str:
    """A network's VLAN in words."""
    return f"VLAN {vlan}" if vlan else UNTAGGED
