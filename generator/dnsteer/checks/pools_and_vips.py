# SPDX-License-Identifier: Apache-2.0
"""Rules that pools, VIPs and services must keep so that they can work: references, limits, what modes and flavors lack."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.modes import MODES, NamedVip
from dnsteer.spec import derived
from dnsteer.spec.errors import Finding, Path, near
from dnsteer.spec.loaded import Conflict, Scope
from dnsteer.spec.model.families import FAMILIES, FAMILY_NAMES, Family
from dnsteer.spec.model.limits import MAX_COPIES
from dnsteer.spec.model.spec import AUTO, MAX_SLOTS, Backend, Pool, Protocol, Selection, Vip
from dnsteer.spec.model.types import Address


def check_pools(scope: Scope) -> Iterator[Finding]:
    """All findings inside of single pools."""
    pools = scope.spec.pools
    if len(pools) > derived.MAX_POOLS:
        yield scope.finding(
            ("pools",), f"{len(pools)} pools", f"at most {derived.MAX_POOLS}", "split the spec by switch"
        )
    addresses = {a for pool in pools.values() for b in pool.backends for a in (b.ipv4, b.ipv6) if a is not None}
    if len(addresses) > derived.MAX_BACKEND_ADDRESSES:
        yield scope.finding(
            ("pools",),
            f"{len(addresses)} backend addresses",
            f"at most {derived.MAX_BACKEND_ADDRESSES}",
            "split the spec by switch",
        )
    for name, pool in pools.items():
        base: Path = ("pools", name)
        for i, backend in enumerate(pool.backends):
            yield from _backend(scope, (*base, "backends", i), backend)
        if not any(b.weight for b in pool.backends):
            yield scope.finding(
                (*base, "backends"),
                "no weight above 0",
                "at least one backend that takes queries",
                "weight 0 takes none; state: down takes a backend out and keeps its share",
            )
        yield from _selection(scope, base, pool)
        yield from _passes(scope, name, pool)
        yield from _client_prefix(scope, base, pool)


def _backend(scope: Scope, path: Path, backend: Backend) -> Iterator[Finding]:
    switch = scope.spec.switch
    if backend.ipv4 is None and backend.ipv6 is None:
        yield scope.finding(
            path,
            'neither "ipv4" nor "ipv6"',
            "an address of at least one family",
            "a backend takes the queries of the families that it has an address in",
        )
    if backend.port is not None and backend.port not in switch.uplinks and backend.port not in switch.ports:
        yield scope.finding(
            (*path, "port"),
            f'"{backend.port}"',
            "the name of an uplink or port of the switch",
            near(backend.port, [*switch.uplinks, *switch.ports]),
        )


def _selection(scope: Scope, base: Path, pool: Pool) -> Iterator[Finding]:
    flavor = scope.spec.switch.flavor
    limits = derived.FLAVOR_LIMITS[flavor]
    hashed = pool.selection is Selection.DP_HASH
    if hashed and limits.why_no_dp_hash:
        yield scope.finding(
            (*base, "selection"),
            f'"dp-hash" with flavor {flavor.value}',
            "a selection that the flavor offloads",
            f"{limits.why_no_dp_hash}; use source-port, or flavor ovs-netdev to forward in software",
        )
        return
    if hashed and pool.slots is not None and pool.slots > limits.max_dp_hash_slots:
        yield scope.finding(
            (*base, "slots"),
            str(pool.slots),
            f"at most {limits.max_dp_hash_slots} for dp-hash with flavor {flavor.value}",
            f"source-port goes up to {MAX_SLOTS}",
        )
        return
    most = derived.slot_count(scope.spec, pool)
    takers = sum(1 for b in pool.backends if b.weight)
    if takers <= most:
        return
    need = 1 << (takers - 1).bit_length()
    highest = derived.most_slots(scope.spec, pool)
    hint = f"set slots: {need}"
    if need > highest:
        hint = f"split the pool: {pool.selection.value} with flavor {flavor.value} has at most {highest} slots"
    yield scope.finding(
        (*base, "slots") if pool.slots else (*base, "backends"),
        f"{most} slots for {takers} backends with a weight",
        "a slot for every backend with a weight",
        hint,
    )


_LEAST_BEFORE: dict[Family, int] = {"ipv4": 8, "ipv6": 16}
"""Bits of addresses that are alike for nearly all clients, and select no slot."""


def _client_prefix(scope: Scope, base: Path, pool: Pool) -> Iterator[Finding]:
    """A prefix of clients that selects nothing, or too short for the slots."""
    path = (*base, "client_prefix")
    if pool.selection is not Selection.SOURCE_ADDRESS:
        if pool.client_prefix is not None:
            yield scope.finding(
                path,
                f"client_prefix with selection {pool.selection.value}",
                "no client_prefix with this selection",
                "only selection: source-address looks at clients' prefixes",
            )
        return
    slots = derived.slot_count(scope.spec, pool)
    bits = slots.bit_length() - 1
    for family, before in _LEAST_BEFORE.items():
        length = derived.client_prefix(pool, family)
        if length - bits < before:
            yield scope.finding(
                (*path, family),
                str(length),
                f"at least {before + bits} with {slots} slots",
                f"the slot is its last {bits} bits, and the first {before} bits of addresses tell no clients apart",
            )


_WHY_NO_PASSES = {
    Selection.DP_HASH: "the group that hashes makes a second pass in any case",
    Selection.CLIENT: "the extension selects the slot",
    Selection.SPRAY: "the extension selects the slot",
}


def _passes(scope: Scope, name: str, pool: Pool) -> Iterator[Finding]:
    """A finding where the switch has no say in the passes of a pool, or none in its slots."""
    if pool.passes == AUTO:
        return
    path: Path = ("pools", name, "passes")
    word = pool.selection.value
    if pool.selection in _WHY_NO_PASSES:
        hint = f"{_WHY_NO_PASSES[pool.selection]}: remove it, or use selection: source-port"
        yield scope.finding(path, f"{pool.passes} with selection {word}", f"no passes with {word}", hint)
        return
    modes = {vip.forwarding for vip in scope.spec.vips.values() if vip.pool == name}
    if pool.passes == 2 and modes and all(MODES[mode].uses_extension(pool) for mode in modes):
        words = " and ".join(sorted(mode.value for mode in modes))
        hint = "the extension's program has the slots of these VIPs, once for all: remove it"
        yield scope.finding(path, f"2, and all VIPs of the pool with forwarding {words}", "passes: 1, or none", hint)


def check_vips(scope: Scope) -> Iterator[Finding]:
    """All findings of what a VIP asks of its pool."""
    serves = {name: {f: _can_serve(pool, f) for f in FAMILIES} for name, pool in scope.spec.pools.items()}
    for name, vip in scope.spec.vips.items():
        base: Path = ("vips", name)
        pool, mode = scope.spec.pools.get(vip.pool), MODES[vip.forwarding]
        if pool is None:
            yield scope.finding(
                (*base, "pool"), f'"{vip.pool}"', "the name of a pool", near(vip.pool, scope.spec.pools)
            )
        elif any(serves[vip.pool].values()):  # a pool that serves neither family has a finding of its own
            yield from _families(scope, base, vip, serves[vip.pool])
        if vip.errors == "copy" and pool is not None:
            yield from _errors(scope, (*base, "errors"), vip, pool)
        for i, entry in enumerate(vip.services):
            if not mode.translates_ports and not isinstance(entry, str) and entry.target_port is not None:
                way, why = vip.forwarding.value, mode.changed_by
                yield scope.finding(
                    (*base, "services", i, "target_port"),
                    f"{entry.target_port} with forwarding {way}",
                    f"no target_port with {way}",
                    f"{why} changes no port: remove it, or use forwarding: nat",
                )


def _errors(scope: Scope, path: Path, vip: Vip, pool: Pool) -> Iterator[Finding]:
    """Copies of ICMP errors that no backend could use, or too many of them."""
    way, why = vip.forwarding.value, MODES[vip.forwarding].why_no_errors
    if why:
        yield scope.finding(
            path,
            f"copy with forwarding {way}",
            f"drop, or no errors key with {way}",
            f"{why}; set tcp_mtu_probing on the servers, and max-udp-size 1232 (docs/icmp.md)",
        )
    elif len(pool.backends) > MAX_COPIES:
        yield scope.finding(
            path,
            f"copy for the {len(pool.backends)} backends of pool {vip.pool}",
            f"at most {MAX_COPIES} backends that get a copy",
            "leave it out: set tcp_mtu_probing on the servers, and max-udp-size 1232 (docs/icmp.md)",
        )


def _can_serve(pool: Pool, family: Family) -> bool:
    return any(b.weight for b in derived.members(pool, family))


def _lacking(pool: Pool, family: Family) -> str:
    return "a weight above 0" if derived.members(pool, family) else f"an {family} address"


def _families(scope: Scope, base: Path, vip: Vip, serves: dict[Family, bool]) -> Iterator[Finding]:
    """One finding for each family that the VIP has addresses in and the pool does not serve."""
    for asked in FAMILIES:
        found = [i for i, a in enumerate(vip.addresses) if derived.family_of(a) == asked]
        family = MODES[vip.forwarding].reach(asked)
        if family != "any" and found and not serves[family]:
            shown = ", ".join(str(vip.addresses[i]) for i in found[:3]) + (", ..." if len(found) > 3 else "")
            yield scope.finding(
                (*base, "addresses", found[0]),
                f"{shown}, and pool {vip.pool} without a backend for {FAMILY_NAMES[family]}",
                f"a pool with a backend that has an {FAMILY_NAMES[family]} address and a weight",
                f"give its backends {_lacking(scope.spec.pools[vip.pool], family)}, or leave this address out",
            )


def check_modes(scope: Scope) -> Iterator[Finding]:
    """All findings of the modes. VIPs without a pool have a finding of their own."""
    pools = scope.spec.pools
    for word, mode in MODES.items():
        vips = [
            NamedVip(name, vip, pools[vip.pool])
            for name, vip in scope.spec.vips.items()
            if vip.forwarding is word and vip.pool in pools
        ]
        yield from mode.check(scope, vips)


def check_services(scope: Scope) -> Iterator[Finding]:
    """All findings of services that conflict."""
    too_many = list(_limits(scope))
    yield from too_many
    if not too_many:
        yield from _duplicates(scope)


def _limits(scope: Scope) -> Iterator[Finding]:
    """Limits of what a switch, and the check of each slot, can take."""
    vips = scope.spec.vips.values()
    count, most = sum(len(derived.endpoints(v)) * len(v.addresses) for v in vips), derived.MAX_SERVICES
    if count > most:
        what = "services (addresses times protocols and ports)"
        yield scope.finding(("vips",), f"{count} {what}", f"at most {most}", "each is a flow: split the spec by switch")


def _duplicates(scope: Scope) -> Iterator[Finding]:
    """The same address, protocol and port twice: one finding for a pair of VIPs, or of entries of one VIP."""
    seen: dict[Address, dict[tuple[Protocol, int], Path]] = {}
    pairs: dict[tuple[Path, Path], Conflict] = {}
    for name, vip in scope.spec.vips.items():
        addresses = {address: seen.setdefault(address, {}) for address in vip.addresses}
        for endpoint in derived.endpoints(vip):
            path: Path = ("vips", name, "services", endpoint.index)
            for address, services in addresses.items():
                earlier = services.setdefault((endpoint.protocol, endpoint.port), path)
                if earlier is path:
                    continue
                key = (path, earlier) if earlier[1] == name else (path[:2], earlier[:2])
                pair = pairs.setdefault(key, Conflict(path, earlier))
                pair.shared.append(f"{address} port {endpoint.port}/{endpoint.protocol.value}")
    for pair in pairs.values():
        yield scope.finding(
            pair.path,
            f"{pair.shown()} a second time",
            "each address, protocol and port once",
            f"see {scope.where(pair.earlier)}",
        )
