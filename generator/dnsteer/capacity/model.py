# SPDX-License-Identifier: Apache-2.0
"""The capacity model of both cards, fitted to the published measurements, and its prediction for each published row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import geometric_mean

from dnsteer.capacity import cores, packet_time
from dnsteer.capacity.cores import CoreLatency, Cores, CoresOf
from dnsteer.capacity.packet_time import Latency, PacketTime
from dnsteer.capacity.readings import BoundedFigure, FigureReadings, SwitchState
from dnsteer.card.published import FigureRow, Measurement, Measures, Published, TrackingBy, published
from dnsteer.spec.model.spec import Hardware

PREAMBLE_AND_GAP = 20
"""Bytes on the wire in addition to each frame: preamble and start delimiter 8, inter-frame gap 12 (IEEE 802.3)."""
NOTICED = 0.1
"""Queueing delay is noticeable from this share of the latency at low load."""


def line_rate(gbps: float, frame: float) -> float:
    """Return the rate, in Mpps, at which frames of *frame* bytes fill a link of *gbps*."""
    return gbps * 1000 / 8 / (frame + PREAMBLE_AND_GAP)


def waiting(service: float, load: float) -> float:
    """Return the mean waiting time in an M/D/1 queue, in the unit of *service* (time per packet), at a *load* of 0 to 1."""
    return service * load / (2 * (1 - load))


@dataclass(frozen=True)
class PublishedRows:
    """The published rows of all cards, except those in *left_out*."""

    cards: Mapping[Hardware, Published]
    left_out: frozenset[tuple[Hardware, str]] = frozenset()

    def of(self, card: Hardware, *measures: Measures) -> list[tuple[str, FigureRow]]:
        """Return the rows of a card that measure one of *measures*, with their names."""
        return [(name, row) for name, row in self.cards[card].rows(*measures) if (card, name) not in self.left_out]

    def values(self, card: Hardware, *measures: Measures) -> list[FigureRow]:
        """Return the rows of a card that measure one of *measures*."""
        return [row for _, row in self.of(card, *measures)]

    def all(self) -> Iterator[tuple[Hardware, Measurement, str, FigureRow]]:
        """Yield every row with its card, table and name, including those left out."""
        for card, found in self.cards.items():
            for table in found.measurements:
                for n, row in enumerate(table.rows):
                    yield card, table, f"{table.id}[{n}]", row


def all_rows() -> PublishedRows:
    """Return the published rows that ship with dnsteer."""
    return PublishedRows({card: published(card) for card in Hardware})


class Model:
    """The model of one card. Each fit is made when it is first needed."""

    def __init__(self, card: Hardware, rows: PublishedRows) -> None:
        self.card = card
        self.rows = rows
        self.published = rows.cards[card]
        self.other = next(each for each in rows.cards if each is not card)

    @property
    def link(self) -> float:
        """The bandwidth of the tested link, in Gb/s."""
        assert self.published.facts is not None
        return self.published.facts.link_gbps.value

    # The eSwitch

    @cached_property
    def time(self) -> PacketTime:
        """The eSwitch's fitted time per packet."""
        own, others = (tuple(self.rows.values(card, "switch-rate")) for card in (self.card, self.other))
        return packet_time.fit_with(own, others)

    @cached_property
    def _rates(self) -> FigureReadings:
        rows = self.rows.of(self.card, "switch-rate")
        return FigureReadings(rows, ("depth", "entries", "counters", "rewrites", "frames"), rising=False)

    def rate(self, state: SwitchState) -> BoundedFigure:
        """Return the packet rate of the eSwitch, in Mpps."""
        model = self.time.rate(state.depth, state.entries, state.counters, state.rewrites)
        return self._rates.bound(state, model)

    def bandwidth(self, state: SwitchState) -> BoundedFigure:
        """Return the eSwitch's bandwidth for large frames on the tested link, in Gb/s on the wire."""
        rows = self.rows.of(self.card, "switch-bandwidth")
        model = _between([(r.depth, r.value) for _, r in rows if not r.tracking], state.depth, self.link)
        if state.tracking:
            shares = [
                r.value / self.link
                for c in (self.card, self.other)
                for r in self.rows.values(c, "switch-bandwidth")
                if r.tracking
            ]
            model *= geometric_mean(shares) if shares else 1.0
        return FigureReadings(rows, ("depth", "tracking"), rising=False).bound(state, model)

    @cached_property
    def latencies(self) -> Latency:
        """The fitted latency at low load."""
        other = packet_time.fit_latency(self.rows.values(self.other, "latency"))
        return packet_time.fit_latency(self.rows.values(self.card, "latency"), other)

    def latency(self, state: SwitchState) -> BoundedFigure:
        """Return the latency at low load in us, including the hosts."""
        rows = FigureReadings(self.rows.of(self.card, "latency"), ("depth", "tracking"), rising=True)
        return rows.bound(state, self.latencies.at(state.depth, state.tracking))

    def full_rate_frame(self, state: SwitchState) -> float:
        """Return the smallest frame, in bytes, that fills the link."""
        return max(64.0, self.link * 1000 / 8 / self.rate(state).value - PREAMBLE_AND_GAP)

    def knee(self, state: SwitchState) -> float:
        """Return the load, in Mpps, at which queueing delay becomes noticeable (NOTICED)."""
        rate = self.rate(state).value
        # service x load / (2 (1 - load)) = noticed
        noticed = 2 * NOTICED * self.latency(state).value * rate
        return rate * noticed / (1 + noticed)

    # Connections

    @cached_property
    def _connections(self) -> dict[str, dict[TrackingBy, float]]:
        return by_card({card.value: self.rows.values(card, "connections") for card in self.rows.cards})

    @cached_property
    def packets_of_a_connection(self) -> float:
        """Packets per connection through the eSwitch, both directions, from the rates without connection tracking."""
        rates = {
            c.value: (self if c is self.card else Model(c, self.rows)).rate(SwitchState()).value
            for c in self.rows.cards
        }
        return packets_of_a_connection(self._connections, rates)

    def connections(self, by: TrackingBy) -> BoundedFigure:
        """Return the rate of new connections, in thousands per second."""
        if by == "none":
            model = 1000 * self.rate(SwitchState()).value / self.packets_of_a_connection
        else:
            model = connections(self._connections)[self.card.value][by]
        return self._of_tracker("connections", by, model)

    def transactions(self, by: TrackingBy) -> BoundedFigure:
        """Return the rate of transactions, in thousands per second."""
        rows = {card.value: self.rows.values(card, "transactions") for card in self.rows.cards}
        return self._of_tracker("transactions", by, transactions(by_card(rows))[by])

    def _of_tracker(self, what: Measures, by: TrackingBy, model: float) -> BoundedFigure:
        same = [(name, row) for name, row in self.rows.of(self.card, what) if row.tracking_by == by]
        value = same[0][1].value if same else model
        return BoundedFigure(value, "reading" if same else "extrapolation", tuple(n for n, _ in same), value, value)

    # Cores

    @cached_property
    def cores(self) -> Mapping[CoresOf, Cores]:
        """The fitted forwarding rates by sort of cores; empty if none are published for this card."""
        rates = self.rows.values(self.card, "core-rate")
        return cores.fit_rates(rates, self.rows.values(self.card, "core-bandwidth"), self.link) if rates else {}

    def core_latency(self, of: CoresOf) -> CoreLatency:
        """Return the fitted latency through cores."""
        rows = self.rows.values(self.card, "core-latency")
        points = [(row.mpps or 0.0, row.value) for row in rows if row.cores_of == of]
        if of == "arm":  # a ping-pong test is a measurement at nearly no load
            pings = self.rows.values(self.card, "engine-latency")
            points += [(0.0, r.value) for r in pings if (r.engine, r.transport) == ("arm-scheduler", "udp")]
        return cores.fit_core_latency(points)

    def engine_added(self, engine: str, transport: str) -> float:
        """Return the latency that an engine adds to the eSwitch's, in us."""
        found = cores.engine_latencies(self.rows.values(self.card, "engine-latency"))
        return found[engine, transport] - found["eswitch", transport]

    # Published rows

    def predict(self, measures: Measures, row: FigureRow) -> float:
        """Return the model's figure for the conditions of a published row, in the row's unit."""
        frame = {"below 64 B": 63, "64 B": 64, "above 64 B": 65}[row.frames or "64 B"]
        state = SwitchState(row.depth, row.entries, row.counters, row.rewrites, row.tracking, frame)
        if measures == "switch-rate":
            return self.rate(state).value
        if measures == "switch-rate-kept":
            return self.rate(state).value / self.rate(SwitchState(entries=0)).value
        if measures == "switch-bandwidth":
            return self.bandwidth(state).value
        if measures == "full-rate-frame":
            return self.full_rate_frame(state)
        if measures == "knee":
            return self.knee(state)
        if measures == "latency":
            return self.latency(state).value
        if measures == "engine-latency":
            found = cores.engine_latencies(self.rows.values(self.card, "engine-latency"))
            return found[str(row.engine), str(row.transport)]
        if measures == "connections":
            return self.connections(row.tracking_by or "none").value
        if measures == "transactions":
            return self.transactions(row.tracking_by or "none").value
        of = row.cores_of or "arm"
        if measures == "core-latency":
            return self.core_latency(of).at(row.mpps or 0.0)
        if measures == "core-rate":
            return self.cores[of].rate(row.cores)
        return self.cores[of].bandwidth(row.cores, self.link)


def _between(points: list[tuple[int, float]], depth: int, link: float) -> float:
    """Return the bandwidth at a depth, in Gb/s, interpolated between the nearest measured (depth, Gb/s) *points*.

    Below the first point it starts from the link's bandwidth at depth 1. Beyond the last it follows the last slope if that
    falls, to at least a tenth of the last value. Without points it is the link's bandwidth.
    """
    points = sorted(points)
    lower = max((p for p in points if p[0] <= depth), default=(1, link))
    upper = min((p for p in points if p[0] >= depth), default=None)
    if upper is None:
        earlier = max((p for p in points if p[0] < lower[0]), default=None)
        if earlier is None or lower[1] >= earlier[1]:
            return lower[1]
        slope = (lower[1] - earlier[1]) / (lower[0] - earlier[0])
        return max(lower[1] + slope * (depth - lower[0]), 0.1 * lower[1])
    if upper[0] == lower[0]:
        return lower[1]
    return lower[1] + (upper[1] - lower[1]) * (depth - lower[0]) / (upper[0] - lower[0])


TrackerFigures = Mapping[str, Mapping[TrackingBy, float]]
"""Figures, in thousands per second, by card and tracker."""
_DATAPATHS: tuple[tuple[TrackingBy, TrackingBy], ...] = (
    ("ovs-dpdk-hw", "ovs-dpdk-sw"),
    ("ovs-kernel-hw", "ovs-kernel-sw"),
)


def by_card(rows: Mapping[str, Sequence[FigureRow]]) -> dict[str, dict[TrackingBy, float]]:
    """Return the rows' figures by card and tracker."""
    return {card: {r.tracking_by: r.value for r in found if r.tracking_by} for card, found in rows.items()}


def packets_of_a_connection(figures: TrackerFigures, mpps: Mapping[str, float]) -> float:
    """Return the packets per connection through the switch, derived from the cards' packet rates in Mpps."""
    return geometric_mean(1000 * mpps[card] / found["none"] for card, found in figures.items() if "none" in found)


def connections(figures: TrackerFigures) -> dict[str, dict[TrackingBy, float]]:
    """Return thousand connections per second with tracking, by card and tracker, smoothed over both cards."""
    out: dict[str, dict[TrackingBy, float]] = {card: {} for card in figures}
    for hard, soft in _DATAPATHS:
        share = geometric_mean(
            found[hard] / found[soft] for found in figures.values() if hard in found and soft in found
        )
        for card, found in figures.items():
            # The card's own level: from the figures in hardware and in software, as far as they exist.
            level = geometric_mean(found[t] / (share if t == hard else 1.0) for t in (hard, soft) if t in found)
            out[card] |= {hard: level * share, soft: level}
    return out


def transactions(figures: TrackerFigures) -> dict[TrackingBy, float]:
    """Return thousand transactions per second by tracker: the same on both cards, since the hosts limit them."""
    by_tracker: dict[TrackingBy, list[float]] = {}
    for found in figures.values():
        for tracker, value in found.items():
            by_tracker.setdefault(tracker, []).append(value)
    return {tracker: geometric_mean(values) for tracker, values in by_tracker.items()}
