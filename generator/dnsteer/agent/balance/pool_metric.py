# SPDX-License-Identifier: Apache-2.0
"""The metric of one pool's backends, wherever it comes from."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import suppress
from typing import TYPE_CHECKING

from dnsteer.agent.balance.metric import LARGEST, STALE, Metric, MetricError
from dnsteer.agent.health import Result
from dnsteer.agent.probes.targets import ProbeTarget
from dnsteer.metrics.observer import AgentObserver
from dnsteer.spec.model.spec import Backend, Pool, State
from dnsteer.switch.agent_record import TargetKey

if TYPE_CHECKING:
    from dnsteer.agent.balance.scraped_metric import Scraper


class PoolMetric:
    """The metric of the backends of a pool. Empty where the pool is not balanced by a metric."""

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
                observer.report_trouble(about, f"what {name} bears is not known: {wrong}")
            elif backend.name in known:
                observer.end_trouble(about, f"what {name} bears is known again")
            elif time > self._began + self._lasts:
                observer.report_trouble(about, f"what {name} bears is not known: nothing came for {self._lasts:g} s")

    async def close(self) -> None:
        """Close connections."""
        if self._scraper is not None:
            await self._scraper.close()


def _now() -> float:
    return asyncio.get_running_loop().time()
