# SPDX-License-Identifier: Apache-2.0
"""What general-purpose cores forward, on the card (arm) and, for comparison, on the host: rate, bandwidth and latency.

rate      = min(core x cores, ceiling)
bandwidth = min(core x bits x cores, link), where bits are the same on both sorts of cores
latency   = idle + batching x (1 - exp(-load / rise))
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Literal

from dnsteer.capacity.fit import minimum, solve
from dnsteer.card.published import FigureRow

CoresOf = Literal["host", "arm"]
LARGE_FRAME = 1518
"""The frame size of the bandwidth tests, in bytes; the source does not state it, so Ethernet's largest is assumed."""
_RISE = (0.1, 10.0)


@dataclass(frozen=True)
class Cores:
    """One sort of cores: *core* is the Mpps of one, *ceiling* of any number; *bits* is large-frame Mb/s per Mpps."""

    core: float
    ceiling: float
    bits: float

    def rate(self, cores: int, frame: float = 64) -> float:
        """Return the packet rate of *cores* cores, in Mpps."""
        return min(cores * 1000 / self.packet_time(frame), self.ceiling)

    def packet_time(self, frame: float) -> float:
        """Return one core's time for a packet, in ns, linear in the frame size between 64 and LARGE_FRAME bytes."""
        small, large = 1000 / self.core, LARGE_FRAME * 8 * 1000 / (self.core * self.bits)
        return small + (large - small) * (frame - 64) / (LARGE_FRAME - 64)

    def bandwidth(self, cores: int, link: float) -> float:
        """Return the bandwidth for large frames, in Gb/s."""
        return min(self.core * self.bits * cores / 1000, link)


def fit_rates(rows: Sequence[FigureRow], bandwidths: Sequence[FigureRow], link: float) -> dict[CoresOf, Cores]:
    """Fit both sorts of cores to their published rates and bandwidths."""
    found = {of: _knee([r for r in rows if r.cores_of == of]) for of in _sorts(rows)}
    single = [
        row.value * 1000 / (found[row.cores_of][0] * row.cores)
        for row in bandwidths
        if row.cores_of in found and row.cores == 1
    ]
    bits = geometric_mean(single)
    return {of: Cores(core, ceiling, bits) for of, (core, ceiling) in found.items()}


def _sorts(rows: Sequence[FigureRow]) -> list[CoresOf]:
    return list(dict.fromkeys(row.cores_of for row in rows if row.cores_of is not None))


def _knee(rows: Sequence[FigureRow]) -> tuple[float, float]:
    """Return the Mpps of one core and the ceiling: up to some row the rate grows with the cores, then it is the ceiling."""
    ordered = sorted(rows, key=lambda row: row.cores)
    out: list[tuple[float, float, float]] = []
    for split in range(1, len(ordered)):
        core = geometric_mean(row.value / row.cores for row in ordered[:split])
        ceiling = geometric_mean(row.value for row in ordered[split:])
        error = sum((min(core * r.cores, ceiling) / r.value - 1) ** 2 for r in ordered)
        out.append((error, core, ceiling))
    return min(out)[1:]


@dataclass(frozen=True)
class CoreLatency:
    """Latency in us of one sort of cores against the load in Mpps; constant beyond the range of measured *loads*."""

    idle: float
    batching: float
    rise: float
    loads: tuple[float, float]

    def at(self, mpps: float) -> float:
        """Return the latency in us at a load in Mpps."""
        load = min(max(mpps, self.loads[0]), self.loads[1])
        return self.idle + self.batching * (1 - math.exp(-load / self.rise))


def fit_core_latency(points: Sequence[tuple[float, float]]) -> CoreLatency:
    """Fit a latency curve to points (load in Mpps, latency in us)."""
    figures = [latency for _, latency in points]

    def design(rise: float) -> list[Mapping[str, float]]:
        return [{"idle": 1.0, "batching": 1 - math.exp(-load / rise)} for load, _ in points]

    names = ("idle", "batching")
    rise = minimum(lambda r: solve(names, design(r), figures, {}).error, *_RISE)
    found = solve(names, design(rise), figures, {}).values
    loads = [load for load, _ in points]
    return CoreLatency(found["idle"], found["batching"], rise, (min(loads), max(loads)))


def engine_latencies(rows: Sequence[FigureRow]) -> Mapping[tuple[str, str], float]:
    """Return the latency in us by engine and transport: the transport's, plus what the engine adds."""
    engines = list(dict.fromkeys(str(row.engine) for row in rows))
    transports = list(dict.fromkeys(str(row.transport) for row in rows))
    names = [*transports, *engines[1:]]

    def factors(engine: str, transport: str) -> dict[str, float]:
        return {transport: 1.0, **({engine: 1.0} if engine in names else {})}

    found = solve(names, [factors(str(r.engine), str(r.transport)) for r in rows], [r.value for r in rows], {})
    return {
        (engine, transport): sum(found.values[name] for name in factors(engine, transport))
        for engine in engines
        for transport in transports
    }
