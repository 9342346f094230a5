"""The metric of each backend of a pool: smoothed, and forgotten when nothing comes any more."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING

from dnsteer.agent.health import Result
from dnsteer.agent.probes.targets import ProbeTarget
from dnsteer.metrics.observer import AgentObserver
from dnsteer.spec.model.spec import Backend, Pool, State
from dnsteer.switch.agent_record import TargetKey

if TYPE_CHECKING:
    from dnsteer.agent.balance.scraped_metric import Scraper

STALE = 3.0
"""Intervals after which a value that is not followed by another does not count any more."""
LARGEST = 1e15
"""Values above it are mistakes: sums and quotients of those up to it stay numbers."""
SMALLEST = 1e-12
"""Values below it count as 0, for the same reason."""
JUMP = 10.0
"""How many times the largest value in the pool lately a new one counts at most, unless it is within a full load, 1."""


class MetricError(Exception):
    """A value that is none; the message says what was found instead."""


def usable(value: float) -> float:
    """Return a *value* that can be compared. Raises MetricError for NaN, infinity and what is below 0."""
    if not isfinite(value):
        raise MetricError(f"{value:g} is not finite")
    if value < 0:
        raise MetricError(f"{value:g} is below 0")
    return value


@dataclass
class _Value:
    smoothed: float
    time: float


@dataclass
class Metric:
    """Values by backend. Old ones count half after *half_life* seconds, and none after *lasts* without another.

    Values are given in the unit of *full*, a full load, and known as parts of it. One above *most* is refused. One above a
    full load that is more than JUMP times what any backend bore lately counts as that much: a single mistake is forgotten
    within a few half-lives, and a load that lasts counts whole soon.
    """

    half_life: float
    lasts: float
    most: float = LARGEST
    full: float = 1.0
    _values: dict[str, _Value] = field(default_factory=dict)
    _counters: dict[str, tuple[float, float]] = field(default_factory=dict)

    def add(self, backend: str, value: float, time: float) -> None:
        """Take in a value at a *time* in seconds. Raises MetricError."""
        value = usable(value)
        if value > self.most:
            raise MetricError(f"{value:g} is above {self.most:g}, the most that counts")
        value /= self.full
        known = self._values.get(backend)
        if known is not None and time - known.time > self.lasts:
            known = None
        usual = max(self.known(time).values(), default=0.0)
        value = min(value if value >= SMALLEST else 0.0, max(JUMP * usual, 1.0) if usual else value)
        if known is None:
            self._values[backend] = _Value(value, time)
            return
        keeps = 0.5 ** (max(time - known.time, 0.0) / self.half_life) if self.half_life else 0.0
        smoothed = known.smoothed * keeps + value * (1 - keeps)
        known.smoothed, known.time = smoothed if smoothed >= SMALLEST else 0.0, time

    def add_counter(self, backend: str, total: float, time: float) -> None:
        """Take in a counter, whose growth a second is the value. One that began anew gives none. Raises MetricError."""
        last, total = self._counters.get(backend), usable(total)
        self._counters[backend] = total, time
        if last is not None and total >= last[0] and last[1] < time <= last[1] + self.lasts:
            self.add(backend, (total - last[0]) / (time - last[1]), time)

    def known(self, time: float) -> Mapping[str, float]:
        """The values that still count. Any thread may ask."""
        return {name: found.smoothed for name, found in [*self._values.items()] if time - found.time <= self.lasts}

    def keep(self, backends: Collection[str]) -> None:
        """Forget all other backends."""
        self._values = {name: found for name, found in self._values.items() if name in backends}
        self._counters = {name: found for name, found in self._counters.items() if name in backends}


class PoolMetric:
    """What the backends of a pool bear. Empty where the pool is not balanced by a metric."""

    def __init__(self, name: str, pool: Pool, time: float) -> None:
        balance = pool.balance
        assert balance is not None
        self._name, self._source, self._began = name, balance.source, time
        half_life = balance.interval if balance.half_life is None else balance.half_life
        longest = max((check.interval for check in pool.health or ()), default=0.0) if self._by_probes else 0.0
        self._lasts = STALE * max(balance.interval, longest, 1.0)
        full = 1.0 if self._source is None or self._by_probes else self._source.full
        at_most = self._source.at_most if self._source is not None else None
        most = LARGEST * full if at_most is None else min(at_most, LARGEST * full)
        self._metric = Metric(half_life, self._lasts, most, full)
        self._took: dict[str, dict[TargetKey, float]] = {}
        self._wrong: dict[str, MetricError] = {}
        self._backends: list[Backend] = []
        self._scraper: Scraper | None = None
        self.adopt(pool)

    @property
    def _by_probes(self) -> bool:
        return self._source is not None and self._source.probe is not None

    def adopt(self, pool: Pool) -> None:
        """Follow the pool of another spec with the same rules."""
        assert pool.balance is not None
        to = pool.balance.spills_to
        serving = [b for b in pool.backends if b.state is State.UP and (b.weight or b.name == to)]
        self._backends = serving if self._source is not None else []
        names = {backend.name for backend in self._backends}
        self._metric.keep(names)
        for known in (self._took, self._wrong):
            for name in known.keys() - names:
                del known[name]

    def known(self, time: float) -> Mapping[str, float]:
        """The metric of each backend, as far as it is known."""
        return self._metric.known(time)

    def add(self, backend: str, value: float) -> None:
        """Take in a value that a backend sent. Raises MetricError."""
        self._metric.add(backend, value, _now())

    def probed(self, target: ProbeTarget, result: Result) -> None:
        """Take in how long a probe took; one without an answer at least as long as it may."""
        if not self._by_probes:
            return
        took = self._took.setdefault(target.backend, {})
        took[target.key] = result.took if result.good else max(result.took, target.timeout)
        with suppress(MetricError):
            self._metric.add(target.backend, max(took.values()), _now())

    async def scrape(self, thread: Executor) -> None:
        """Ask all backends, where they are asked; their pages are read in *thread*."""
        source = self._source
        if source is None or source.prometheus is None:
            return
        try:
            from dnsteer.agent.balance.scraped_metric import Scraper  # here: no other agent needs its packages
        except ModuleNotFoundError as err:
            missing = MetricError(f"the package {err.name} is missing; pip install 'dnsteer[agent]'")
            self._wrong = {backend.name: missing for backend in self._backends}
            return
        self._scraper = self._scraper or Scraper(thread)
        self._wrong = {}
        for name, value in (await self._scraper.scrape(source, self._name, self._backends)).items():
            try:
                if isinstance(value, MetricError):
                    raise value
                (self._metric.add_counter if source.rate else self._metric.add)(name, value, _now())
            except MetricError as err:
                self._wrong[name] = err

    def tell(self, observer: AgentObserver) -> None:
        """Say whose metric is not known, once until it is."""
        time = _now()
        known = self.known(time)
        for backend in self._backends:
            name = f"{self._name}/{backend.name}"
            about, wrong = f"the metric of {name}", self._wrong.get(backend.name)
            if wrong is not None:
                observer.fails(about, f"what {name} bears is not known: {wrong}")
            elif backend.name in known:
                observer.works(about, f"what {name} bears is known again")
            elif time > self._began + self._lasts:
                observer.fails(about, f"what {name} bears is not known: nothing came for {self._lasts:g} s")

    async def close(self) -> None:
        """Close connections."""
        if self._scraper is not None:
            await self._scraper.close()


def _now() -> float:
    return asyncio.get_running_loop().time()
