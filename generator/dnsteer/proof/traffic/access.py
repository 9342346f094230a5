# SPDX-License-Identifier: Apache-2.0
"""Queries that try the edges of access lists: the first and last client of each prefix, and those beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network

from dnsteer.proof.reference.access import PlainAccessList
from dnsteer.proof.reference.service import AddressService
from dnsteer.proof.traffic import craft
from dnsteer.proof.traffic.coverage import evenly_spaced
from dnsteer.proof.traffic.senders import Senders, Vector
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.model.types import Network

MOST_ENTRIES = 2500
"""Entries of a list that are tried, evenly spaced; four queries each take some ten seconds."""


def sample(spec: Spec) -> str:
    """What is tried of lists that are so long that not all of their entries are; empty where there are none."""
    lists = (spec.switch.access, *(vip.access for vip in spec.vips.values()))
    longest = max((one.entries for one in lists if one is not None), default=0)
    return f"{MOST_ENTRIES:,} entries of each longer access list" if longest > MOST_ENTRIES else ""


def frames(senders: Senders) -> Iterator[Vector]:
    """Yield queries from the edges of the prefixes of each list, to a service of each address family that has the list."""
    tried: set[int] = set()
    for service in senders.reference.services.values():
        for one in senders.reference.access.lists_of(service.vip):
            place = hash((id(one), service.version, service.port))
            if place not in tried:
                tried.add(place)
                yield from _edges(senders, one, service)


def _edges(senders: Senders, one: PlainAccessList, service: AddressService) -> Iterator[Vector]:
    entries = [*(one.access.deny or ()), *(one.access.allow or ())]
    own = [entry for entry in entries if entry.prefix.version == service.version]
    denied = [each.network for each in one.by_hand if each.network.version == service.version]
    seen: set[bytes] = set()
    for entry in [*denied, *evenly_spaced(own, MOST_ENTRIES)]:
        for client in _clients(entry if isinstance(entry, IPv4Network | IPv6Network) else entry.prefix):
            if client in seen or senders.clients.is_taken(client):
                continue
            seen.add(client)
            uplink = senders.next_uplink()
            headers = replace(senders.query_headers(service, uplink), source=client)
            name = (
                f"query for {service.label} from {craft.address_text(client)}, near {entry} of {one.name}, by {uplink}"
            )
            yield senders.vector(name, uplink, craft.query(headers, service.protocol), "unusual")


def _clients(prefix: Network) -> Iterator[bytes]:
    """The first and last address of a prefix, and those before and behind it."""
    first, last = int(prefix.network_address), int(prefix.broadcast_address)
    width = prefix.max_prefixlen
    for address in (first, last, first - 1, last + 1):
        if 0 < address < 2**width - 1:
            yield address.to_bytes(width // 8, "big")
