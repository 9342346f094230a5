# SPDX-License-Identifier: Apache-2.0
"""IP in IP: the extension tunnels the query to the backend, which owns the VIP (RFC 2003, RFC 2473)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from dnsteer.modes.base import BackendEnd, NamedVip, OwnsVip
from dnsteer.modes.extension import ExtendedService, ExtensionBackend, Pipe, Targets
from dnsteer.spec import derived
from dnsteer.spec.errors import Finding
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.families import ANY, FAMILIES, Family, Reach
from dnsteer.spec.model.spec import Backend, Forwarding, Pool, Vip
from dnsteer.spec.model.types import Address

_INNER: dict[Family, int] = {"ipv4": 4, "ipv6": 41}
"""IP protocol number of the outer header, by the family of the inner packet."""


class Ipip(OwnsVip):
    """The tunnel ends at the backend's address in the query's family, or at its other address if it has none there."""

    word = Forwarding.IPIP
    program = "ipip"
    by_extension = True
    why_no_errors = "the extension puts no errors into tunnels"
    tunnels = True

    def pipes(self, services: Sequence[ExtendedService], targets: Targets) -> Iterator[Pipe]:
        """Yield an encapsulation pipe for each outer family, and one that passes packets that need no tunnel."""
        for family in FAMILIES:
            ends = {(t, s.family) for s in services for t in s.reached if targets[t].family == family}
            yield Pipe(f"encap{family[-1]}", len(ends))
        yield Pipe("plain", 1)

    def stages(self, families: Collection[Family]) -> tuple[str, ...]:
        """Return the encapsulation pipes; packets for IPv6 tunnels pass through the IPv4 pipe first."""
        return ("encap4", "encap6") if "ipv6" in families else ("encap4",)

    def returned_as(self, service: ExtendedService, target: ExtensionBackend) -> tuple[Family, int]:
        """Return the outer header's family, and the protocol number of the inner packet."""
        return target.family, _INNER[service.family]

    def added_bytes(self, target: ExtensionBackend) -> int:
        """The outer header."""
        return derived.IPV4_HEADER if target.family == "ipv4" else derived.IPV6_HEADER

    def backend_end(self, backend: Backend, address: Address) -> BackendEnd | None:
        """Return the VIP's address in a tunnel to the backend."""
        end = derived.tunnel_end(backend, derived.family_of(address))
        return BackendEnd(address, tunnel=end) if end is not None else None

    def reach(self, family: Family) -> Reach:
        """Return ANY: a tunnel of either family carries both."""
        return ANY

    def mtu_excess(self, vip: Vip, pool: Pool) -> int:
        """The outer header."""
        families = {derived.family_of(a) for a in vip.addresses}
        ends = [derived.tunnel_end(b, f) for b in pool.backends for f in families]
        return max(derived.IPV4_HEADER if end.version == 4 else derived.IPV6_HEADER for end in ends if end is not None)

    def check(self, scope: Scope, vips: Sequence[NamedVip]) -> Iterator[Finding]:
        """Report each outer family for which the extension has no source address."""
        part = scope.spec.switch.extension
        told: set[int] = set()
        for name, vip, pool in vips if part is not None else ():
            assert part is not None
            for address in vip.addresses:
                for i, backend in enumerate(pool.backends):
                    end = derived.tunnel_end(backend, derived.family_of(address))
                    own = part.ipv4 if end is not None and end.version == 4 else part.ipv6
                    if end is not None and own is None and end.version not in told:
                        told.add(end.version)
                        yield scope.finding(
                            ("switch", "extension"),
                            f'no "ipv{end.version}"',
                            f"a source address for tunnels over IPv{end.version}",
                            f"VIP {name} has one to {end} ({scope.where(('pools', vip.pool, 'backends', i))})",
                        )

    def target(self, backend: Backend, family: Family) -> str:
        """Return the address at which the tunnel ends."""
        return str(derived.tunnel_end(backend, family))
