"""What `top` shows at a time: the status of the switch with its rates, its datapath, and what needs attention."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from dnsteer.cli.output import Exit
from dnsteer.cli.status import exit_code
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.deploy.times import now
from dnsteer.metrics.datapath import DatapathReader
from dnsteer.plan.bridge import wanted_bridge
from dnsteer.status.rates import Rate, total
from dnsteer.status.report import Status
from dnsteer.status.shares import Share, shares
from dnsteer.status.vips import VipView
from dnsteer.switch.tools import SwitchError
from dnsteer.switch.unixctl import Unixctl, control_socket
from dnsteer.view.attention_item import AttentionItem
from dnsteer.view.status_attention import status_items

Sort = Literal["rate", "name", "state", "difference"]
_TIMEOUT = 2.0
"""Seconds for ovs-vswitchd to tell of its datapath."""
_COUNTERS = ("hits", "upcalls", "lost")


@dataclass(frozen=True)
class DatapathView:
    """What ovs-vswitchd tells of its datapath: numbers by the end of their metrics' names, rates by counter.

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


class DatapathWatch:
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

    @cached_property
    def items(self) -> list[AttentionItem]:
        """What needs attention, most urgent first."""
        return status_items(self.status, self.time)

    @property
    def rate(self) -> Rate:
        """That of all VIPs."""
        return total(vip.rate for vip in self.status.vips)

    def vips(self, sort: Sort, matching: str = "") -> list[VipView]:
        """The VIPs, in an order: by name, else the busiest first; those alike as in the spec. Only those with *matching* in
        their name, their pool's or an address."""
        found = [
            vip for vip in self.status.vips if _has(matching, vip.name, vip.pool, *(a.address for a in vip.addresses))
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
            "difference": lambda share: (-share.away,),
        }
        vips = dict[str, list[str]]()
        for vip in self.status.vips:
            vips.setdefault(vip.pool, []).append(vip.name)
        found = shares(self.status.pools)
        if matching:
            found = [s for s in found if _has(matching, s.name, s.backend.state, *vips.get(s.pool.name, ()))]
        return sorted(found, key=orders[sort])

    def as_json(self, sort: Sort, matching: str = "") -> dict[str, Any]:
        """As a JSON object, of VIPs and backends those with *matching*."""
        record, state, seconds = self.status.reading.record, self.status.reading.state, self.status.rates.seconds
        return {
            "ok": exit_code(self.status, self.items) is Exit.OK,
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


def _has(matching: str, *texts: str) -> bool:
    wanted = matching.lower()
    return not wanted or any(wanted in text.lower() for text in texts)


def make_frame(status: Status, datapath: DatapathWatch) -> TopFrame:
    """The frame of a status, with the datapath as it is now."""
    return TopFrame(now(), status, datapath.read(status))
