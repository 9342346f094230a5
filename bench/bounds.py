# SPDX-License-Identifier: Apache-2.0
"""Megaflows that kinds of junk make of the example specs, beside the most that lint computes for each kind.

Junk is drawn at random, and by somebody who knows the spec, and goes to a private switch that forgets no megaflow, with the
meters of the spec. Prints JSON; the exit status is 1 when a kind makes more than was computed for it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from bench.junk import junk_kinds, send_junk
from bench.machine import machine
from bench.masks import EXAMPLES
from dnsteer.checks.load import load_spec
from dnsteer.lint.masks.attackers import network_attacker, routed_attacker
from dnsteer.lint.masks.megaflows import IDLE_SECONDS, megaflow_bounds, show_count
from dnsteer.lint.megaflow_count import bound_as_json
from dnsteer.plan.build import build_plan
from dnsteer.proof.harness.switch import Harness
from dnsteer.render.meters import meters_of
from dnsteer.switch.meters import bring_meters
from dnsteer.tables.meter_rows import MeterRow


def measure(file: Path, packets: int, seed: int) -> dict[str, object]:
    """The bounds of a spec, and what each kind of junk makes."""
    loaded = load_spec(file)
    plan = build_plan(loaded)
    start = time.perf_counter()
    attackers = (routed_attacker(loaded.spec), network_attacker(loaded.spec))
    bounds = megaflow_bounds(plan, attackers)
    took = time.perf_counter() - start
    kinds = junk_kinds(loaded)
    rows: list[dict[str, object]] = []
    rates = sum(meter.rate for meter in plan.rows.of(MeterRow))
    with Harness(plan) as harness:
        bring_meters(harness.openflow, (), meters_of(plan))  # the harness lets everything pass them
        for kind, computed in zip(kinds, megaflow_bounds(plan, [each.attacker() for each in kinds]), strict=True):
            start = time.perf_counter()
            made = send_junk(harness, kind, packets, seed)
            longer = max(0.0, time.perf_counter() - start - IDLE_SECONDS)
            shown = computed.total if computed.total < 1 << 53 else show_count(computed.total)
            # Computed is for megaflows that leave when idle; here none leaves.
            ok = made <= computed.total + rates * longer
            rows.append({"kind": kind.name, "made": made, "computed": shown, "ok": ok})
    return {
        "spec": file.name,
        "bounds": [{k: v for k, v in bound_as_json(bound).items() if k != "kinds"} for bound in bounds],
        "bound_seconds": round(took, 2),
        "packets_of_a_kind": packets,
        "seed": seed,
        "junk": rows,
        "ok": all(row["ok"] for row in rows),
    }


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("specs", nargs="*", type=Path, default=sorted(EXAMPLES.glob("*.yaml")))
    parser.add_argument("--packets", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=53)
    options = parser.parse_args()
    rows = [measure(file, options.packets, options.seed) for file in options.specs]
    json.dump({"machine": machine(), "results": rows}, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
