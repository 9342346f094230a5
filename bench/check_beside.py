# SPDX-License-Identifier: Apache-2.0
"""Time `dnsteer check` of the examples as whole processes, beside that of another source tree, in alternation. Prints JSON.

The other tree checks its own examples of the same name. CPU time is that of the command and of the switch that it starts;
on a machine with other work it says more than the time that passes.

python -m bench.check_beside OTHER [--runs 5]      OTHER: a folder with the other tree, and its extension built in it
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

from bench.events import spread
from bench.machine import machine
from bench.masks import EXAMPLES


def check(tree: Path, name: str) -> dict[str, float]:
    """Seconds of one check of a tree's example, and packets, megaflows and flows that it reported."""
    env = {**os.environ, "PYTHONPATH": str(tree / "generator")}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    argv = [sys.executable, "-m", "dnsteer", "check", "--json", str(tree / "examples" / name)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, env=env, cwd=tree)
    took, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    report = json.loads(done.stdout)
    if not report["ok"]:
        sys.exit(f"{tree / 'examples' / name}: not proven")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "seconds": round(took, 2),
        "cpu_seconds": round(used, 2),
        "packets": sum(report["packets"].values()),
        "megaflows": report["megaflows"],
        "flows": report["flows"],
    }


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    trees = {"other": options.other.resolve(), "this": EXAMPLES.parent}
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for _ in range(options.runs):
        for file in sorted(EXAMPLES.glob("*.yaml")):
            for which in random.sample(list(trees), len(trees)):
                if (trees[which] / "examples" / file.name).exists():
                    found.setdefault((file.name, which), []).append(check(trees[which], file.name))
    rows = []
    for (name, which), runs in sorted(found.items()):
        times = {key: spread([run[key] for run in runs]) for key in ("seconds", "cpu_seconds")}
        rows.append(
            {"spec": name, "tree": which, **times, **{k: runs[0][k] for k in ("packets", "megaflows", "flows")}}
        )
    json.dump({"machine": machine(), "runs": options.runs, "results": rows}, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
