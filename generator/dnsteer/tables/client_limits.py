# SPDX-License-Identifier: Apache-2.0
"""The limits of clients of a spec, each once: VIPs that have the same share their buckets."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dnsteer.spec.errors import Path
from dnsteer.tables.cookies import BUCKET_METERS, METER_LAST, number_names

if TYPE_CHECKING:
    from dnsteer.spec.model.limits import ClientLimits
    from dnsteer.spec.model.spec import Spec

_MOST = 4096
"""Meters that each limit has room for: its numbers are one after the other."""
_BITS = ((METER_LAST + 1 - BUCKET_METERS) // _MOST).bit_length() - 1


class ClientLimit(NamedTuple):
    """A limit of clients: its number, the VIPs that have it, and its place at the first of them."""

    number: int
    clients: ClientLimits
    vips: tuple[str, ...]
    path: Path

    @property
    def first_meter(self) -> int:
        """The number of the meter of bucket 0."""
        return BUCKET_METERS + self.number * _MOST

    @property
    def title(self) -> str:
        """What it is called: by its first VIP."""
        others = len(self.vips) - 1
        shared = f" and {others} more" if others else ""
        return f"limit of clients of VIP {self.vips[0]}{shared}"


def client_limits(spec: Spec) -> list[ClientLimit]:
    """Return the limits of clients, in the order of their first VIPs.

    A number follows from what the limit says: where that changes, the buckets are new ones, so that no bucket has for a
    moment the old tables with the new rate.
    """
    same: dict[str, list[str]] = {}
    for name, vip in spec.vips.items():
        if vip.limits is not None and vip.limits.clients is not None:
            same.setdefault(_key(vip.limits.clients), []).append(name)
    numbers = number_names(same, _BITS)
    found = []
    for key, vips in same.items():
        limits = spec.vips[vips[0]].limits
        assert limits is not None
        assert limits.clients is not None
        path: Path = ("vips", vips[0], "limits", "clients")
        found.append(ClientLimit(numbers[key], limits.clients, tuple(vips), path))
    return found


def limit_of_vips(spec: Spec) -> dict[str, ClientLimit]:
    """Return the limit of clients of each VIP that has one."""
    return {name: limit for limit in client_limits(spec) for name in limit.vips}


def _key(clients: ClientLimits) -> str:
    from dnsteer.spec.model.limits import burst_of  # here, since the quick verbs do without it

    prefix = clients.prefix
    numbers = clients.rate, burst_of(clients.rate, clients.burst), clients.buckets, prefix.ipv4, prefix.ipv6
    return " ".join(map(str, numbers))
