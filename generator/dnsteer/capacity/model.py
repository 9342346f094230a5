"""The model: everything fitted to what is published, for both cards; and what it says of each published row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import geometric_mean

from dnsteer.capacity import cores, switch, tracking
from dnsteer.capacity.cores import CoreLatency, Cores, CoresOf
from dnsteer.capacity.readings import BoundedFigure, Readings, SwitchState
from dnsteer.capacity.switch import Latency, PacketTime
from dnsteer.card.published import Measurement, Measures, Published, Row, TrackingBy, published
from dnsteer.spec.model.spec import Hardware

PREAMBLE_AND_GAP = 20
"""Bytes that each frame takes on the wire besides itself: preamble and start 8, gap 12 (IEEE 802.3)."""
NOTICED = 0.1
"""Share of the latency at low load from which waiting is noticed."""


def line_rate(gbps: float, frame: float) -> float:
    """Frames of *frame* bytes per second that fill a link, in millions."""
    return gbps * 1000 / 8 / (frame + PREAMBLE_AND_GAP)


def waiting(service: float, load: float) -> float:
    """Mean time in the queue before a server that takes *service* for each packet, at a *load* of 0..1 (M/D/1)."""
    return service * load / (2 * (1 - load))


@dataclass(frozen=True)
class PublishedRows:
    """The published rows of all cards, without those that are left out."""

    cards: Mapping[Hardware, Published]
    left_out: frozenset[tuple[Hardware, str]] = frozenset()

    def of(self, card: Hardware, *measures: Measures) -> list[tuple[str, Row]]:
        """The rows of a card by name."""
        return [(name, row) for name, row in self.cards[card].rows(*measures) if (card, name) not in self.left_out]

    def values(self, card: Hardware, *measures: Measures) -> list[Row]:
        """The rows of a card."""
        return [row for _, row in self.of(card, *measures)]

    def all(self) -> Iterator[tuple[Hardware, Measurement, str, Row]]:
        """Every row there is, left out or not."""
        for card, found in self.cards.items():
            for table in found.measurements:
                for n, row in enumerate(table.rows):
                    yield card, table, f"{table.id}[{n}]", row


def all_rows() -> PublishedRows:
    """The rows that the product ships."""
    return PublishedRows({card: published(card) for card in Hardware})


class Model:
    """Everything that is known of one card. Fits are made when they are first needed."""

    def __init__(self, card: Hardware, rows: PublishedRows) -> None:
        self.card = card
        self.rows = rows
        self.published = rows.cards[card]
        self.other = next(each for each in rows.cards if each is not card)

    @property
    def link(self) -> float:
        """Gb/s of the link as tested."""
        assert self.published.facts is not None
        return self.published.facts.link_gbps.value

    # The eSwitch

    @cached_property
    def time(self) -> PacketTime:
        """What packets cost."""
        own, others = (tuple(self.rows.values(card, "switch-rate")) for card in (self.card, self.other))
        return switch.fit_with(own, others)

    @cached_property
    def _rates(self) -> Readings:
        rows = self.rows.of(self.card, "switch-rate")
        return Readings(rows, ("depth", "entries", "counters", "rewrites", "frames"), rising=False)

    def rate(self, state: SwitchState) -> BoundedFigure:
        """Packets through the eSwitch, in millions per second."""
        model = self.time.rate(state.depth, state.entries, state.counters, state.rewrites)
        return self._rates.bound(state, model)

    def bandwidth(self, state: SwitchState) -> BoundedFigure:
        """Gb/s of large frames through the eSwitch, on the wire, with the link as tested."""
        rows = self.rows.of(self.card, "switch-bandwidth")
        model = _between([(r.depth, r.value) for _, r in rows if not r.tracking], state.depth, self.link)
        if state.tracking:
            shares = [r.value / self.link for c in (self.card, self.other) for r in self.rows.values(c, "switch-bandwidth")
                      if r.tracking]  # fmt: skip
            model *= geometric_mean(shares) if shares else 1.0
        return Readings(rows, ("depth", "tracking"), rising=False).bound(state, model)

    @cached_property
    def latencies(self) -> Latency:
        """Latency at low load."""
        other = switch.fit_latency(self.rows.values(self.other, "latency"))
        return switch.fit_latency(self.rows.values(self.card, "latency"), other)

    def latency(self, state: SwitchState) -> BoundedFigure:
        """Latency at low load in us, hosts included."""
        rows = Readings(self.rows.of(self.card, "latency"), ("depth", "tracking"), rising=True)
        return rows.bound(state, self.latencies.at(state.depth, state.tracking))

    def full_rate_frame(self, state: SwitchState) -> float:
        """The smallest frame, in bytes, at which the link is full."""
        return max(64.0, self.link * 1000 / 8 / self.rate(state).value - PREAMBLE_AND_GAP)

    def knee(self, state: SwitchState) -> float:
        """The load in Mpps at which waiting is noticed."""
        rate = self.rate(state).value
        # service x load / (2 (1 - load)) = noticed
        noticed = 2 * NOTICED * self.latency(state).value * rate
        return rate * noticed / (1 + noticed)

    # Connections

    @cached_property
    def _connections(self) -> dict[str, dict[TrackingBy, float]]:
        return tracking.by_card({card.value: self.rows.values(card, "connections") for card in self.rows.cards})

    @cached_property
    def packets_of_a_connection(self) -> float:
        """Packets that a connection takes through the eSwitch, both ways, by the rates without connection tracking."""
        rates = {
            c.value: (self if c is self.card else Model(c, self.rows)).rate(SwitchState()).value
            for c in self.rows.cards
        }
        return tracking.packets_of_a_connection(self._connections, rates)

    def connections(self, by: TrackingBy) -> BoundedFigure:
        """New connections in thousands per second."""
        if by == "none":
            model = 1000 * self.rate(SwitchState()).value / self.packets_of_a_connection
        else:
            model = tracking.connections(self._connections)[self.card.value][by]
        return self._of_tracker("connections", by, model)

    def transactions(self, by: TrackingBy) -> BoundedFigure:
        """Transactions in thousands per second."""
        rows = {card.value: self.rows.values(card, "transactions") for card in self.rows.cards}
        return self._of_tracker("transactions", by, tracking.transactions(tracking.by_card(rows))[by])

    def _of_tracker(self, what: Measures, by: TrackingBy, model: float) -> BoundedFigure:
        same = [(name, row) for name, row in self.rows.of(self.card, what) if row.tracking_by == by]
        value = same[0][1].value if same else model
        return BoundedFigure(value, "reading" if same else "extrapolation", tuple(n for n, _ in same), value, value)

    # Cores

    @cached_property
    def cores(self) -> Mapping[CoresOf, Cores]:
        """What cores forward; empty where nobody has published it."""
        rates = self.rows.values(self.card, "core-rate")
        return cores.fit_rates(rates, self.rows.values(self.card, "core-bandwidth"), self.link) if rates else {}

    def core_latency(self, of: CoresOf) -> CoreLatency:
        """Latency through cores."""
        rows = self.rows.values(self.card, "core-latency")
        points = [(row.mpps or 0.0, row.value) for row in rows if row.cores_of == of]
        if of == "arm":  # ping-pong is the same at next to no load
            pings = self.rows.values(self.card, "engine-latency")
            points += [(0.0, r.value) for r in pings if (r.engine, r.transport) == ("arm-scheduler", "udp")]
        return cores.fit_core_latency(points)

    def engine_added(self, engine: str, transport: str) -> float:
        """What an engine adds to the latency of the eSwitch, in us."""
        found = cores.engine_latencies(self.rows.values(self.card, "engine-latency"))
        return found[engine, transport] - found["eswitch", transport]

    # Published rows

    def predict(self, measures: Measures, row: Row) -> float:
        """The model's figure for the conditions of a published row."""
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
    """Bandwidth at a depth: as the nearest measured depths say, in proportion between them; the link's where none does."""
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
