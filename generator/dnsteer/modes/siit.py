"""Stateless translation: the extension makes IPv6 of a query over IPv4, and IPv4 of the answer (RFC 7915, RFC 6052)."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.modes.base import Mode
from dnsteer.spec import derived
from dnsteer.spec.model.families import Family
from dnsteer.spec.model.spec import Backend, Forwarding, Vip
from dnsteer.spec.model.types import Address
from dnsteer.tables.context import Context
from dnsteer.tables.cookies import OBJECT_BITS, Category, number_names
from dnsteer.tables.return_ import TranslatedRow


class Siit(Mode):
    """Backends are reached over IPv6; answers to clients in 64:ff9b::/96 go through the extension."""

    word = Forwarding.SIIT
    program = "siit"

    def return_rows(self, ctx: Context, name: str, vip: Vip, address: Address) -> Iterator[TranslatedRow]:
        """Answers to translate."""
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
        """The address that the query is translated to."""
        return str(backend.ipv6)


def _names(ctx: Context) -> Iterator[str]:
    for vip in ctx.spec.vips.values():
        if vip.forwarding is Forwarding.SIIT:
            for backend in ctx.spec.pools[vip.pool].backends:
                if backend.ipv6 is not None:
                    yield from (_name(str(backend.ipv6), e.protocol.value, e.port) for e in derived.endpoints(vip))


def _name(address: str, protocol: str, port: int) -> str:
    return f"siit/{address}/{protocol}/{port}"
