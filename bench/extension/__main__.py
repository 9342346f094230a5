# SPDX-License-Identifier: Apache-2.0
"""The extension: each mode under load, one socket, many clients, changes under load, and the program by itself: JSON.

python -m bench.extension [--seconds 60] [--parts modes,socket,clients,reload,program] [--seed N]. Needs root (the lab) but
for the last part. Fuzzing and coverage of the program: scripts/fuzz-ext.sh, scripts/coverage-ext.sh.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.extension import many_clients, one_socket, reload
from bench.extension.running import EXAMPLES, ROOT, example, lab_of, report_of
from bench.machine import machine

PARTS = ("modes", "socket", "clients", "reload", "program")


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def modes(folder: Path, seconds: float) -> dict[str, Any]:
    """Each mode's example under load, with the shares of its servers."""
    out = {}
    for name in EXAMPLES:
        say(f"{name}: {seconds:g} s of load")
        spec = example(name)
        with lab_of(spec, say):
            found = report_of(spec, folder, seconds)
        out[name] = {key: value for key, value in found.items() if key not in ("runs", "machine")}
    return out


def program() -> dict[str, Any]:
    """Cycles per packet of the program on the model, in memory and between network devices."""
    done = subprocess.run(
        [ROOT / "build" / "plain" / "bench" / "ext-bench"], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=60.0, help="of load for each mode")
    parser.add_argument("--reloads", type=int, default=100)
    parser.add_argument("--updates", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--parts", default=",".join(PARTS))
    options = parser.parse_args()
    parts = options.parts.split(",")
    report: dict[str, Any] = {"machine": machine()}
    try:
        _measure(options, parts, report)
    finally:  # what was measured is shown, whatever happens to the rest
        json.dump(report, sys.stdout, indent=2)
        sys.stdout.write("\n")


def _measure(options: argparse.Namespace, parts: list[str], report: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "program" in parts:
            say("the program by itself")
            report["program"] = program()
        if "modes" in parts:
            report["modes"] = modes(folder, options.seconds)
        if "socket" in parts:
            say("one socket")
            report["one_socket"] = one_socket.run(folder, say)
        if "clients" in parts:
            say("many clients")
            report["many_clients"] = many_clients.run(say)
        if "reload" in parts:
            report["reload"] = reload.run(folder, options.reloads, options.updates, options.seed, say)


if __name__ == "__main__":
    main()
