# SPDX-License-Identifier: Apache-2.0
"""From the decision of the agent to the changed switch, on 1,000 VIPs with 1,024 slots in each pool. No root. Prints JSON.

python -m bench.agent.effect [--faults 200] [--apart 0.5] [--seed N]

The checks are commands that look for a file, so what is measured begins when the agent says that a backend is unhealthy. It
ends when it says which slots move: the switch has confirmed the flows then, and the record is written.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from bench.agent.figures import spread
from bench.machine import machine
from bench.specs import many_vips
from dnsteer.lab.command import program_environment
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.private_switch import PrivateSwitch

VIPS, POOLS, BACKENDS, SLOTS, CHECKED = 1000, 100, 16, 1024, 2
"""Backends of CHECKED pools are checked, and fail by turns, one at a time."""
_PATIENCE = 30.0
_SETTLED = 12.0
"""Seconds after which the agent, which has just begun, has compared all flows for the second time."""


def spec(marks: Path) -> str:
    """The spec of bench-render with its slots written, and the checks."""
    text = many_vips(VIPS, POOLS, BACKENDS)
    times = "interval: 1s, timeout: 900ms, fall: 1, rise: 1"
    check = f"{{check: command, command: [test, -e, '{marks}/{{pool}}-{{backend}}'], {times}}}"
    for pool in range(POOLS):
        health = f"    health: {check}\n    hold_max: 1s\n" if pool < CHECKED else ""
        text = text.replace(f"  pool{pool}:\n", f"  pool{pool}:\n    slots: {SLOTS}\n{health}")
    return text


class Agent:
    """A running agent, and the times at which it said each line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.lines: list[tuple[float, str]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.lines.append((time.monotonic(), line.rstrip()))

    def waits_for(self, start: int, *words: str) -> float:
        """When it said a line with all *words*, among those from number *start* on. Raises RuntimeError if it does not."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            for said, line in self.lines[start:]:
                if all(word in line for word in words):
                    return said
            time.sleep(0.002)
        raise RuntimeError(f"the agent did not say {words}; its last lines: {self.lines[start:][-5:]}")


@contextmanager
def running(database: str) -> Iterator[Agent]:
    """An agent beside a switch."""
    argv = [sys.executable, "-m", "dnsteer", "agent", "--db", database]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env=program_environment()) as process:
        try:
            yield Agent(process)
        finally:
            process.terminate()


def measure(faults: int, apart: float, dice: random.Random, folder: Path) -> dict[str, Any]:
    """So many times a backend fails, and comes back; *apart* are the seconds before the next one does."""
    marks = folder / "marks"
    marks.mkdir()
    every = [(f"pool{p}", f"ns{b}") for p in range(CHECKED) for b in range(BACKENDS)]
    for pool, backend in every:
        (marks / f"{pool}-{backend}").touch()
    file = folder / "effect.yaml"
    file.write_text(spec(marks))
    with PrivateSwitch() as switch:
        apply = [sys.executable, "-m", "dnsteer", "apply", str(file), "--db", switch.database, "--yes"]
        subprocess.run(apply, check=True, stdout=subprocess.DEVNULL, env=program_environment())
        flows = len(OpenFlow(f"unix:{switch.dir}/br-dns.mgmt", switch.env).dump().flows)
        with running(switch.database) as agent:
            agent.waits_for(0, "targets: ")
            time.sleep(_SETTLED)
            took: list[float] = []
            dice.shuffle(every)
            for pool, backend in islice(cycle(every), faults):
                mark, start = marks / f"{pool}-{backend}", len(agent.lines)
                mark.unlink()
                decided = agent.waits_for(start, f"{pool}/{backend} is unhealthy")
                took.append(agent.waits_for(start, f" slots of pool {pool} move", f" {backend} -> ") - decided)
                start = len(agent.lines)
                mark.touch()
                agent.waits_for(start, f" slots of pool {pool} move", f" -> {backend}")
                time.sleep(apart)
    ordered = sorted(took)
    return {
        "flows": flows,
        "faults": len(took),
        "effect_s": spread(took),
        "effect_99_percent_s": round(ordered[-(-99 * len(ordered) // 100) - 1], 4),
    }


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--apart", type=float, default=0.5, help="seconds between a return and the next fault")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dnsteer-") as folder:
        found = measure(options.faults, options.apart, random.Random(options.seed), Path(folder))
    json.dump({"machine": machine(), "seed": options.seed, **found}, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
