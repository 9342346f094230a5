"""By what a pool's load is balanced: each rule decides from what was counted, and says why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dnsteer.agent.balance import spill
from dnsteer.agent.balance.decide import Counted, Moves, decide_moves
from dnsteer.agent.balance.pace import Pace
from dnsteer.agent.balance.shares import wanted_load
from dnsteer.slots.maintenance import Kind
from dnsteer.spec.model.balance import Balance


@dataclass(frozen=True)
class Rule:
    """Decides about the slots of a pool, given those that are given, and at most so many; *note* says why in words.

    *kind* is that of its entries; *to* is the backend that may get slots though its weight is 0.
    """

    kind: Kind
    decide: Callable[[Sequence[Counted], Mapping[int, str], int], Moves]
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

    def decide(counted: Sequence[Counted], given: Mapping[int, str], most: int) -> Moves:
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
    rules = spill.Rules(balance.spills_to, balance.above, below, balance.change / 100)

    def note(moves: Moves) -> str:
        if not moves.hottest:
            return f"the metric is below {below:g}: slots go back"
        return f"{moves.hottest} is at {metric[moves.hottest]:.3g} by its metric, above {balance.above:g}"

    return Rule("spill", lambda c, given, most: spill.decide_spill(c, given, metric, rules, most), note, rules.to)
