# SPDX-License-Identifier: Apache-2.0
"""Neighbours by address: routers and backends whose MAC addresses are found out."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address

from dnsteer.checks.switch import families_that_return
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.families import FAMILY_NAMES
from dnsteer.spec.model.next_hop import RouterAddresses
from dnsteer.spec.model.types import Address
from dnsteer.spec.neighbors import asked_address


def check_neighbors(scope: Scope) -> Iterator[Finding]:
    """All findings about next hops that are given by address, and about `mac: auto`."""
    switch = scope.spec.switch
    used: dict[Address, str] = {a: f"VIP {name}" for name, vip in scope.spec.vips.items() for a in vip.addresses}
    used |= dict.fromkeys(switch.gateways, "a gateway of the switch itself")
    for pool in scope.spec.pools.values():
        used |= {a: f"backend {b.name}" for b in pool.backends for a in (b.ipv4, b.ipv6) if a is not None}
    needs = families_that_return(scope.spec)
    routers: dict[Address, tuple[Path, str | None]] = {}
    for name, uplink in switch.uplinks.items():
        router, path = uplink.next_hop, ("switch", "uplinks", name, "next_hop")
        if not isinstance(router, RouterAddresses):
            continue
        yield from _common(scope, path, "an address")
        for family, why in needs.items():
            if router.address(family) is None:
                yield scope.finding(
                    path,
                    f"no {FAMILY_NAMES[family]} address",
                    f"the key {family}",
                    f"{why}: give the address of the router that its answers over {FAMILY_NAMES[family]} leave to",
                )
        for key, address in (("ipv4", router.ipv4), ("ipv6", router.ipv6)):
            if address is None:
                continue
            yield from _routers_of_several_uplinks(scope, routers, (*path, key), address, router.mac)
            if address in used:
                found = f"{address}, which is that of {used[address]}"
                yield scope.finding((*path, key), found, "the address of a router", "give the router's own")
            else:
                yield from _on_link(scope, (*path, key), address)
    for pool_name, pool in scope.spec.pools.items():
        for i, backend in enumerate(pool.backends):
            if not backend.follows_mac:
                continue
            at: Path = ("pools", pool_name, "backends", i)
            address_text, family = asked_address(backend)
            yield from _common(scope, (*at, "mac"), "auto")
            if not address_text:
                yield scope.finding(
                    (*at, "mac"), "auto without an address", "ipv4 or ipv6", "give the backend's address"
                )
            else:
                yield from _on_link(scope, (*at, family), ip_address(address_text))


def _routers_of_several_uplinks(
    scope: Scope, routers: dict[Address, tuple[Path, str | None]], path: Path, address: Address, mac: str | None
) -> Iterator[Finding]:
    """An address of routers at two uplinks: one MAC address is found out for it, and so it must be the same router."""
    first, of_first = routers.setdefault(address, (path, mac))
    if first == path:
        return
    if address.is_link_local:
        yield scope.finding(
            path,
            f"{address}, which is also that of the router at another uplink",
            "an address that one router has",
            "a link-local address may be another router's on each link, and one MAC address is found out for it: give "
            f"addresses in networks of switch.probe, or MAC addresses; see {scope.where(first)}",
        )
    elif mac != of_first:
        ours, theirs = (f"mac {each}" if each else "no mac" for each in (mac, of_first))
        yield scope.finding(
            path,
            f"{ours} for {address}, which has {theirs} at another uplink",
            "the same router at every uplink",
            f"make them the same; see {scope.where(first)}",
        )


def _common(scope: Scope, path: Path, found: str) -> Iterator[Finding]:
    """Where no MAC address can be found out at all."""
    switch = scope.spec.switch
    if switch.probe is None:
        yield scope.finding(
            path,
            f"{found} without switch.probe",
            "the key switch.probe",
            "neighbours are asked by the port for probes: probe: {addresses: [192.0.2.9/24]}, or give a MAC address",
        )
    if switch.extension is not None:
        yield scope.finding(
            path,
            f"{found} with switch.extension",
            "a MAC address",
            "the extension's program is not changed when a neighbour moves: give MAC addresses, or leave the extension out",
        )


def _on_link(scope: Scope, path: Path, address: Address) -> Iterator[Finding]:
    """An address that nobody on a network of the port for probes answers for."""
    probe = scope.spec.switch.probe
    if probe is None or address.is_link_local:
        return
    networks = [own.network for own in probe.addresses if own.version == address.version]
    here = [network for network in networks if address in network]
    if any(own.ip == address for own in probe.addresses):
        yield scope.finding(path, f"{address}, an address of switch.probe", "another station's", "give its own address")
    elif not here:
        known = f", which {'is' if len(networks) == 1 else 'are'} {', '.join(map(str, networks))}" if networks else ""
        yield scope.finding(
            path,
            f"{address}, in no network of switch.probe{known}",
            "an address in one of them",
            f"add one of that network to switch.probe.addresses, such as {_example(address)}, or give a MAC address",
        )


def _example(address: Address) -> str:
    """An address in the usual network around another one."""
    length, last = (24, 8) if address.version == 4 else (64, 64)
    beside = (int(address) >> last << last) + (9 if int(address) % (1 << last) != 9 else 8)
    return f"{IPv4Address(beside) if address.version == 4 else IPv6Address(beside)}/{length}"
