# SPDX-License-Identifier: Apache-2.0
"""Table own_traffic: passes what backends send and get for themselves, by their addresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dnsteer.spec.model.families import Family
from dnsteer.tables.cookies import OBJECT_BITS, Category, Subject, number_names
from dnsteer.tables.ingress import OUT_SAME
from dnsteer.tables.meter_rows import meter_of
from dnsteer.tables.rows import Rows
from dnsteer.tables.table import Table

if TYPE_CHECKING:
    from dnsteer.tables.context import Context


class OwnAddressRow(NamedTuple):
    """An address of a backend whose own traffic passes.

    *mac*, *out* and *tag* are of its way there, as in table forward; *mac* is empty where nothing comes to it through the
    switch, or it has not answered yet. *meter* is that of what comes.
    """

    subject: Subject
    family: Family
    address: str
    mac: str
    out: int
    tag: str
    meter: int


def rows(ctx: Context) -> Iterator[OwnAddressRow]:
    """Yield a row for each address of backends."""
    from dnsteer.spec.networks import vlan_of  # here, since the quick verbs do without it
    from dnsteer.spec.own_traffic import has_outside, own_addresses

    found = list(own_addresses(ctx.spec))
    numbers = number_names((own.address for own in found), OBJECT_BITS)
    outside = has_outside(ctx.spec) if found else False
    for own in found:
        backend, address = own.backend, own.address
        title = f"own traffic of backend {backend.name} ({address})"
        subject = ctx.subject(Category.OWN_TRAFFIC, numbers[address], title, own.path)
        mac, out = backend.mac if outside else "", ctx.ports[backend.port] if backend.port else OUT_SAME
        tag = ctx.vlans.tag(vlan_of(ctx.spec.switch, backend))
        yield OwnAddressRow(
            subject, own.family, address, mac, out, tag, meter_of(ctx, "backends", "", address) if mac else 0
        )


def has_own_traffic(rows: Rows) -> bool:
    """Whether traffic of backends' own passes."""
    return bool(rows.of(OwnAddressRow))


TABLE = Table(
    name="own_traffic",
    matches="address of a backend",
    does="passes what backends send and get for themselves, the latter at the rate of a meter for each address",
    traffic=("own",),
    drops="for no backend's own address",
    flows={
        "out": "From a backend's own address: leaves as answers do, with nothing rewritten but MAC addresses.",
        "in": "To a backend's own address, at the rate of its meter. Its way out is that of a query.",
        "low": "A backend whose MAC address is not known yet gets nothing.",
        "miss": "From other addresses: may be answers of a backend that owns the VIP's address.",
    },
    uses={"own_addresses": OwnAddressRow},
    rows=rows,
    is_wanted=has_own_traffic,
)
