# SPDX-License-Identifier: Apache-2.0
"""Time the way from YAML to files, and apply on a running switch, for 1,000 and 10,000 VIPs. Prints JSON.

Each figure is that of a whole process: `dnsteer render` and `dnsteer apply`, median of several runs.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.machine import machine
from bench.specs import many_vips
from dnsteer.switch.private_switch import PrivateSwitch


def run(*args: str) -> tuple[float, float]:
    """Run dnsteer; wall seconds and peak memory in MiB."""
    start = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "dnsteer", *args], stdout=subprocess.DEVNULL)
    _, status, usage = __import__("os").wait4(process.pid, 0)
    seconds = time.monotonic() - start
    if status:
        raise SystemExit(f"dnsteer {' '.join(args)}: exit status {status}")
    return seconds, usage.ru_maxrss / 1024


def timed_runs(runs: int, *args: str) -> dict[str, object]:
    """Median seconds, all seconds and the highest peak memory of several runs."""
    results = [run(*args) for _ in range(runs)]
    seconds = [round(s, 3) for s, _ in results]
    return {
        "seconds": round(statistics.median(seconds), 3),
        "runs": seconds,
        "peak_mib": round(max(m for _, m in results), 1),
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--vips", type=int, default=1000)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    report: dict[str, object] = {"machine": machine()}
    with tempfile.TemporaryDirectory() as folder:
        times = {}
        for count in (options.vips, options.vips * 10):
            spec = Path(folder) / f"{count}.yaml"
            spec.write_text(many_vips(count))
            times[count] = timed_runs(options.runs, "render", str(spec), "-o", f"{folder}/{count}")
            flows = sum(1 for line in (Path(folder) / str(count) / "flows.txt").open() if line.startswith("cookie="))
            report[f"render_{count}_vips"] = {**times[count], "flows": flows, "spec_bytes": spec.stat().st_size}
        small, large = (t["seconds"] for t in times.values())
        report["ten_times_the_vips_takes_times"] = round(float(str(large)) / float(str(small)), 2)
        spec = f"{folder}/{options.vips}.yaml"
        with PrivateSwitch() as switch:
            first, _ = run("apply", spec, "--db", switch.database)
            report["apply_first_seconds"] = round(first, 3)
            report["apply_unchanged"] = timed_runs(options.runs, "apply", spec, "--db", switch.database)
    json.dump(report, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
