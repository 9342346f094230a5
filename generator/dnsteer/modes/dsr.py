# SPDX-License-Identifier: Apache-2.0
"""Direct server return: the backend owns the VIP, and only the query's destination MAC changes to the backend's."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.modes.base import BackendEnd, OwnsVip, forward_row
from dnsteer.spec import derived
from dnsteer.spec.model.families import ANY, Reach
from dnsteer.spec.model.spec import Backend, Forwarding
from dnsteer.spec.model.types import Address
from dnsteer.tables.context import Context, PoolSlots
from dnsteer.tables.forward import ForwardRow


class Dsr(OwnsVip):
    """No address changes, so one row serves both families."""

    word = Forwarding.DSR
    number = 1
    program = "l2"
    changed_by = "direct server return"
    by_mac = True

    def backend_end(self, backend: Backend, address: Address) -> BackendEnd:
        """Return the VIP's address at the backend's MAC address."""
        return BackendEnd(address, mac=backend.mac)

    def forward_rows(self, ctx: Context, slots: PoolSlots, index: int, reached: Reach) -> Iterator[ForwardRow]:
        """Yield the row that sets the MAC address, only for the first family in which the backend is reached."""
        if reached == ANY:
            return
        backend = slots.pool.backends[index]
        ways = [to for to, mode in slots.ways if mode is self.word and to != ANY]
        if reached == next((to for to in ways if derived.address_of(backend, to) is not None), None):
            yield forward_row(ctx, slots, index, self, ANY)
