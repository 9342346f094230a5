"""Addresses that stand in each other's way: overlaps, duplicate services, NAT that cannot be undone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from dnsteer.spec import meaning
from dnsteer.spec.errors import Finding, Path, show_path
from dnsteer.spec.model import Forwarding, Protocol
from dnsteer.spec.rules import Rules
from dnsteer.spec.types import Address


def conflicts(rules: Rules) -> Iterator[Finding]:
    """All findings about addresses that conflict."""
    yield from _roles(rules)
    yield from _same_backend_elsewhere(rules)
    yield from _duplicate_services(rules)
    yield from _nat(rules)


def _where(rules: Rules, path: Path) -> str:
    return f"{show_path(path)} (line {rules.doc.line(path)})"


def _roles(rules: Rules) -> Iterator[Finding]:
    """One address has one role: VIP, gateway or backend."""
    spec = rules.spec
    roles: dict[Address, tuple[str, Path]] = {}
    listed: list[tuple[Address, str, Path]] = [
        (a, "a gateway", ("switch", "gateways", i)) for i, a in enumerate(spec.switch.gateways)
    ]
    for name, vip in spec.vips.items():
        listed += [(a, f"an address of VIP {name}", ("vips", name, "addresses", i)) for i, a in enumerate(vip.addresses)]
    for name, pool in spec.pools.items():
        for i, backend in enumerate(pool.backends):
            for family in meaning.FAMILIES:
                address = meaning.address_of(backend, family)
                if address is not None:
                    listed.append((address, f"backend {backend.name}", ("pools", name, "backends", i, family)))
    for address, role, path in listed:
        earlier = roles.setdefault(address, (role, path))
        both = (role.split()[0:2], earlier[0].split()[0:2])
        if earlier[1] == path or (both[0] == both[1] == ["an", "address"] and path[:2] != earlier[1][:2]):
            continue  # two VIPs may share an address: their services are compared below
        if path[0] == earlier[1][0] == "pools" and path[1] != earlier[1][1]:
            continue  # the same server in two pools: compared below
        yield rules.finding(
            path, f"{address}, which is {earlier[0]} already", "an address with one use",
            f"see {_where(rules, earlier[1])}",
        )  # fmt: skip


def _same_backend_elsewhere(rules: Rules) -> Iterator[Finding]:
    """A server that is in several pools must be the same in all."""
    seen: dict[Address, tuple[str, str | None, Path]] = {}
    for name, pool in rules.spec.pools.items():
        for i, backend in enumerate(pool.backends):
            for family in meaning.FAMILIES:
                address = meaning.address_of(backend, family)
                if address is None:
                    continue
                path: Path = ("pools", name, "backends", i)
                mac, port, earlier = seen.setdefault(address, (backend.mac, backend.port, path))
                for key, here, there in (("mac", backend.mac, mac), ("port", backend.port, port)):
                    if here != there:
                        yield rules.finding(
                            (*path, key), f"{key} {here or '(none)'} for {address}, which has {there or '(none)'} elsewhere",
                            "the same server in every pool", f"see {_where(rules, earlier)}",
                        )  # fmt: skip


def _duplicate_services(rules: Rules) -> Iterator[Finding]:
    seen: dict[tuple[Address, Protocol, int], Path] = {}
    for name, vip in rules.spec.vips.items():
        for endpoint in meaning.endpoints(vip):
            path: Path = ("vips", name, "services", endpoint.index)
            for address in dict.fromkeys(vip.addresses):
                key = (address, endpoint.protocol, endpoint.port)
                earlier = seen.setdefault(key, path)
                if earlier is not path:
                    yield rules.finding(
                        path, f"{address} port {endpoint.port}/{endpoint.protocol.value} a second time",
                        "each address, protocol and port once", f"see {_where(rules, earlier)}",
                    )  # fmt: skip


@dataclass
class _Translation:
    vip: Address
    port: int
    target_port: int
    path: Path
    fragments: bool


def _nat(rules: Rules) -> Iterator[Finding]:
    """What comes back from a backend's address and port must belong to one VIP address and port, fragments included."""
    spec = rules.spec
    back: dict[tuple[Address, Protocol], list[_Translation]] = defaultdict(list)
    for name, vip in spec.vips.items():
        pool = spec.pools.get(vip.pool)
        if vip.forwarding is not Forwarding.NAT or pool is None:
            continue
        for address in dict.fromkeys(vip.addresses):
            for endpoint in meaning.endpoints(vip):
                path: Path = ("vips", name, "services", endpoint.index)
                fragments = vip.fragments == "restore" and endpoint.protocol is Protocol.UDP
                item = _Translation(address, endpoint.port, endpoint.target_port, path, fragments)
                for backend in meaning.members(pool, meaning.family_of(address)):
                    own = meaning.address_of(backend, meaning.family_of(address))
                    assert own is not None
                    back[own, endpoint.protocol].append(item)
    reported: set[tuple[Path, Path]] = set()
    for (own, protocol), items in back.items():
        for finding, pair in _ambiguous(rules, own, protocol, items):
            if pair not in reported:
                reported.add(pair)
                yield finding


def _ambiguous(
    rules: Rules, own: Address, protocol: Protocol, items: list[_Translation]
) -> Iterator[tuple[Finding, tuple[Path, Path]]]:
    by_port: dict[int, _Translation] = {}
    first_udp: _Translation | None = None
    for item in items:
        first = by_port.setdefault(item.target_port, item)
        if (first.vip, first.port) != (item.vip, item.port):
            yield (
                rules.finding(
                    item.path,
                    f"NAT of {item.vip} port {item.port} to {own} port {item.target_port}/{protocol.value}, "
                    f"where {first.vip} port {first.port} goes already",
                    "each backend address and port behind one NAT service",
                    f"answers could not be told apart; use another target_port or backend address; see "
                    f"{_where(rules, first.path)}",
                ),
                (item.path, first.path),
            )
            continue
        if not item.fragments:
            continue
        if first_udp is None:
            first_udp = item
            continue
        moved = item.port != item.target_port or first_udp.port != first_udp.target_port
        if first_udp.vip != item.vip or (moved and first_udp.port != item.port):
            yield (
                rules.finding(
                    item.path,
                    f"a second UDP translation of {own} ({item.vip} port {item.port}, beside {first_udp.vip} port "
                    f"{first_udp.port})",
                    "one, since fragments of large answers carry no port",
                    f"give the VIP backend addresses of its own, or set fragments: drop; see "
                    f"{_where(rules, first_udp.path)}",
                ),
                (item.path, first_udp.path),
            )
