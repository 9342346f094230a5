# SPDX-License-Identifier: Apache-2.0
"""Conflicts between addresses and between servers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from dnsteer.modes import MODES
from dnsteer.spec import derived
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.families import FAMILIES
from dnsteer.spec.model.probe import end_of_network
from dnsteer.spec.model.spec import Backend, Pool
from dnsteer.spec.model.types import TRANSLATED, Address
from dnsteer.spec.workers import Worker


def check_addresses(scope: Scope) -> Iterator[Finding]:
    """All findings of addresses and servers that conflict."""
    yield from _duplicate_addresses(scope)
    yield from _roles(scope)
    direct = {vip.pool for vip in scope.spec.vips.values() if MODES[vip.forwarding].by_mac}
    for name, pool in scope.spec.pools.items():
        yield from _same_backend(scope, name, pool, name in direct)
    yield from _inconsistent_servers(scope)


def check_reachable(scope: Scope) -> Iterator[Finding]:
    """All findings of addresses to which no packets come."""
    yield from _ends_of_networks(scope)
    yield from _translated(scope)


def _duplicate_addresses(scope: Scope) -> Iterator[Finding]:
    """An address twice in one list."""
    lists: list[tuple[Path, list[Address]]] = [(("switch", "gateways"), scope.spec.switch.gateways)]
    lists += [(("vips", name, "addresses"), vip.addresses) for name, vip in scope.spec.vips.items()]
    for path, addresses in lists:
        if len(set(addresses)) == len(addresses):
            continue
        seen: dict[Address, int] = {}
        for i, address in enumerate(addresses):
            first = seen.setdefault(address, i)
            if first != i:
                yield scope.finding(
                    (*path, i),
                    f"{address} a second time",
                    "each address once",
                    f"remove it: it is {path[-1]}[{first}] already",
                )


def _roles(scope: Scope) -> Iterator[Finding]:
    """One address has one role: gateway, VIP or backend. One finding for an address and a pair of roles."""
    spec = scope.spec
    gateways: dict[Address, Path] = {}
    vips: dict[Address, Path] = {}
    backends: dict[Address, Path] = {}
    for i, address in enumerate(spec.switch.gateways):
        gateways.setdefault(address, ("switch", "gateways", i))
    for name, vip in spec.vips.items():
        for i, address in enumerate(vip.addresses):
            vips.setdefault(address, ("vips", name, "addresses", i))
    for name, pool in spec.pools.items():
        for i, backend in enumerate(pool.backends):
            for family in FAMILIES:
                own = derived.address_of(backend, family)
                if own is not None:
                    backends.setdefault(own, ("pools", name, "backends", i, family))
    dsr = "servers have an address of their own besides the VIP: give that address here; see {}"
    for word, advice, ours, theirs in (
        ("a VIP's", "a VIP cannot be a gateway; see {}", gateways, vips),
        ("a gateway's", "a gateway is the switch, not a server; see {}", backends, gateways),
        ("a VIP's", dsr, backends, vips),
    ):
        for address, path in ours.items():
            if address in theirs:
                yield scope.finding(
                    path,
                    f"{address}, which is {word} address",
                    "an address that is used for nothing else",
                    advice.format(scope.where(theirs[address])),
                )


def all_addresses(scope: Scope) -> Iterator[tuple[Path, Address]]:
    """Each address that hosts send to or answer from, with its place."""
    spec = scope.spec
    for i, address in enumerate(spec.switch.gateways):
        yield ("switch", "gateways", i), address
    part = spec.switch.extension
    for family in FAMILIES if part is not None else ():
        source = getattr(part, family)
        if source is not None:
            yield ("switch", "extension", family), source
    for name, vip in spec.vips.items():
        for i, address in enumerate(vip.addresses):
            yield ("vips", name, "addresses", i), address
    for name, pool in spec.pools.items():
        for i, backend in enumerate(pool.backends):
            for family in FAMILIES:
                own = derived.address_of(backend, family)
                if own is not None:
                    yield ("pools", name, "backends", i, family), own


def _ends_of_networks(scope: Scope) -> Iterator[Finding]:
    """Network, broadcast and router anycast addresses of the networks that the addresses of probes name."""
    probe = scope.spec.switch.probe
    if probe is None:
        return
    ends = {
        address: (network, i)
        for i, network in enumerate(own.network for own in probe.addresses)
        for address in (network.network_address, network.broadcast_address)
        if end_of_network(address, network)
    }
    for path, address in all_addresses(scope):
        if address in ends:
            network, i = ends[address]
            yield scope.finding(
                path,
                f"{address}, which in {network} is {end_of_network(address, network)}",
                "an address that one host has",
                f"give another address, or correct the prefix length; see "
                f"{scope.where(('switch', 'probe', 'addresses', i))}",
            )


def _translated(scope: Scope) -> Iterator[Finding]:
    """A VIP or a gateway of the prefix that translators answer for."""
    for path, address in all_addresses(scope):
        if path[0] != "pools" and address in TRANSLATED:
            yield scope.finding(
                path,
                f"{address}, which is in {TRANSLATED}",
                "an address of a network of your own",
                "packets to this prefix go to the nearest NAT64 translator (RFC 6052), and never to this switch",
            )


@dataclass
class _BackendTraits:
    """First index of each name, address and station of a pool."""

    first: dict[tuple[str, object], int] = field(default_factory=dict)

    def shared(self, index: int, traits: list[tuple[str, object, str]]) -> dict[int, list[str]]:
        """The traits shared with earlier backends: for each such backend, what is shared."""
        out: dict[int, list[str]] = defaultdict(list)
        for kind, value, shown in traits:
            earlier = self.first.setdefault((kind, value), index)
            if earlier != index:
                out[earlier].append(shown)
        return out


def _same_backend(scope: Scope, name: str, pool: Pool, direct: bool) -> Iterator[Finding]:
    """Report two backends of a pool that are the same server, once per pair."""
    seen = _BackendTraits()
    told: set[tuple[Path, Path]] = set()
    for i, backend in enumerate(pool.backends):
        path: Path = ("pools", name, "backends", i)
        for earlier, shared in seen.shared(i, _traits(backend, direct)).items():
            first: Path = ("pools", name, "backends", earlier)
            pair = scope.doc.path_in_file(path), scope.doc.path_in_file(first)
            if pair in told:
                continue  # of two with workers, the first two that are the same
            told.add(pair)
            kinds = list(dict.fromkeys(s.split()[0] for s in shared))
            advice = "remove one of the two, or correct it"
            if kinds == ["mac"]:
                advice = (
                    "direct server return tells backends apart by MAC; raise a server's weight to give it more queries"
                )
            if kinds == ["name"] and backend.host != pool.backends[earlier].host:
                host = next(b.host for b in (backend, pool.backends[earlier]) if isinstance(b, Worker))
                advice = f"workers of {host} are called {host}.0, {host}.1 and so on: give this one another name"
            yield scope.finding(
                (*path, kinds[0]) if len(kinds) == 1 else path,
                f"{', '.join(list(dict.fromkeys(shared))[: 1 if kinds == ['name'] else None])} a second time",
                "a server of its own for each backend of a pool",
                f"{advice}; see {scope.where(first)}",
            )


def _traits(backend: Backend, direct: bool) -> list[tuple[str, object, str]]:
    """Return what identifies a backend in its pool: kind, value, and a description."""
    traits: list[tuple[str, object, str]] = [("name", backend.name, f'name "{backend.name}"')]
    if isinstance(backend, Worker):  # commands take the name of its host for all of them
        if backend.number:
            return traits  # the first one tells where they are
        traits.insert(0, ("name", backend.host, f'name "{backend.host}"'))
    for family in FAMILIES:
        address = derived.address_of(backend, family)
        if address is not None:
            traits.append(("address", address, f"{family} {address}"))
            if direct and not backend.follows_mac:
                traits.append((f"mac of {family}", (backend.mac, backend.port), f"mac {backend.mac}"))
    return traits


def _inconsistent_servers(scope: Scope) -> Iterator[Finding]:
    """A server that is in several pools, known by its address, must be the same in all."""
    seen: dict[Address, tuple[Backend, Path]] = {}
    for name, pool in scope.spec.pools.items():
        for i, backend in enumerate(pool.backends):
            path: Path = ("pools", name, "backends", i)
            told: set[str] = set()
            for family in FAMILIES:
                address = derived.address_of(backend, family)
                if address is None:
                    continue
                first, earlier = seen.setdefault(address, (backend, path))
                if earlier[1] == name:
                    continue  # the same pool: that is the rule above
                for key, here, there in (("mac", backend.mac, first.mac), ("port", backend.port, first.port)):
                    if here != there and key not in told:
                        told.add(key)
                        ours, theirs = (f"{key} {v}" if v else f"no {key}" for v in (here, there))
                        yield scope.finding(
                            (*path, key),
                            f"{ours} for {address}, which has {theirs} elsewhere",
                            "the same server in every pool",
                            f"make them the same; see {scope.where(earlier)}",
                        )
