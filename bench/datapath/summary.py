# SPDX-License-Identifier: Apache-2.0
"""Medians and spreads, and the two questions that the benchmark was made for."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from bench.datapath.counters import Sample


def spread(values: Sequence[float], digits: int = 1) -> dict[str, float]:
    """Median, least and most."""
    return {
        "median": round(statistics.median(values), digits),
        "least": round(min(values), digits),
        "most": round(max(values), digits),
    }


def row(family: str, clients: int, case: str, settings: str, samples: Sequence[Sample]) -> dict[str, Any]:
    """One line of a table: rates of all rounds, and how packets found their flows in the round nearest to the median."""
    middle = sorted(samples, key=lambda s: s.cycles)[len(samples) // 2]
    hits = {k: v for k, v in middle.as_json().items() if k not in ("mpps", "cycles", "waited")}
    return {
        "family": family,
        "clients": clients,
        "case": case,
        "settings": settings,
        "mpps": spread([s.mpps for s in samples], 2),
        "cycles": spread([s.cycles for s in samples]),
        "waited": round(max(s.waited for s in samples), 4),
        **hits,
    }


def targets(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """NAT by source port against port forwarding and against dp-hash, in the same settings: ratios of median rates."""
    rate = {(r["family"], r["clients"], r["case"], r["settings"]): r["mpps"]["median"] for r in rows}
    out = []
    for family, clients, settings in dict.fromkeys((f, c, s) for f, c, _, s in rate):
        ours = rate[family, clients, "nat source-port", settings]
        against = {"of_port": "port", "of_port_and_mac": "port and MAC", "of_dp_hash": "nat dp-hash"}
        ratios = {name: round(ours / rate[family, clients, case, settings], 2) for name, case in against.items()}
        dsr = rate[family, clients, "dsr source-port", settings] / rate[family, clients, "dsr dp-hash", settings]
        out.append(
            {"family": family, "clients": clients, "settings": settings, **ratios, "dsr_of_dp_hash": round(dsr, 2)}
        )
    return out
