# SPDX-License-Identifier: Apache-2.0
"""Queries of clients of every bucket: one whose flow is not there would pass nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dnsteer.proof.traffic import craft
from dnsteer.proof.traffic.coverage import evenly_spaced
from dnsteer.proof.traffic.senders import Senders, Vector
from dnsteer.spec.model.limits import ClientLimits

MOST_BUCKETS = 256
"""Buckets of a limit that are tried in each family, evenly spaced where there are more."""


def frames(senders: Senders) -> Iterator[Vector]:
    """Yield a query of each bucket in each family, to a VIP that has the limit; VIPs with the same limit share buckets."""
    tried: set[tuple[ClientLimits, int]] = set()
    for service in senders.reference.services.values():
        limit = senders.reference.clients.of_vips.get(service.vip)
        if limit is None or (limit, service.version) in tried:
            continue
        tried.add((limit, service.version))
        length, width = (limit.prefix.ipv4, 32) if service.version == 4 else (limit.prefix.ipv6, 128)
        own = (limit.buckets - 1) << width - length
        for bucket in evenly_spaced(range(limit.buckets), MOST_BUCKETS):
            uplink = senders.next_uplink()
            headers = senders.query_headers(service, uplink)
            address = int.from_bytes(headers.source, "big") & ~own | bucket << width - length
            client = address.to_bytes(width // 8, "big")
            if senders.clients.is_taken(client):
                continue
            name = f"query for {service.label} from {craft.address_text(client)}, bucket {bucket}, by {uplink}"
            aimed = replace(headers, source=client)
            yield senders.vector(name, uplink, craft.query(aimed, service.protocol), "unusual")
