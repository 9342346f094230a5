# SPDX-License-Identifier: Apache-2.0
"""One client with one socket: sprayed over all backends, and by its source port all to one. That is why spray exists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.extension.running import apply, example, lab_of
from dnsteer import lab
from dnsteer.checks.load import load_spec
from dnsteer.lab import traffic
from dnsteer.lab.traffic import Load

QUERIES = 100_000


def run(folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Ask both kinds of pool from one socket; queries, losses and shares of each."""
    spec = example("spray")
    loaded = load_spec(spec).spec
    weights = {b.name: b.weight for b in loaded.pools["sprayed"].backends}
    by_port = folder / "by-port.yaml"
    by_port.write_text(spec.read_text().replace("pool: sprayed", "pool: by-port"))
    with lab_of(spec, say) as state:
        sprayed = _ask(state, str(loaded.vips["dns-udp"].addresses[0]), weights)
        apply(by_port)
        return {"spray": sprayed, "source-port": _ask(state, str(loaded.vips["dns-udp"].addresses[0]), weights)}


def _ask(state: lab.LabState, address: str, weights: dict[str, int]) -> dict[str, Any]:
    repeats = -(-QUERIES // traffic.queries_in_file())
    before = traffic.query_counters(state)
    with traffic.start_dnsperf(state, Load(address, clients=1, outstanding=100, repeats=repeats)) as running:
        result = running.wait(300.0)
    after = traffic.query_counters(state)
    seen = {name: after[name]["udp"] - before[name]["udp"] for name in weights}
    total = sum(seen.values())
    due = {name: weight / sum(weights.values()) for name, weight in weights.items()}
    return {
        "address": address,
        "queries": result.sent,
        "lost": result.lost,
        "qps": round(result.qps, 1),
        "shares": {name: round(count / total, 4) for name, count in seen.items()},
        "due": {name: round(share, 4) for name, share in due.items()},
        "worst_deviation": round(max(abs(seen[name] / total / due[name] - 1) for name in due), 4),
    }
