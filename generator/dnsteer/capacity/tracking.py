"""New connections and transactions per second, by who tracks connections.

Without tracking a connection is so many packets through the eSwitch. With it, hardware offload costs a share of what the
same datapath does in software, and this share is the same on both cards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from dnsteer.capacity.data import Row, TrackingBy
from dnsteer.capacity.solve import mean_of_ratios

Figures = Mapping[str, Mapping[TrackingBy, float]]
"""Figures by card and tracker."""
_DATAPATHS: tuple[tuple[TrackingBy, TrackingBy], ...] = (
    ("ovs-dpdk-hw", "ovs-dpdk-sw"),
    ("ovs-kernel-hw", "ovs-kernel-sw"),
)


def by_card(rows: Mapping[str, Sequence[Row]]) -> dict[str, dict[TrackingBy, float]]:
    """Rows as figures."""
    return {card: {r.tracking_by: r.value for r in found if r.tracking_by} for card, found in rows.items()}


def packets_of_a_connection(figures: Figures, mpps: Mapping[str, float]) -> float:
    """Packets that a connection takes through the switch, from the cards' packet rates in Mpps."""
    return mean_of_ratios([(1000 * mpps[card], found["none"]) for card, found in figures.items() if "none" in found])


def connections(figures: Figures) -> dict[str, dict[TrackingBy, float]]:
    """Thousand connections per second with tracking, by card and tracker: smoothed over both cards."""
    out: dict[str, dict[TrackingBy, float]] = {card: {} for card in figures}
    for hard, soft in _DATAPATHS:
        both = [(found[hard], found[soft]) for found in figures.values() if hard in found and soft in found]
        share = mean_of_ratios(both)
        for card, found in figures.items():
            # The card's own level: from each of the two figures that is there.
            level = mean_of_ratios([(found[t], share if t == hard else 1.0) for t in (hard, soft) if t in found])
            out[card] |= {hard: level * share, soft: level}
    return out


def transactions(figures: Figures) -> dict[TrackingBy, float]:
    """Thousand transactions per second by tracker: the same on both cards, since the hosts limit them."""
    out: dict[TrackingBy, list[tuple[float, float]]] = {}
    for _, (tracker, value) in product([0], [item for found in figures.values() for item in found.items()]):
        out.setdefault(tracker, []).append((value, 1.0))
    return {tracker: mean_of_ratios(found) for tracker, found in out.items()}
