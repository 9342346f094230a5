# SPDX-License-Identifier: Apache-2.0
"""Change under load: everything that changes of a running switch do to its clients. Prints JSON. Needs root (the lab).

python -m bench.change [--changes 200] [--parts quick,quiet,campaign,kept,crash] [--seed N]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.change import campaign, crash, quick, quiet
from bench.change.load import QPS
from bench.change.priority import niceness_counts
from bench.change.world import World
from bench.machine import machine
from dnsteer import lab

PARTS = ("quick", "quiet", "campaign", "kept", "crash")
QUIET_SECONDS = 30.0


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def in_lab(work: Callable[[lab.LabState], dict[str, Any]]) -> dict[str, Any]:
    """Do *work* in a lab that has all servers of the campaign."""
    with niceness_counts():
        lab.up(World(random.Random(0)).spec(), progress=say)
        try:
            state = lab.status()
            assert state is not None
            return work(state)
        finally:
            lab.down()


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--changes", type=int, default=200)
    parser.add_argument("--kills", type=int, default=100, help="of dnsteer; a fifth as many of each daemon")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--qps", type=int, default=QPS)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--parts", default=",".join(PARTS))
    options = parser.parse_args()
    parts = options.parts.split(",")
    report: dict[str, Any] = {"machine": machine(), "seed": options.seed}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "quick" in parts:
            say("quick changes on a large switch")
            report["quick"] = quick.run(folder, options.rounds)
        if "quiet" in parts:
            say("the load of the campaign without changes")
            report["quiet"] = in_lab(lambda state: quiet.run(state, seconds=QUIET_SECONDS, qps=options.qps))
        if "campaign" in parts:
            say("random changes under load")
            report["campaign"] = in_lab(
                lambda state: campaign.run(
                    state, changes=options.changes, seed=options.seed, qps=options.qps, progress=say
                )
            )
        if "kept" in parts:
            say("the same changes with keep: connections")
            report["kept"] = in_lab(
                lambda state: campaign.run(
                    state, changes=options.changes, seed=options.seed, qps=options.qps, keep=True, progress=say
                )
            )
        if "crash" in parts:
            say("kill -9 of dnsteer")
            report["kill_dnsteer"] = crash.kill_dnsteer(folder, options.kills, options.seed)
            for daemon in ("ovs-vswitchd", "ovsdb-server"):
                say(f"kill -9 of {daemon}")
                kills = max(1, options.kills // 5)

                def work(state: lab.LabState, daemon: str = daemon, kills: int = kills) -> dict[str, Any]:
                    return crash.kill_daemon(state, folder, daemon, kills, options.seed, options.qps)

                report[f"kill_{daemon}"] = in_lab(work)
    json.dump(report, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
