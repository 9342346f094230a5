"""Services: not too many, and none twice."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.spec import derived
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.loaded import Conflict, Scope
from dnsteer.spec.model.spec import Protocol
from dnsteer.spec.model.types import Address


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
