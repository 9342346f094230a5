# SPDX-License-Identifier: Apache-2.0
"""Which limits drop packets now: of which VIP or backend, how many a second, and of clients the buckets with most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from dnsteer.spec.model.spec import Spec
from dnsteer.switch.meters import MeterCount
from dnsteer.tables.client_limits import ClientLimit, client_limits
from dnsteer.tables.meter_rows import Limited, limits_by_meter

WORST = 3
"""Buckets of a limit that are named: those that drop most."""
_WORDS = {
    "queries": "its limit of queries",
    "clients": "the limit of its clients",
    "tcp_syn": "its limit of TCP SYN",
    "errors": "the limit of ICMP errors",
    "echo": "the limit of echo requests",
    "backends": "the limit of what comes for its own address",
}


@dataclass(frozen=True)
class BucketDrops:
    """What a bucket drops, in packets a second. *sources*: its clients, as addresses with the bits that choose it."""

    bucket: int
    rate: float
    sources: tuple[str, str]

    @property
    def text(self) -> str:
        """In words."""
        return f"bucket {self.bucket} ({self.rate:,.0f}/s, sources {' and '.join(self.sources)})"

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        ipv4, ipv6 = self.sources
        return {
            "bucket": self.bucket,
            "packets_per_second": round(self.rate, 1),
            "sources": {"ipv4": ipv4, "ipv6": ipv6},
        }


@dataclass(frozen=True)
class LimitDrops:
    """What a limit drops, in packets a second. *vips* are those that share it; none where it is of a backend's own address.

    Of a limit of clients *dropping* of *buckets* do, and *worst* are those that drop most.
    """

    limited: Limited
    vips: tuple[str, ...]
    rate: float
    buckets: int = 0
    dropping: int = 0
    worst: tuple[BucketDrops, ...] = ()

    @property
    def text(self) -> str:
        """In words, with what it is about before a colon."""
        if not self.vips:
            rate = f"{self.rate:,.0f} packets/s are dropped by {_WORDS[self.limited.kind]}"
            return f"backend {self.limited.service}: {rate}"
        about = f"VIP {self.vips[0]}" if len(self.vips) == 1 else f"VIPs {', '.join(self.vips[:3])}"
        about += f" and {len(self.vips) - 3} more" if len(self.vips) > 3 else ""
        service = f" of {self.limited.service}" if self.limited.service else ""
        buckets = f", in {self.dropping:,} of {self.buckets:,} buckets" if self.buckets else ""
        most = f"; most in {', '.join(each.text for each in self.worst)}" if self.worst else ""
        return f"{about}: {self.rate:,.0f} packets/s are dropped by {_WORDS[self.limited.kind]}{service}{buckets}{most}"

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        found: dict[str, Any] = {
            "kind": self.limited.kind,
            "vips": list(self.vips),
            "service": self.limited.service or None,
            "packets_per_second": round(self.rate, 1),
        }
        if self.buckets:
            found |= {
                "buckets": self.buckets,
                "buckets_dropping": self.dropping,
                "worst": [each.as_json() for each in self.worst],
            }
        return found


def has_limits(spec: Spec) -> bool:
    """Whether a VIP has any limit, or what comes for backends' own addresses."""
    return spec.switch.own_traffic is not None or any(vip.limits is not None for vip in spec.vips.values())


def limit_drops(
    spec: Spec, before: Mapping[int, MeterCount], after: Mapping[int, MeterCount], seconds: float
) -> list[LimitDrops]:
    """What the limits of VIPs and of backends' own addresses dropped between two readings of the meters, *seconds* apart.

    Those that did not drop are left out.

    A meter that was not there before, or counts anew, is left out: it is not known since when it counts.
    """
    by_limit: dict[Limited, dict[int, float]] = defaultdict(dict)
    for number, limited in limits_by_meter(spec).items():
        was, now = before.get(number), after.get(number)
        if not (limited.vip or limited.kind == "backends") or was is None or now is None or now.dropped <= was.dropped:
            continue
        by_limit[limited][number] = (now.dropped - was.dropped) / seconds
    of_clients = {limit.vips[0]: limit for limit in client_limits(spec)}
    found = [
        _of_clients(limited, of_clients[limited.vip], rates)
        if limited.kind == "clients"
        else LimitDrops(limited, (limited.vip,) if limited.vip else (), sum(rates.values()))
        for limited, rates in by_limit.items()
    ]
    return sorted(found, key=lambda each: -each.rate)


def _of_clients(limited: Limited, limit: ClientLimit, rates: Mapping[int, float]) -> LimitDrops:
    most = sorted(rates, key=lambda number: -rates[number])[:WORST]
    worst = tuple(
        BucketDrops(number - limit.first_meter, rates[number], bucket_sources(limit, number - limit.first_meter))
        for number in most
    )
    return LimitDrops(limited, limit.vips, sum(rates.values()), limit.clients.buckets, len(rates), worst)


def bucket_sources(limit: ClientLimit, bucket: int) -> tuple[str, str]:
    """The clients of a bucket, of IPv4 and of IPv6: an address and the mask of the bits that choose it.

    A datapath flow matches just these bits, so that it cannot tell which of their prefixes send.
    """
    ones = limit.clients.buckets - 1
    low4, low6 = limit.clients.lowest_bit("ipv4"), limit.clients.lowest_bit("ipv6")
    return (
        f"{IPv4Address(bucket << low4)}/{IPv4Address(ones << low4)}",
        f"{IPv6Address(bucket << low6)}/{IPv6Address(ones << low6)}",
    )
