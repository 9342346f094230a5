"""How often something may be tried, by each of many and by all together; in bounded memory."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

MAX_KEYS = 4096
"""Callers that are remembered; the one that tried nothing for longest is forgotten first."""


@dataclass
class _Bucket:
    left: float
    at: float


@dataclass(frozen=True)
class AllowedRate:
    """*burst* at once, and *each* more a minute after that."""

    burst: int
    each: float


class RateLimit:
    """How often each caller, and all together, may do something."""

    def __init__(self, each: AllowedRate, all_: AllowedRate, clock: Callable[[], float] = time.monotonic) -> None:
        self._each, self._all, self._clock = each, all_, clock
        self._callers: OrderedDict[str, _Bucket] = OrderedDict()
        self._total = _Bucket(all_.burst, clock())

    def wait(self, caller: str) -> float:
        """Seconds until *caller* may do it again; 0 if now."""
        own = self._callers.get(caller)
        of_all = self._fill(self._total, self._all)
        return max(of_all, self._fill(own, self._each)) if own is not None else of_all

    def count(self, caller: str) -> None:
        """Count that *caller* has done it."""
        own = self._callers.setdefault(caller, _Bucket(self._each.burst, self._clock()))
        self._callers.move_to_end(caller)
        while len(self._callers) > MAX_KEYS:
            self._callers.popitem(last=False)
        for bucket, rate in ((own, self._each), (self._total, self._all)):
            self._fill(bucket, rate)
            bucket.left = max(0.0, bucket.left - 1)

    def _fill(self, bucket: _Bucket, rate: AllowedRate) -> float:
        """Fill a bucket up to now; seconds until there is one in it."""
        now = self._clock()
        bucket.left = min(float(rate.burst), bucket.left + (now - bucket.at) * rate.each / 60)
        bucket.at = now
        return 0.0 if bucket.left >= 1 else (1 - bucket.left) * 60 / rate.each


def caller_of(address: str) -> str:
    """What a client is counted as: its address, or the /64 that it is in, of which one host has all."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        return str(found.ipv4_mapped or IPv6Address(int(found) >> 64 << 64))
    return str(found)
