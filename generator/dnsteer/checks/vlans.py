# SPDX-License-Identifier: Apache-2.0
"""Rules for VLANs: each backend and each neighbour is in one network, and what cannot be served with a tag is refused."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.spec import derived
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.families import FAMILIES
from dnsteer.spec.model.next_hop import RouterAddresses
from dnsteer.spec.model.types import Address
from dnsteer.spec.networks import has_vlans, own_vlan, show_vlan, vlan_of
from dnsteer.spec.tunnels import TUNNELS


def check_vlans(scope: Scope) -> Iterator[Finding]:
    """All findings about VLANs; none where the spec names none."""
    switch = scope.spec.switch
    if not has_vlans(scope.spec):
        return
    if switch.vlans == "any":
        yield scope.finding(
            ("switch", "vlans"),
            "any, and networks with a VLAN of their own",
            "no such key: which VLANs are served is said by vlan",
            "leave it out, or leave out vlan of all uplinks, ports and backends",
        )
    if switch.extension is not None:
        yield scope.finding(
            ("switch", "extension"),
            "the extension, and networks with a VLAN of their own",
            "untagged networks",
            "the extension's program looks for IP behind Ethernet and writes no tags: leave the tags to the ports of the "
            "switch in front, or serve these VIPs by dsr or nat with selection source-port",
        )
    yield from _of_several_uplinks(scope)
    yield from _backends(scope)
    yield from _routers(scope)


def _of_several_uplinks(scope: Scope) -> Iterator[Finding]:
    """A backend behind all uplinks whose VLAN is said by none."""
    switch = scope.spec.switch
    vlans = {name: show_vlan(own_vlan(switch, name)) for name in switch.uplinks}
    if len(set(vlans.values())) < 2:
        return
    shown = ", ".join(f"{name} {vlan}" for name, vlan in vlans.items())
    tunneled = {vip.pool for vip in scope.spec.vips.values() if vip.forwarding in TUNNELS}
    for name, pool in scope.spec.pools.items():
        for i, backend in enumerate(pool.backends):
            if backend.port is None and backend.vlan is None and name not in tunneled:
                yield scope.finding(
                    ("pools", name, "backends", i),
                    f"no vlan and no port, with uplinks of several VLANs ({shown})",
                    "the key vlan or port",
                    "it is behind the uplink that the query came in by, and it has one network",
                )


def _backends(scope: Scope) -> Iterator[Finding]:
    """An address of backends in two networks: what the switch sends there goes to one of them."""
    first: dict[Address, tuple[int, Path]] = {}
    for name, pool in scope.spec.pools.items():
        for i, backend in enumerate(pool.backends):
            vlan = vlan_of(scope.spec.switch, backend)
            path: Path = ("pools", name, "backends", i)
            for family in FAMILIES:
                address = derived.address_of(backend, family)
                if address is None:
                    continue
                other, where = first.setdefault(address, (vlan, (*path, family)))
                if other != vlan:
                    yield scope.finding(
                        (*path, "vlan") if backend.vlan is not None else path,
                        f"{address} in {show_vlan(vlan)}, which is in {show_vlan(other)} in another place",
                        "one network for each address",
                        f"give it the same vlan, or addresses of their own; see {scope.where(where)}",
                    )


def _routers(scope: Scope) -> Iterator[Finding]:
    """A router's address at uplinks of several VLANs: its MAC address is found out in one of them."""
    switch = scope.spec.switch
    first: dict[Address, tuple[int, Path]] = {}
    for name, uplink in switch.uplinks.items():
        router = uplink.next_hop
        for family in FAMILIES if isinstance(router, RouterAddresses) else ():
            address = router.address(family) if isinstance(router, RouterAddresses) else None
            path: Path = ("switch", "uplinks", name, "next_hop", family)
            if address is None:
                continue
            vlan, where = first.setdefault(address, (own_vlan(switch, name), path))
            if vlan != own_vlan(switch, name):
                yield scope.finding(
                    path,
                    f"{address} in {show_vlan(own_vlan(switch, name))}, and in {show_vlan(vlan)} at another uplink",
                    "a router's address in one network",
                    "one MAC address is found out for an address, in one VLAN: give the router's address here, or its "
                    f"MAC address; see {scope.where(where)}",
                )
