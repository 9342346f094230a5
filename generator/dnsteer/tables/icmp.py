# SPDX-License-Identifier: Apache-2.0
"""Table icmp: sorts ICMP by its type, before any address of it is looked at, and limits echo requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dnsteer.tables.error_code import ErrorLimitRow
from dnsteer.tables.meter_rows import MeterRow, echo_meter, meter_of, meters
from dnsteer.tables.table import Table

if TYPE_CHECKING:
    from dnsteer.tables.context import Context


class EchoRow(NamedTuple):
    """The MAC address of VIPs or of gateways, and the number of the meter of echo requests to it; 0: none."""

    mac: str
    meter: int


class OwnIcmpRow(NamedTuple):
    """The meter of echo replies and errors of and for backends themselves; there is none where these do not pass."""

    meter: int


def rows(ctx: Context) -> Iterator[EchoRow | OwnIcmpRow | MeterRow]:
    """Yield a row for each MAC address that echo requests are answered at, and one for each meter of the spec."""
    from dnsteer.spec import derived  # here, since the quick verbs do without it

    switch = ctx.spec.switch
    yield EchoRow(switch.mac, echo_meter(ctx, "vips"))
    if switch.gateways:
        yield EchoRow(derived.gateway_mac(switch), echo_meter(ctx, "gateways"))
    own = meter_of(ctx, "errors", "", "backends")
    if own:
        yield OwnIcmpRow(own)
    yield from meters(ctx)


TABLE = Table(
    name="icmp",
    matches="ICMP type, destination MAC",
    does="passes solicitations, errors about packets that are too big, and echo requests at their rate, in a second pass",
    traffic=("neighbors", "echo", "errors"),
    drops="ICMP that is neither asked nor answered for",
    flows={
        "icmp": "An echo request, at the rate of the meter. `ct` without `commit` only begins a second pass: so this "
        "megaflow has no address in it, however many are asked, and those of the second pass, which have, are as few as the "
        "meter lets through.",
        "icmp6": "The same for IPv6.",
        "icmp6 ns": "Neighbour solicitations, to be looked at by their hop limit first.",
        "icmp own": "Echo replies and errors of and for backends themselves (`pass: backends`), at the rate of their meter, "
        "in a second pass.",
        "miss": "ICMP of other types is dropped by its type.",
    },
    uses={"echoes": EchoRow, "meters": MeterRow, "error_limit": ErrorLimitRow, "own_icmp": OwnIcmpRow},
    rows=rows,
)
