"""Direct server return: the backend owns the VIP, and the query gets the backend's MAC address alone."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.modes.base import OwnsVip, forward_row
from dnsteer.spec import derived
from dnsteer.spec.model.families import ANY, Reach
from dnsteer.spec.model.spec import Forwarding
from dnsteer.tables.context import Context, PoolSlots
from dnsteer.tables.forward import ForwardRow


class Dsr(OwnsVip):
    """One row serves both families, since no address changes."""

    word = Forwarding.DSR
    program = "l2"

    def forward_rows(self, ctx: Context, slots: PoolSlots, index: int, reached: Reach) -> Iterator[ForwardRow]:
        """The MAC address, in the first family in which the backend is reached."""
        backend = slots.pool.backends[index]
        ways = [to for to, mode in slots.ways if mode is self.word and to != ANY]
        first = next((to for to in ways if derived.address_of(backend, to) is not None), None)
        if reached == first:
            yield forward_row(ctx, slots, index, self.word, reached)
