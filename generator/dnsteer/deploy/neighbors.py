# SPDX-License-Identifier: Apache-2.0
"""The MAC addresses of neighbours as the record has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from dnsteer.deploy.times import stamp
from dnsteer.slots.maintenance import FoundNeighbor, Overlay
from dnsteer.spec.errors import some_of
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.neighbors import neighbors_of


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


def describe_neighbors(spec: Spec, found: Sequence[FoundNeighbor]) -> Iterator[str]:
    """The MAC addresses of the neighbours that a spec follows, in words; those that are to be found out first."""
    macs = {each.address: each.mac for each in found}
    followed = {n.address: n.title for n in neighbors_of(spec) if not n.mac}
    unknown = [title for address, title in followed.items() if address not in macs]
    if unknown:
        yield f"no MAC address is known yet, and what is for them is dropped until they are asked: {some_of(unknown, '; ')}"
    known = [f"{title} is at {macs[address]}" for address, title in followed.items() if address in macs]
    if known:
        yield f"MAC addresses as they were found out last: {some_of(known, '; ')}"
