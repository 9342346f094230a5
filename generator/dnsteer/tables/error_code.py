# SPDX-License-Identifier: Apache-2.0
"""Table error_code: of ICMP errors over IPv4, passes those of the code that path MTU discovery needs, and limits errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dnsteer.tables.meter_rows import meter_of
from dnsteer.tables.rows import Rows
from dnsteer.tables.table import Table

if TYPE_CHECKING:
    from dnsteer.tables.context import Context


class ErrorLimitRow(NamedTuple):
    """The meter of ICMP errors; there is none where no VIP's backends get them.

    *zone* is that of the tracker, which knows the backends of connections that are kept; 0: none are.
    """

    meter: int
    zone: int = 0


def rows(ctx: Context) -> Iterator[ErrorLimitRow]:
    """Yield the meter of ICMP errors, if any VIP's backends get them."""
    from dnsteer.spec import derived  # here, since the quick verbs do without it

    meter = meter_of(ctx, "errors", "", "vips")
    if meter:
        yield ErrorLimitRow(meter, derived.tracking(ctx.spec).zone if derived.pools_of_kept_errors(ctx.spec) else 0)


def has_copies(rows: Rows) -> bool:
    """Whether errors to any VIP are copied."""
    return bool(rows.of(ErrorLimitRow))


TABLE = Table(
    name="error_code",
    matches="ICMP code",
    does="passes ICMP errors about packets that are too big at the rate of their meter, in a second pass",
    traffic=("errors",),
    drops="ICMP error that is not of the path MTU",
    flows={
        "icmp": "Fragmentation needed (RFC 1191), at the rate of the meter. `ct` without `commit` only begins a second "
        "pass, as for echo requests.",
        "icmp6": "Packet too big, of any code, which receivers ignore (RFC 4443, section 3.2).",
        "miss": "Other errors over IPv4 are dropped by their code.",
    },
    uses={"limit": ErrorLimitRow},
    rows=rows,
    is_wanted=has_copies,
)
