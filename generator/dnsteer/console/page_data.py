# SPDX-License-Identifier: Apache-2.0
"""The data of pages: the snapshot of the agent, the rates of the last minutes, the change log, and what needs attention."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from prometheus_client import Metric

from dnsteer.console.change_log import ChangeLog
from dnsteer.console.rates import Series
from dnsteer.slots.owners import known_owners_of
from dnsteer.status.kept_connections import KeptConnections
from dnsteer.status.pools import PoolView, view_pools
from dnsteer.status.rates import Rates
from dnsteer.tables.meter_rows import Limited
from dnsteer.view.attention import Reachability, attention
from dnsteer.view.attention_item import AttentionItem
from dnsteer.view.limit_items import limit_items
from dnsteer.view.snapshot import StateSnapshot, SwitchSnapshot

Place = tuple[str, ...]
"""What is counted: ("vip", name, "queries" or "packets") or ("backend", pool, name, "queries" or "packets")."""


@dataclass(frozen=True)
class PageData:
    """The data that pages are made of, at a time."""

    time: datetime
    snapshot: SwitchSnapshot
    reachability: Reachability = field(default_factory=Reachability)
    pools: Sequence[PoolView] = ()
    items: Sequence[AttentionItem] = ()
    rates: Mapping[Hashable, float | None] = field(default_factory=dict)

    @property
    def stale(self) -> AttentionItem | None:
        """Why what is shown may be as it was before; None where it is not."""
        return next((item for item in self.items if item.stale), None)

    @property
    def applied(self) -> StateSnapshot | None:
        """The applied state; None if there is none, or it is not known."""
        return self.snapshot.applied


class PageHistory:
    """Keeps the counters of the last minutes and the change log, and makes the data of now. Used by one thread at a time."""

    def __init__(self, options: str = "") -> None:
        self.log = ChangeLog()
        self.traffic = Series()
        self.services = Series(60)
        """Packets of each service of each VIP: (name, "53/udp"). There may be thousands, so their past is short."""
        self.dropped: Mapping[Hashable, int] = {}
        """Packets that access lists and limits have dropped since the agent began: by list, and by VIP, service and kind."""
        self.limited = Series(60)
        """Packets that limits of VIPs dropped, by the VIP that is named and the kind."""
        self.options = options
        self._reached = Reachability()
        self._answered: datetime | None = None
        self._read_at: float | None = None
        self._pools: tuple[StateSnapshot | None, KeptConnections | None, Sequence[PoolView]] = (None, None, ())
        self.slots: dict[str, Series] = {}
        """Packets of each slot, by the title of the pool; of pools that are looked at alone."""

    def read(self, metrics: Iterable[Metric], time: float) -> None:
        """Add a reading, made at *time* in seconds on the clock of the rates."""
        if time == self._read_at:
            return  # a reading that was shared
        self._read_at = time
        totals: dict[Hashable, float] = {}
        services: dict[Hashable, float] = {}
        dropped: dict[Hashable, int] = {}
        up: bool | None = None
        as_recorded: bool | None = None
        extension: bool | None = None
        for metric in metrics:
            if metric.name == "dnsteer_service_packets":
                for sample in metric.samples:
                    vip, service = sample.labels["vip"], sample.labels["service"]
                    _add(totals, ("vip", vip), sample.value, service.endswith("/udp"))
                    services[vip, service] = services.get((vip, service), 0.0) + sample.value
            elif metric.name == "dnsteer_backend_packets":
                for sample in metric.samples:
                    labels = sample.labels
                    place = "backend", labels["pool"], labels["backend"]
                    _add(totals, place, sample.value, labels["protocol"] == "udp")
            elif metric.name in ("dnsteer_denied_packets", "dnsteer_limited_packets"):
                dropped |= {_dropped_by(sample.labels): int(sample.value) for sample in metric.samples}
            elif metric.name == "dnsteer_switch_up" and metric.samples:
                (sample, *_) = metric.samples
                if sample.labels.get("bridge") != "":  # the agent has begun, and no bridge was asked yet
                    up = bool(sample.value)
            elif metric.name == "dnsteer_tables_as_recorded" and metric.samples:
                as_recorded = bool(metric.samples[0].value)
            elif metric.name == "dnsteer_extension_up" and metric.samples:
                extension = bool(metric.samples[0].value)
        self._reached = Reachability(up, as_recorded, extension)
        if totals and up:
            self.traffic.add(time, totals)
            self.services.add(time, services)
            self.dropped = dropped
            self.limited.add(time, _by_vip_and_kind(dropped))

    def not_answered(self) -> None:
        """Record that the switch did not answer in time."""
        self._reached = replace(self._reached, up=False, as_recorded=None)

    def read_slots(self, found: Mapping[str, Mapping[int, int]], time: float) -> None:
        """Add packets by slot of the pools that are open in browsers, by title; forget the others."""
        self.slots = {title: self.slots.get(title) or Series(60) for title in found}
        for title, packets in found.items():
            if packets:
                self.slots[title].add(time, {slot: float(n) for slot, n in sorted(packets.items())})

    def page_data(self, snapshot: SwitchSnapshot, changes: Iterable[StateSnapshot], now: datetime) -> PageData:
        """The data of now, with the *changes* since the last call."""
        self.log.add(changes)
        applied = snapshot.applied
        connections = snapshot.agent.connections
        if self._pools[0] is not applied or self._pools[1] is not connections:
            views = (
                view_pools(applied.known.state.members, applied.overlay, Rates(), now, connections=connections)
                if applied is not None
                else ()
            )
            self._pools = applied, connections, views
        pools = self._pools[2]
        self.log.record_states(pools, snapshot.failing, now)
        if self._reached.up:
            self._answered = now
        reachability = self._reached if applied is not None else Reachability(self._reached.up)
        reachability = replace(reachability, answered=self._answered)
        items = [
            *attention(snapshot, reachability, now, self.options),
            *limit_items(self.limited.rates(), self.options),
        ]
        return PageData(now, snapshot, reachability, pools, items, self.traffic.rates())


def owners_by_title(applied: StateSnapshot, title: str, *, everybody: bool = False) -> tuple[str, ...]:
    """The backend of each slot of a pool by its title; with *everybody* when all are in service."""
    members = next(m for m in applied.known.state.members if m.title == title)
    entries = applied.overlay.of(members.pool)
    if everybody:
        entries = tuple(entry for entry in entries if not entry.takes_out)
        members = members._replace(members=tuple(m._replace(down=False) for m in members.members))
    return known_owners_of(members, entries)


def _dropped_by(labels: Mapping[str, str]) -> Hashable:
    """The access list, or the limit, that a sample counts for."""
    return labels["list"] if "list" in labels else Limited(labels["vip"], labels["service"], labels["kind"])  # type: ignore[arg-type]


def _by_vip_and_kind(dropped: Mapping[Hashable, int]) -> dict[Hashable, float]:
    found: dict[Hashable, float] = {}
    for place, packets in dropped.items():
        if isinstance(place, Limited) and place.vip:
            found[place.vip, place.kind] = found.get((place.vip, place.kind), 0.0) + packets
    return found


def _add(totals: dict[Hashable, float], place: Place, value: float, udp: bool) -> None:
    for unit, counts in (("queries", udp), ("packets", True)):
        key = (*place, unit)
        totals[key] = totals.get(key, 0.0) + (value if counts else 0.0)
