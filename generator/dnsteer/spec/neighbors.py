# SPDX-License-Identifier: Apache-2.0
"""Neighbours that the spec gives by address: which they are, and the spec with the MAC addresses at which they answer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address

from dnsteer.spec.derived import probe_uplink
from dnsteer.spec.errors import Path, some_of
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.families import FAMILIES, Family
from dnsteer.spec.model.next_hop import RouterAddresses, router_mac
from dnsteer.spec.model.spec import Backend, Spec, Switch
from dnsteer.spec.networks import own_vlan, vlan_of


@dataclass(frozen=True)
class Neighbor:
    """A neighbour that is asked for its MAC address, at a *port* of the bridge. *path* leads to it in the spec.

    *vlan* is that of its network, 0 where frames have no tag. *mac* is the address that the spec gives it all the same: the
    neighbour is watched only. Empty: it is followed.
    """

    address: str
    family: Family
    port: str
    vlan: int
    title: str
    path: Path
    mac: str = ""


def neighbors_of(spec: Spec) -> list[Neighbor]:
    """The neighbours of a spec, each once; none without a port for probes, by which they are asked.

    A router at several uplinks is asked at the first of them.
    """
    found: dict[str, Neighbor] = {}
    for neighbor in _all(spec) if spec.switch.probe is not None else ():
        found.setdefault(neighbor.address, neighbor)
    return list(found.values())


def _all(spec: Spec) -> Iterator[Neighbor]:
    path: Path
    for name, uplink in spec.switch.uplinks.items():
        router = uplink.next_hop
        if isinstance(router, RouterAddresses):
            for family in FAMILIES:
                if (address := router.address(family)) is not None:
                    path = ("switch", "uplinks", name, "next_hop")
                    title = f"next hop {address} of uplink {name}"
                    vlan = own_vlan(spec.switch, name)
                    yield Neighbor(str(address), family, name, vlan, title, path, router.mac or "")
    for pool_name, pool in spec.pools.items():
        for i, backend in enumerate(pool.backends):
            asked, family = asked_address(backend)
            if backend.follows_mac or _is_watched(spec, asked):
                title = f"{asked} of backend {backend.host} of pool {pool_name}"
                path = ("pools", pool_name, "backends", i)
                fixed = "" if backend.follows_mac else backend.mac
                port, vlan = _port_of(spec.switch, backend), vlan_of(spec.switch, backend)
                yield Neighbor(asked, family, port, vlan, title, path, fixed)


def _is_watched(spec: Spec, address: str) -> bool:
    """Whether a backend's address is asked for its MAC address though the spec gives that."""
    probe = spec.switch.probe
    if probe is None or not probe.watch or not address:
        return False
    found = ip_address(address)
    return any(found.version == own.version and found in own.network for own in probe.addresses)


def asked_address(backend: Backend) -> tuple[str, Family]:
    """The address by which a backend's MAC address is found out, and its family; empty where it has none."""
    return (str(backend.ipv4), "ipv4") if backend.ipv4 is not None else (str(backend.ipv6 or ""), "ipv6")


def _port_of(switch: Switch, backend: Backend) -> str:
    """The port by which a backend is asked: its own, or the uplink by which probes reach it."""
    return backend.port or (probe_uplink(switch, switch.probe) if switch.probe is not None else "")


def is_followed(spec: Spec) -> bool:
    """Whether a MAC address of the spec is found out, and so not known from it alone."""
    routers = (uplink.next_hop for uplink in spec.switch.uplinks.values())
    return any(isinstance(router, RouterAddresses) and not router.mac for router in routers) or any(
        backend.follows_mac for pool in spec.pools.values() for backend in pool.backends
    )


def with_macs(loaded: Loaded, macs: Mapping[str, str] | None) -> Loaded:
    """The same with the MAC addresses of neighbours, by their address; empty in place of those that are not known.

    None: it is about no switch, and each neighbour gets a stand-in.
    """
    spec = loaded.spec
    return replace(loaded, spec=spec_with_macs(spec, macs)) if is_followed(spec) else loaded


def spec_with_macs(spec: Spec, macs: Mapping[str, str] | None) -> Spec:
    """The spec of `with_macs`."""

    def found(address: str) -> str:
        return stand_in(address) if macs is None else macs.get(address, "")

    uplinks = dict(spec.switch.uplinks)
    for name, uplink in uplinks.items():
        router = uplink.next_hop
        if isinstance(router, RouterAddresses):
            own = {family: found(str(a)) for family in FAMILIES if (a := router.address(family)) is not None}
            uplinks[name] = uplink.model_copy(update={"next_hop": router.with_macs(own)})
    pools = {
        name: pool.model_copy(
            update={
                "backends": [
                    b.with_found_mac(found(asked_address(b)[0])) if b.follows_mac else b for b in pool.backends
                ]
            }
        )
        for name, pool in spec.pools.items()
    }
    switch = spec.switch.model_copy(update={"uplinks": uplinks})
    return spec.model_copy(update={"switch": switch, "pools": pools})


def stand_in(address: str) -> str:
    """A MAC address in place of one that only a switch knows: locally administered, another one for each address."""
    return "0e:" + hashlib.blake2b(address.encode(), digest_size=5).digest().hex(":")


def stand_ins_text(spec: Spec) -> str:
    """What is said where stand-ins are used; empty where none are."""
    followed = [n.title for n in neighbors_of(spec) if not n.mac]
    if not followed:
        return ""
    return f"stand-ins for MAC addresses that are found out on the switch: {some_of(followed, '; ')}"


def followed_addresses(spec: Spec) -> list[str]:
    """The addresses of neighbours whose MAC addresses are followed, each once."""
    return list(dict.fromkeys(n.address for n in neighbors_of(spec) if not n.mac))


def macs_given(before: Spec, spec: Spec) -> dict[str, str]:
    """The MAC addresses that the spec *before* gives to what *spec* follows, by the address that is followed.

    That is the router of the same uplink, and the backend of the same pool, name and address.
    """
    given: dict[str, str] = {}
    for name, uplink in spec.switch.uplinks.items():
        was, router = before.switch.uplinks.get(name), uplink.next_hop
        if was is not None and isinstance(router, RouterAddresses):
            for family in FAMILIES:
                if (address := router.address(family)) is not None and (mac := router_mac(was.next_hop, family)):
                    given[str(address)] = mac
    for name, pool in spec.pools.items():
        earlier = {b.name: b for b in before.pools[name].backends} if name in before.pools else {}
        for backend in pool.backends:
            found = earlier.get(backend.name)
            if found is None or found.follows_mac or not backend.follows_mac:
                continue
            if asked_address(found) == asked_address(backend):
                given[asked_address(backend)[0]] = found.mac
    return given
