# SPDX-License-Identifier: Apache-2.0
"""By what a pool's load is balanced: each rule decides from what was counted, and says why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from dnsteer.agent.balance import spill
from dnsteer.agent.balance.slot_moves import Moves, Pace, PoolCounts, decide_moves
from dnsteer.slots.maintenance import Kind
from dnsteer.spec.model.balance import Balance


@dataclass(frozen=True)
class Rule:
    """Decides about the slots of a pool, given those that are given, and at most so many; *note* says why in words.

    *kind* is that of its entries; *to* is the backend that may get slots though its weight is 0.
    """

    kind: Kind
    decide: Callable[[Sequence[PoolCounts], Mapping[int, str], int], Moves]
    note: Callable[[Moves], str]
    to: str = ""


def rule_of(balance: Balance, metric: Mapping[str, float], waited: Mapping[str, int] | None = None) -> Rule:
    """The rule of a pool, with the *metric* of its backends now, and how long each has *waited*, as in the last Moves."""
    if balance.policy == "spill":
        return _spilling(balance, metric)
    return _by_metric(balance, metric, waited or {}) if balance.by == "metric" else _by_slots(balance)


def _by_slots(balance: Balance) -> Rule:
    def note(moves: Moves) -> str:
        before, after = moves.excess
        return f"{moves.hottest} got {before:.0%} more than its share; now {max(after, 0):.0%}"

    return Rule("balance", lambda c, given, most: decide_moves(c, given, balance.tolerance / 100, most), note)


def _by_metric(balance: Balance, metric: Mapping[str, float], waited: Mapping[str, int]) -> Rule:
    tolerance, change = balance.tolerance / 100, balance.change / 100

    def decide(counted: Sequence[PoolCounts], given: Mapping[int, str], most: int) -> Moves:
        if not any(any(c.packets) for c in counted):
            counted = [replace(c, packets=[1.0] * len(c.packets)) for c in counted]  # nobody asks: slots are equal
        load, weights = dict[str, float](), dict[str, float]()
        for c in counted:
            for name, weight in c.weights.items():
                weights[name] = weights.get(name, 0.0) + weight
                load[name] = load.get(name, 0.0) + sum(
                    packets for packets, owner in zip(c.packets, c.owners, strict=True) if owner == name
                )
        found = wanted_load(load, metric, weights, tolerance, balance.least / 100)
        if found is None:
            return Moves(given)
        counted = [replace(c, weights={name: found[name] for name in c.weights}) for c in counted]
        each = sum(load.values()) / sum(weights.values())
        pace = Pace(
            {name: change * now for name, now in load.items()},
            {name: change * max(now, each * weights[name]) for name, now in load.items()},
            waited,
        )
        return decide_moves(counted, given, tolerance, most, 0.0, pace)

    def note(moves: Moves) -> str:
        return f"{moves.hottest} is at {metric.get(moves.hottest, 0.0):.3g} by its metric, more than the others"

    return Rule("balance", decide, note)


def _spilling(balance: Balance, metric: Mapping[str, float]) -> Rule:
    assert balance.above is not None
    below = balance.gives_back_below
    rules = spill.SpillRules(balance.spills_to, balance.above, below, balance.change / 100)

    def note(moves: Moves) -> str:
        if not moves.hottest:
            return f"the metric is below {below:g}: slots go back"
        return f"{moves.hottest} is at {metric[moves.hottest]:.3g} by its metric, above {balance.above:g}"

    return Rule("spill", lambda c, given, most: spill.decide_spill(c, given, metric, rules, most), note, rules.to)


def wanted_load(
    load: Mapping[str, float], metric: Mapping[str, float], weights: Mapping[str, float], tolerance: float, least: float
) -> Mapping[str, float] | None:
    """Return the load that each backend should have, in the unit of *load*; None: all stays as it is.

    A backend whose metric is above the mean gets less, in proportion, until all are about the same. Whatever the metric is,
    a busy share, a queue or a latency, it needs only to grow with the load. `Pace` says how fast that is reached.

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
