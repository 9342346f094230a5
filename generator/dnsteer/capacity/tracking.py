"""New connections and transactions per second, by connection tracker.

Without tracking, a connection is a fixed number of packets through the eSwitch. With tracking, hardware offload reaches a
fixed multiple of the same datapath's rate in software, and the multiple is the same on both cards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import geometric_mean

from dnsteer.card.published import FigureRow, TrackingBy

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
