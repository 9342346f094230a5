# SPDX-License-Identifier: Apache-2.0
"""What `top` shows at a time: the status of the switch with its rates, its datapath, and what needs attention."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from dnsteer.cli.output import Exit, status_exit_code
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.deploy.times import now
from dnsteer.metrics.datapath import DatapathReader
from dnsteer.plan.bridge import wanted_bridge
from dnsteer.status.pools import BackendView, PoolView
from dnsteer.status.rates import Rate, total
from dnsteer.status.switch_status import Status
from dnsteer.status.vips import VipView
from dnsteer.switch.tools import SwitchError
from dnsteer.switch.unixctl import Unixctl, control_socket
from dnsteer.view.attention_item import AttentionItem, bridge_options
from dnsteer.view.status_attention import status_items

Sort = Literal["rate", "name", "state", "difference"]
_TIMEOUT = 2.0
"""Seconds that ovs-vswitchd may take to answer about its datapath."""
_COUNTERS = ("hits", "upcalls", "lost")


@dataclass(frozen=True)
class DatapathView:
    """The datapath, as ovs-vswitchd reports it: numbers by the end of their metrics' names, rates by counter.

    *why* is why nothing can be read, *not_understood* what was told in a form that is not known.
    """

    gauges: Mapping[str, float] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    why: str = ""
    not_understood: str = ""

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        rates = {f"{name}_per_second": round(rate, 1) for name, rate in self.rates.items()}
        return {**self.gauges, **rates, "reason": self.why or self.not_understood or None}


class DatapathSampler:
    """Reads the datapath again and again; rates are since the last reading."""

    def __init__(self, switch: TargetSwitch) -> None:
        self._switch, self._reader = switch, DatapathReader()
        self._last: tuple[float, Mapping[str, int]] | None = None

    def read(self, status: Status) -> DatapathView:
        """Read it, of a switch with this status."""
        if status.loaded is None or status.unreachable:
            self._last = None
            return DatapathView(why=status.unreachable or "the applied spec cannot be read")
        kind = wanted_bridge(status.loaded.spec).datapath_type or "system"
        try:
            with Unixctl(control_socket(self._switch.remote), min(self._switch.timeout, _TIMEOUT)) as control:
                found = self._reader.read(control, kind)
        except (SwitchError, OSError) as err:
            self._last = None
            return DatapathView(why=str(err))
        at, before, rates = time.monotonic(), self._last, dict[str, float]()
        self._last = at, found.counters
        if before is not None:
            for name in _COUNTERS:
                more = found.counters.get(name, 0) - before[1].get(name, 0)
                if name in found.counters and name in before[1] and more >= 0:  # less after a restart
                    rates[name] = more / (at - before[0])
        return DatapathView(found.gauges, rates, not_understood=found.not_understood)


@dataclass(frozen=True)
class TopFrame:
    """The switch at a *time*."""

    time: datetime
    status: Status
    datapath: DatapathView
    bridge: str | None = None
    """That which the operator named, as where there are several."""

    @cached_property
    def items(self) -> list[AttentionItem]:
        """What needs attention, most urgent first."""
        return status_items(self.status, self.time, bridge_options(self.bridge))

    @property
    def rate(self) -> Rate:
        """That of all VIPs."""
        return total(vip.rate for vip in self.status.vips)

    def vips(self, sort: Sort, matching: str = "") -> list[VipView]:
        """The VIPs, in an order: by name, else the busiest first; those alike as in the spec. Only those with *matching* in
        their name, their pool's or an address."""
        found = [
            vip
            for vip in self.status.vips
            if _matches(matching, vip.name, vip.pool, *(a.address for a in vip.addresses))
        ]
        if sort == "name":
            return sorted(found, key=lambda vip: vip.name)
        return sorted(found, key=lambda vip: -(vip.rate.packets or 0))

    def shares(self, sort: Sort, matching: str = "") -> list[Share]:
        """The backends in an order: the busiest, those that are not up, or those with the largest difference first. Only
        those with *matching* in their name, their state or the name of a VIP of their pool."""
        orders: dict[Sort, Callable[[Share], tuple[float | str, ...]]] = {
            "rate": lambda share: (-(share.backend.rate.packets or 0),),
            "name": lambda share: (share.name,),
            "state": lambda share: (
                share.backend.state == "up" and not share.backend.failing,
                -(share.backend.rate.packets or 0),
            ),
            "difference": lambda share: (-share.difference,),
        }
        vips = dict[str, list[str]]()
        for vip in self.status.vips:
            vips.setdefault(vip.pool, []).append(vip.name)
        found = shares_of(self.status.pools)
        if matching:
            found = [s for s in found if _matches(matching, s.name, s.backend.state, *vips.get(s.pool.name, ()))]
        return sorted(found, key=orders[sort])

    def as_json(self, sort: Sort, matching: str = "") -> dict[str, Any]:
        """As a JSON object, of VIPs and backends those with *matching*."""
        record, state, seconds = self.status.reading.record, self.status.reading.state, self.status.rates.seconds
        return {
            "ok": status_exit_code(self.status, self.items) is Exit.OK,
            "time": self.time.isoformat(timespec="milliseconds"),
            "bridge": record.bridge,
            "switch": record.name or None,
            "state": state.number if state is not None else None,
            "reachable": not self.status.unreachable,
            "interval": None if seconds is None else round(seconds, 3),
            **self.rate.as_json(),
            "attention": [item.as_json() for item in self.items],
            "agent": self.status.agent.as_json(),
            "datapath": self.datapath.as_json(),
            "vips": [vip.as_json() for vip in self.vips(sort, matching)],
            "backends": [share.as_json() for share in self.shares(sort, matching)],
        }


def _matches(matching: str, *texts: str) -> bool:
    words = [word.strip() for word in matching.lower().split(",") if word.strip()]
    return not words or any(word in text.lower() for word in words for text in texts)


def make_frame(status: Status, datapath: DatapathSampler, bridge: str | None = None) -> TopFrame:
    """The frame of a status, with the datapath as it is now. *bridge* is the one that the operator named."""
    return TopFrame(now(), status, datapath.read(status), bridge)


@dataclass(frozen=True)
class Share:
    """A backend with its part of the pool's packets, slots and weights, 0 to 1; None where that is not known.

    The part of the weights is that which it should have with everybody in service.
    """

    pool: PoolView
    backend: BackendView
    packets: float | None
    slots: float | None
    weight: float | None

    @property
    def name(self) -> str:
        """POOL/BACKEND, with the family or service of a pool that has several tables of slots."""
        return f"{self.pool.title.removeprefix('pool ')}/{self.backend.name}"

    @property
    def difference(self) -> float:
        """How far the packets are from what the slots ask for, 0 to 1."""
        return abs(self.packets - self.slots) if self.packets is not None and self.slots is not None else 0.0

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        parts = {"share": self.packets, "slots_share": self.slots, "weight_share": self.weight}
        rounded = {name: None if part is None else round(part, 4) for name, part in parts.items()}
        return {"pool": self.pool.name, "title": self.pool.title, **self.backend.as_json(), **rounded}


def shares_of(pools: Iterable[PoolView]) -> list[Share]:
    """All backends of all pools, in the order of the spec."""
    return [share for pool in pools for share in _shares_of_pool(pool)]


def _shares_of_pool(pool: PoolView) -> list[Share]:
    packets, weights = pool.rate.packets, sum(map(_weight, pool.backends))
    return [
        Share(
            pool,
            b,
            _part(b.rate.packets, packets),
            _part(b.slots, pool.slots),
            _part(_weight(b), weights),
        )
        for b in pool.backends
    ]


def _weight(backend: BackendView) -> int:
    return backend.weight if backend.given is None or backend.given.weight is None else backend.given.weight


def _part(value: float | None, whole: float | None) -> float | None:
    return value / whole if value is not None and whole else None
