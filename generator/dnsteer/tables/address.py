# SPDX-License-Identifier: Apache-2.0
"""Tables address1 to address7: look at the VIPs' addresses a few bits at a time, so that a scan makes few megaflows.

What is dropped by a whole address makes a megaflow for each address that somebody sends to. By a window of its bits, the
prefix first, it makes one for each value of the window; somebody who knows a VIP can walk all windows, but no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from dnsteer.spec.model.families import FAMILIES, Family
from dnsteer.tables.table import Table

if TYPE_CHECKING:
    from dnsteer.spec.model.spec import Spec
    from dnsteer.spec.model.types import Address
    from dnsteer.tables.context import Context

WINDOW_BITS = 10
"""Bits of a window at most, where the tables are enough: with 10 each makes at most 1,023 megaflows for a transport."""
WINDOWS = 7
"""Tables. The host part of a /64 has seven windows, of 10 and 9 bits; of more bits each window has more."""
FAMILY_BITS: dict[Family, int] = {"ipv4": 32, "ipv6": 128}


class AddressRow(NamedTuple):
    """The first bits of VIPs' addresses, which one table matches. *prefix* is as ovs-ofctl prints it.

    *inbound*: of backends' addresses, for traffic of their own.
    """

    table: str
    family: Family
    prefix: str
    inbound: bool = False


@lru_cache(64)
def windows_of(family: Family, routed: int) -> tuple[int, ...]:
    """Return the prefix lengths that the tables match, one after the other, where *routed* bits are a router's choice.

    The first window has these too, since somebody behind the router cannot choose them; the last is the whole address.
    """
    free = FAMILY_BITS[family] - routed
    count = min(WINDOWS, max(1, ceil(free / WINDOW_BITS)))
    # The longer windows first: 10 and six times 9 for 64 bits.
    return tuple(routed + ceil(free * (n + 1) / count) for n in range(count))


def prefixes_of(spec: Spec) -> Iterator[tuple[str, Family, int, list[int]]]:
    """Yield each window that a family has: its table, the family, the prefix length, and the first bits of the VIPs."""
    from dnsteer.spec import derived  # here, since the quick verbs do without it

    vips = [address for vip in spec.vips.values() for address in vip.addresses]
    yield from _prefixes(vips, derived.routed_bits(spec))


def own_prefixes_of(spec: Spec) -> Iterator[tuple[str, Family, int, list[int]]]:
    """Yield the same for backends' addresses, where routers send here what is for them."""
    from ipaddress import ip_address  # here, since the quick verbs do without it

    from dnsteer.spec import derived
    from dnsteer.spec.own_traffic import has_outside, own_addresses, own_prefixes

    own = [ip_address(each.address) for each in own_addresses(spec)]
    if own and has_outside(spec):
        yield from _prefixes(own, derived.shortest(own_prefixes(spec)))


def _prefixes(addresses: list[Address], routed: dict[Family, int]) -> Iterator[tuple[str, Family, int, list[int]]]:
    for family in FAMILIES:
        width = FAMILY_BITS[family]
        own = {int(address) for address in addresses if address.max_prefixlen == width}
        if own:
            for table, length in zip(TABLES, windows_of(family, routed[family]), strict=False):
                yield table.name, family, length, sorted({address >> width - length for address in own})


def rows(ctx: Context) -> Iterator[AddressRow]:
    """Yield a row for each window of the VIPs' addresses, each prefix once; then for each of the backends'."""
    from ipaddress import IPv4Address, IPv6Address  # here, since the quick verbs do without it

    for inbound, found in ((False, prefixes_of(ctx.spec)), (True, own_prefixes_of(ctx.spec))):
        for table, family, length, prefixes in found:
            width, kind = FAMILY_BITS[family], IPv4Address if family == "ipv4" else IPv6Address
            end = "" if length == width else f"/{length}"
            for bits in prefixes:
                yield AddressRow(table, family, f"{kind(bits << width - length)}{end}", inbound)


def _none(_: Context) -> Iterator[AddressRow]:
    """Yield nothing: the first table makes the rows of all."""
    return iter(())


def _table(number: int) -> Table:
    return Table(
        name=f"address{number}",
        matches="destination address, a few bits more in each table",
        does="drops addresses that are no VIP's, by a few bits at a time",
        traffic=("queries",),
        drops="address of no VIP",
        miss="next",
        flows={
            "ip": "The first bits of a VIP's address, or of several. A family with fewer windows passes the last tables.",
            "ipv6": "The same for IPv6.",
            "own": "The same of backends' addresses, for traffic of their own (`pass: backends`).",
            "miss": "Other addresses are dropped by these bits: a megaflow for each value of the window at most, for each "
            "transport.",
        },
        uses={"windows": AddressRow},
        rows=rows if number == 1 else _none,
        template="address",
    )


TABLES: tuple[Table, ...] = tuple(_table(number) for number in range(1, WINDOWS + 1))
