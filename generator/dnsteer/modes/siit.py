# SPDX-License-Identifier: Apache-2.0
"""Stateless translation: the extension translates IPv4 queries to IPv6, and the answers back (RFC 7915, RFC 6052)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from ipaddress import IPv6Network

from dnsteer.modes.base import PROTOCOL_NUMBERS, BackendEnd, Mode, NamedVip
from dnsteer.modes.extension import ExtendedService, ExtensionBackend, Pipe, Targets
from dnsteer.spec import derived
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.families import Family, Reach
from dnsteer.spec.model.spec import Backend, Forwarding, Protocol, Vip
from dnsteer.spec.model.types import Address
from dnsteer.tables.context import Context
from dnsteer.tables.cookies import OBJECT_BITS, Category, number_names
from dnsteer.tables.return_ import PREFIX, TranslatedRow

_PREFIX = IPv6Network(PREFIX).network_address.packed[:12]


class Siit(Mode):
    """Backends are reached over IPv6; answers to clients in 64:ff9b::/96 go through the extension."""

    word = Forwarding.SIIT
    program = "siit"
    by_extension = True
    why_no_errors = "the extension translates no errors"
    translates = True
    query_rewrites = 3  # a new header, an address in it and the MAC address
    answers_by = "translation"
    fragments = "the extension translates no fragments: they are always dropped"

    def pipes(self, services: Sequence[ExtendedService], targets: Targets) -> Iterator[Pipe]:
        """Yield two pipes for queries (new header, backend's address) and two for answers (new header, VIP's address)."""
        yield Pipe("to-ipv6", 1)
        yield Pipe("translated", len({(t, s.family) for s in services for t in s.reached}))
        yield Pipe("to-ipv4", 1)
        yield Pipe("answers", sum(bool(s.slots) + bool(s.probes) for s in services))

    def stages(self, families: Collection[Family]) -> tuple[str, ...]:
        """Return the two pipes of a query."""
        return ("to-ipv6", "translated")

    def returned_as(self, service: ExtendedService, target: ExtensionBackend) -> tuple[Family, int]:
        """Return IPv6 and the service's protocol number: the extension returns queries already translated."""
        return "ipv6", PROTOCOL_NUMBERS[service.protocol]

    def added_bytes(self, target: ExtensionBackend) -> int:
        """Return the difference in bytes between an IPv6 and an IPv4 header."""
        return derived.IPV6_HEADER - derived.IPV4_HEADER

    def backend_end(self, backend: Backend, address: Address) -> BackendEnd | None:
        """Return the backend's IPv6 address, and the prefix of clients."""
        return BackendEnd(backend.ipv6, client=_PREFIX) if backend.ipv6 is not None else None

    def reach(self, family: Family) -> Reach:
        """Return IPv6: backends need an IPv6 address."""
        return "ipv6"

    def answers_in(self, family: Family) -> Family:
        """Return IPv6: answers reach the gateway before they are translated."""
        return "ipv6"

    def check(self, scope: Scope, vips: Sequence[NamedVip]) -> Iterator[Finding]:
        """Report IPv6 addresses of VIPs, and backends whose answers belong to two VIP addresses."""
        seen: dict[tuple[Address, Protocol, int], tuple[Address, Path]] = {}
        told: set[tuple[Path, Path]] = set()
        for name, vip, pool in vips:
            for i, address in enumerate(vip.addresses):
                path: Path = ("vips", name, "addresses", i)
                if address.version == 6:
                    yield scope.finding(
                        path,
                        f"{address} with forwarding siit",
                        "an IPv4 address",
                        "IPv6 clients need no translation: make it a VIP of its own, with forwarding: dsr or nat",
                    )
                    continue
                for backend in derived.members(pool, "ipv6"):
                    assert backend.ipv6 is not None
                    for endpoint in derived.endpoints(vip):
                        key = (backend.ipv6, endpoint.protocol, endpoint.port)
                        first, where = seen.setdefault(key, (address, path))
                        if first != address and (path, where) not in told:
                            told.add((path, where))
                            yield scope.finding(
                                path,
                                f"answers of backend {backend.ipv6} from port {endpoint.port}/{endpoint.protocol.value} for "
                                f"both {address} and {first}",
                                "one VIP address for what comes from a backend's address and port",
                                f"give each VIP backend addresses of its own; see {scope.where(where)}",
                            )

    def return_rows(self, ctx: Context, name: str, vip: Vip, address: Address) -> Iterator[TranslatedRow]:
        """Yield the answers to translate: a row per backend and service."""
        numbers = ctx.once("translated", lambda: number_names(_names(ctx), OBJECT_BITS))
        for i, backend in enumerate(ctx.spec.pools[vip.pool].backends):
            if backend.ipv6 is None:
                continue
            for e in derived.endpoints(vip):
                row = str(backend.ipv6), e.protocol.value, e.port
                title = f"answers of backend {backend.name} for VIP {name}, port {e.port}/{e.protocol.value}"
                path = ("pools", vip.pool, "backends", i)
                yield TranslatedRow(ctx.subject(Category.RETURN, numbers[_name(*row)], title, path), *row)

    def target(self, backend: Backend, family: Family) -> str:
        """Return the backend's IPv6 address, the destination of translated queries."""
        return str(backend.ipv6)


def _names(ctx: Context) -> Iterator[str]:
    for vip in ctx.spec.vips.values():
        if vip.forwarding is Forwarding.SIIT:
            for backend in ctx.spec.pools[vip.pool].backends:
                if backend.ipv6 is not None:
                    yield from (_name(str(backend.ipv6), e.protocol.value, e.port) for e in derived.endpoints(vip))


def _name(address: str, protocol: str, port: int) -> str:
    return f"siit/{address}/{protocol}/{port}"
