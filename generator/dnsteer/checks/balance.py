# SPDX-License-Identifier: Apache-2.0
"""Pools whose load cannot be balanced as the spec says."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.spec.errors import Finding, Path, near
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.balance import Balance, MetricSource
from dnsteer.spec.model.spec import Backend, Pool, Selection

_OF_METRIC = ("source", "change", "least", "half_life")
_OF_SPILL = ("to", "above", "below")
_OF_SOURCE = {"prometheus": ("metric", "rate", "timeout"), "push": ("allow",), "probe": ()}
"""Keys that go with one way to get a metric alone."""
_SHORTEST = 1.0
"""Seconds between two readings of a pool's slots, at least."""


def check_balance(scope: Scope) -> Iterator[Finding]:
    """All findings about the balancing of load."""
    for name, pool in scope.spec.pools.items():
        if pool.balance is not None:
            yield from _pool(scope, ("pools", name, "balance"), pool, pool.balance)


def _pool(scope: Scope, base: Path, pool: Pool, balance: Balance) -> Iterator[Finding]:
    if pool.selection is Selection.SPRAY:
        yield scope.finding(
            base,
            "a pool with selection: spray",
            "another selection, or no balance",
            "each packet gets another slot, so all slots have the same load",
        )
    if balance.policy == "even" and sum(1 for backend in pool.backends if backend.weight) < 2:
        yield scope.finding(
            base,
            "a pool with one backend that has a weight",
            "two backends or more, or no balance",
            "its slots have nowhere else to go",
        )
    yield from _keys(scope, base, balance)
    if balance.by == "slots" and balance.interval < _SHORTEST:
        yield scope.finding(
            (*base, "interval"),
            f"{balance.interval * 1000:g}ms",
            "1s or more with by: slots",
            "each time the counters of all slots are read",
        )
    if balance.by == "metric":
        if balance.source is None:
            yield scope.finding(base, 'no key "source"', 'the key "source"', "for example source: probe-latency")
        else:
            yield from _source(scope, (*base, "source"), pool, balance, balance.source)
    if balance.policy == "spill":
        yield from _spill(scope, base, pool, balance)


def _keys(scope: Scope, base: Path, balance: Balance) -> Iterator[Finding]:
    given = balance.model_fields_set
    if balance.by == "slots":
        if balance.policy == "spill":
            yield scope.finding((*base, "by"), "slots", "metric", "spill follows a metric; the key may be left out")
        for key in filter(given.__contains__, _OF_METRIC):
            yield scope.finding((*base, key), f'the key "{key}" with by: slots', "by: metric, or no such key")
    if balance.policy == "even":
        for key in filter(given.__contains__, _OF_SPILL):
            yield scope.finding((*base, key), f'the key "{key}" without policy: spill', "policy: spill, or no such key")
    else:
        for key in filter(given.__contains__, ("tolerance", "least")):
            yield scope.finding((*base, key), f'the key "{key}" with policy: spill', "above and below, or no such key")
        for key in ("to", "above"):
            if getattr(balance, key) is None:
                yield scope.finding(base, f'no key "{key}"', f'the key "{key}" with policy: spill')


def _source(scope: Scope, base: Path, pool: Pool, balance: Balance, source: MetricSource) -> Iterator[Finding]:
    if len(source.kinds) != 1:
        found = " and ".join(source.kinds) if source.kinds else "no source"
        yield scope.finding(base, found, "one of prometheus, push and probe")
        return
    (kind,) = source.kinds
    for other, keys in _OF_SOURCE.items():
        for key in keys:
            if other != kind and key in source.model_fields_set:
                yield scope.finding((*base, key), f'the key "{key}" with {kind}', f"{other}, or no such key")
    if kind == "prometheus" and source.metric is None:
        yield scope.finding(base, 'no key "metric"', 'the key "metric"', "the name of the metric on that page")
    if kind == "probe":
        for key in ("full", "at_most"):
            if key in source.model_fields_set:
                yield scope.finding(
                    (*base, key), f'the key "{key}" with probe', "no such key", "latency has no full load"
                )
    elif source.at_most is not None and source.at_most < source.full:
        yield scope.finding(
            (*base, "at_most"),
            f"{source.at_most:g}",
            f"{source.full:g}, as full, or more",
            "a full load would not count",
        )
    if kind == "probe" and not pool.health:
        yield scope.finding(
            base, "the latency of probes in a pool without health checks", "a health check", "for example health: {}"
        )


def _spill(scope: Scope, base: Path, pool: Pool, balance: Balance) -> Iterator[Finding]:
    if balance.above is not None and balance.below is not None and balance.below > balance.above:
        yield scope.finding(
            (*base, "below"),
            f"{balance.below:g}",
            f"at most {balance.above:g}, as above",
            "between the two nothing moves, so that slots do not go back and forth",
        )
    if balance.to is None:
        return
    owner, slash, name = balance.to.rpartition("/")
    if slash and owner != base[1]:
        yield scope.finding(
            (*base, "to"), f'the pool "{owner}"', f"a backend of the pool {base[1]}", "both are backends of one pool"
        )
        return
    found = next((backend for backend in pool.backends if backend.name == name), None)
    if found is None:
        yield scope.finding(
            (*base, "to"),
            f'"{name}", no backend of the pool',
            "the name of a backend of this pool",
            near(name, (backend.name for backend in pool.backends)),
        )
        return
    if found.weight:
        yield scope.finding(
            (*base, "to"),
            f"the backend {name} with weight {found.weight}",
            "a backend with weight: 0",
            "by weight it would have clients all the time; so it has those that others give it",
        )
    elif not _has_families_of_others(found, pool.backends):
        yield scope.finding(
            (*base, "to"),
            f"the backend {name} without an address of a family that others have",
            "the families of the backends that give slots",
            "a query must have somewhere to go",
        )


def _has_families_of_others(one: Backend, backends: list[Backend]) -> bool:
    others = [backend for backend in backends if backend.weight]
    return all(
        getattr(one, family) is not None for family in ("ipv4", "ipv6") if any(getattr(b, family) for b in others)
    )
