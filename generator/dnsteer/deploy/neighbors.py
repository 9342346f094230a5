# SPDX-License-Identifier: Apache-2.0
"""The MAC addresses of neighbours as the record has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from dnsteer.deploy.times import stamp
from dnsteer.slots.maintenance import FoundNeighbor, Overlay


def with_found(
    overlay: Overlay, addresses: Sequence[str], macs: Mapping[str, str], time: datetime
) -> tuple[FoundNeighbor, ...]:
    """The MAC addresses of the neighbours at *addresses*: those in *macs*, and of others the ones that the overlay has."""
    known = {found.address: found for found in overlay.neighbors or ()}
    out = []
    for address in addresses:
        was, mac = known.get(address), macs.get(address, "")
        if mac and (was is None or mac != was.mac):
            out.append(FoundNeighbor(address, mac, stamp(time), was.mac if was is not None else ""))
        elif was is not None:
            out.append(was)
    return tuple(out)
