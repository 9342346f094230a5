# SPDX-License-Identifier: Apache-2.0
"""The slot of a client where bits of its address choose it, and how evenly given clients share the backends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

Client = IPv4Address | IPv6Address


def slot_of_client(client: Client, prefix: int, slots: int) -> int:
    """Return the slot of a client: the lowest bits of the first *prefix* bits of its address. *slots* is a power of two."""
    return (int(client) >> client.max_prefixlen - prefix) % slots


@dataclass(frozen=True)
class BackendShare:
    """A backend's part of clients and of packets, from 0 to 1, beside that of its slots."""

    backend: str
    slots: float
    clients: float
    packets: float


def shares_of_clients(clients: Mapping[Client, int], prefix: int, owners: Sequence[str]) -> list[BackendShare]:
    """Return the shares of the *owners* of slots, in the order of their first slot. *clients* have numbers of packets.

    Raises ValueError without clients or slots.
    """
    if not clients or not owners:
        raise ValueError("shares need a client and a slot")
    held = Counter(owners)
    of_clients, of_packets = Counter[str](), Counter[str]()
    for client, packets in clients.items():
        owner = owners[slot_of_client(client, prefix, len(owners))]
        of_clients[owner] += 1
        of_packets[owner] += packets
    total = sum(clients.values())
    return [
        BackendShare(name, held[name] / len(owners), of_clients[name] / len(clients), of_packets[name] / total)
        for name in dict.fromkeys(owners)
    ]


def unevenness(shares: Sequence[BackendShare]) -> float:
    """How much more packets than its slots the busiest backend gets, relative to them; 0 is even."""
    return max(share.packets / share.slots - 1 for share in shares)


def most_even_prefix(clients: Mapping[Client, int], owners: Sequence[str], least: int, now: int) -> int:
    """Return the prefix length, from *least* on, that shares packets most evenly, to 1 %; of equals next to *now*."""
    width = min(
        next(iter(clients)).max_prefixlen, 64
    )  # of IPv6: beyond, a host takes another address each day (RFC 8981)
    excess = {
        n: round(unevenness(shares_of_clients(clients, n, owners)), 2) for n in range(min(least, width), width + 1)
    }
    return min(excess, key=lambda prefix: (excess[prefix], abs(prefix - now), prefix))
