# SPDX-License-Identifier: Apache-2.0
"""Time `dnsteer check` of large specs as whole processes, with what it sent. Prints JSON.

*four*: four VIPs of both families over one pool of four backends; *three hundred*: 300 VIPs of both families over 50 pools
of eight. Both with DNS over UDP and TCP, with the slots of a new pool, and with 1024.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.machine import machine
from bench.specs import many_vips

_FIRST_POOL = re.compile(r"^    backends:", re.M)


def spec(vips: int, pools: int, backends: int, slots: int | None) -> str:
    """The spec's text; with the default number of slots where *slots* is None."""
    text = many_vips(vips, pools, backends).replace("[dns, dot, doq, doh]", "[dns]")
    return text if slots is None else _FIRST_POOL.sub(f"    slots: {slots}\n    backends:", text)


def measure(name: str, text: str, runs: int) -> dict[str, object]:
    """Seconds of each run, and what the check reported."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "spec.yaml"
        file.write_text(text)
        seconds = []
        for _ in range(runs):
            start = time.monotonic()
            done = subprocess.run(
                [sys.executable, "-m", "dnsteer", "check", "--json", str(file)], stdout=subprocess.PIPE
            )
            seconds.append(round(time.monotonic() - start, 2))
            report = json.loads(done.stdout)
    return {
        "spec": name,
        "seconds": sorted(seconds)[len(seconds) // 2],
        "runs": seconds,
        "packets": sum(report["packets"].values()),
        "megaflows": report["megaflows"],
        "masks": report["masks"],
        "coverage": report["coverage"],
        "ok": report["ok"],
    }


def main() -> int:
    """Run the benchmark; exit status 1 when a spec is not proven."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    sizes = {"four": (4, 1, 4), "three hundred": (300, 50, 8)}
    rows = [
        measure(f"{name}, {slots or 'default'} slots", spec(*size, slots), options.runs)
        for name, size in sizes.items()
        for slots in (None, 1024)
    ]
    json.dump({"machine": machine(), "results": rows}, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
