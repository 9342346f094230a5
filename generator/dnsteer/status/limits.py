# SPDX-License-Identifier: Apache-2.0
"""The limits of the VIPs of a spec, and the packets that each has dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from dnsteer.spec.model.limits import burst_of, show_rate, usual_burst
from dnsteer.spec.model.spec import Spec
from dnsteer.tables.client_limits import client_limits
from dnsteer.tables.meter_rows import Limited, limits_by_meter


@dataclass(frozen=True)
class LimitView:
    """A limit of VIPs, of the first's *service* alone or of all: packets a second and at once, for each of what is *per*.

    *buckets*: of a limit of clients. *dropped* is how many packets it has dropped, None where that is not known.
    """

    limited: Limited
    vips: tuple[str, ...]
    rate: int
    burst: int
    per: str
    buckets: int = 0
    dropped: int | None = None

    @property
    def title(self) -> str:
        """The VIP that is named, and the service if it is for that alone."""
        more = f" and {len(self.vips) - 1} more" if len(self.vips) > 1 else ""
        return f"{self.limited.vip}{f' {self.limited.service}' if self.limited.service else ''}{more}"

    @property
    def kind(self) -> str:
        """The key of the spec: queries, clients or tcp_syn."""
        return self.limited.kind

    @property
    def shown_rate(self) -> str:
        """The rate as the spec spells it."""
        return show_rate(self.rate)

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "kind": self.kind,
            "vips": [*self.vips],
            "service": self.limited.service or None,
            "packets_per_second": self.rate,
            "burst": self.burst,
            "per": self.per,
            "dropped_packets": self.dropped,
        }


def view_limits(spec: Spec, dropped: Mapping[Limited, int] = MappingProxyType({})) -> list[LimitView]:
    """The limits of VIPs. *dropped* has what is known of the packets that they dropped."""
    shared = {limit.vips[0]: limit for limit in client_limits(spec)}
    out = []
    for limited in dict.fromkeys(limits_by_meter(spec).values()):
        vip, _, kind = limited
        limits = spec.vips[vip].limits if vip else None
        if limits is None:
            continue
        count = dropped.get(limited)
        if kind == "clients":
            of, clients = shared[vip], shared[vip].clients
            burst = burst_of(clients.rate, clients.burst)
            per = f"one of {clients.buckets:,} buckets"
            out.append(LimitView(limited, of.vips, clients.rate, burst, per, clients.buckets, count))
        elif kind == "queries" and limits.queries is not None:
            burst = burst_of(limits.queries, limits.burst)
            out.append(LimitView(limited, (vip,), limits.queries, burst, limits.per, dropped=count))
        elif kind == "tcp_syn" and limits.tcp_syn is not None:
            burst = usual_burst(limits.tcp_syn)
            out.append(LimitView(limited, (vip,), limits.tcp_syn, burst, limits.per, dropped=count))
    return out


def sum_dropped(spec: Spec, by_meter: Mapping[int, int]) -> dict[Limited, int]:
    """The packets that each limit has dropped, of those that its meters have, by their numbers."""
    found: dict[Limited, int] = {}
    for number, limited in limits_by_meter(spec).items():
        if number in by_meter:
            found[limited] = found.get(limited, 0) + by_meter[number]
    return found
