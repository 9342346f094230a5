# SPDX-License-Identifier: Apache-2.0
"""Faults of name servers under load, with the agent and beside it dnsdist, with the same checks. Needs root (the lab).

Every fault happens to a server of its own, so that no checker remembers an earlier one. Prints JSON, and a table.

python -m bench.agent [--rounds 3] [--seed N]
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.agent import dnsdist, tables, world
from bench.agent.campaign import OTHERS, RATE, Campaign
from bench.agent.faults import DELAY, FAULTS
from bench.agent.figures import summarized
from bench.agent.peers import PUBLISHED
from bench.change.priority import niceness_counts, prefer
from bench.machine import machine
from dnsteer import lab
from dnsteer.lab.command import program_environment


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def measure(rounds: int, order: random.Random, folder: Path) -> dict[str, Any]:
    """All faults so many times, and the loss once, each of another server."""
    loaded = world.spec(rounds * len(FAULTS) + 2)
    file = folder / "bench.yaml"
    file.write_text(loaded.document.text)
    with niceness_counts():
        state = lab.up(loaded.spec, progress=say)
        try:
            apply = [sys.executable, "-m", "dnsteer", "apply", str(file), "--db", state.db]
            subprocess.run(apply, check=True, stdout=sys.stderr, env=program_environment())
            prefer(state)
            seen: dict[str, dict[str, list[dict[str, Any]]]] = {}
            with Campaign(state, loaded.spec, folder) as campaign:
                number = 0
                for turn in range(rounds):
                    for name in order.sample(list(FAULTS), len(FAULTS)):
                        number += 1
                        say(f"round {turn + 1} of {rounds}: {world.server(number)} {name}")
                        for way, found in campaign.one(name, world.server(number)).items():
                            seen.setdefault(name, {}).setdefault(way, []).append(found)
                say(f"{world.server(number + 1)} loses queries")
                loss = campaign.partial_loss(world.server(number + 1))
                collateral = campaign.collateral
        finally:
            lab.down()
    return {
        "faults": {name: {way: summarized(each) for way, each in seen[name].items()} for name in FAULTS},
        "loss": loss,
        "other_servers_clients": collateral,
    }


def main() -> int:
    """Run the benchmark; exit status 1 when a client of a server without a fault lost a query."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    started = time.monotonic()
    report: dict[str, Any] = {
        "machine": {**machine(), "dnsdist": dnsdist.version()},
        "seed": options.seed,
        "checks": {
            "interval_s": world.INTERVAL,
            "timeout_s": world.TIMEOUT,
            "fall": world.FALL,
            "rise": world.RISE,
        },
        "load": {"affected_qps": RATE, "all_qps": OTHERS, "slow_answer_s": DELAY},
    }
    random.seed(options.seed)
    with tempfile.TemporaryDirectory(prefix="dnsteer-") as name:
        report |= measure(options.rounds, random.Random(options.seed), Path(name))
    report["published"] = PUBLISHED
    report["seconds"] = round(time.monotonic() - started, 1)
    json.dump(report, sys.stdout, indent=2)
    sys.stdout.write("\n")
    tables.show(report, Console(stderr=True, width=150))
    others = report["other_servers_clients"]
    return 1 if others["lost"] or others["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
