"""From a metric of each backend to the load that each should have: a pure function.

Who bears more than the mean should have less, in proportion, until all bear about the same: whatever the metric is, a busy
share, a queue or a latency, it needs only to grow with the load. How fast that is reached is the matter of `pace`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf


def wanted_load(
    load: Mapping[str, float], metric: Mapping[str, float], weights: Mapping[str, float], tolerance: float, least: float
) -> Mapping[str, float] | None:
    """Return the load that each backend should have, in the unit of *load*; None: all stays as it is.

    All have a *load*, what they have now, and *weights*; those whose *metric* is not known keep their load. *tolerance*
    is how far above the mean by weight a metric may be, *least* the part of its share by weight that a backend keeps, as
    numbers from 0 to 1. What one bears for what it has says little far from that: none should have more than twice its
    load, or its share by weight more than its load, if that is more.
    """
    known = {name: metric[name] for name in load if name in metric}
    total = sum(load[name] for name in known)
    weight = sum(weights[name] for name in known)
    mean = sum(value * weights[name] / weight for name, value in known.items())
    if len(known) < 2 or not total or mean <= 0 or max(known.values()) <= mean * (1 + tolerance):
        return None
    gives, takes = dict[str, float](), dict[str, float]()
    for name, value in known.items():
        now, share = load[name], total * weights[name] / weight
        if value > mean:
            gives[name] = now - max(now * mean / value, min(now, least * share))
        else:
            most = min(now * mean / value if value else inf, now + max(now, share))
            takes[name] = max(most, least * share, now) - now  # a product of tiny values may be 0
    moved = min(sum(gives.values()), sum(takes.values()))
    if not moved:
        return None
    less = {name: load[name] - amount * moved / sum(gives.values()) for name, amount in gives.items()}
    more = {name: load[name] + amount * moved / sum(takes.values()) for name, amount in takes.items()}
    return {**load, **less, **more}
