# SPDX-License-Identifier: Apache-2.0
"""Open TCP connections while a busy server spills slots to its accelerator, with `keep: connections` and without.

The servers and their parts of a core are those of `bench.spill`. 256 connections, four of each slot, are open to the server
at 30 % of the load of both; then the load is 90 %, and slots go to the accelerator; then 30 % again, and they come back. All
connections are asked twice a second. While slots are spilled, 64 more are opened, one of each slot, and held too. Prints
JSON: who answers, and how many broke. Needs root.

python -m bench.spill_kept [--seconds 12]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.change.ports import source_ports
from bench.change.tcp import Connections
from bench.machine import machine
from bench.quota import CpuQuota
from bench.spill import CLIENTS, PARTS, SPEC, SPILL, VIP, Say, agent, dnsteer, run
from dnsteer import lab
from dnsteer.checks.load import load_spec
from dnsteer.lab import nameserver, traffic
from dnsteer.lab.traffic import Load

SLOTS = 64
ABOVE = 65
LOW, HIGH = 0.3, 0.9
"""Parts of what both servers can do alone."""
_FRESH = 10_240
"""The first source port of connections that are opened while slots are spilled, of slot 0."""
_EVERY = 0.5


class Held:
    """Open connections, and who answered them at last. *broken* has the reasons."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.at: dict[int, str] = {}
        self.first: dict[int, str] = {}
        self.broken: Counter[str] = Counter()
        self.asked = 0

    def ask(self) -> None:
        """Ask all that are open."""
        found = self._connections.check()
        self.at = {port: str(server).rpartition(".")[2] for port, server in found.backends.items()}
        self.first = self.first or self.at
        self.broken.update(found.dead.values())
        self.asked += len(found.backends)

    def as_json(self) -> dict[str, Any]:
        """Counts: who answered at first and at last, and what broke."""
        return {
            "opened": dict(Counter(self.first.values())),
            "open_at_the_end": dict(Counter(self.at.values())),
            "broken": dict(self.broken),
            "answered_by_another": sum(self.first[port] != server for port, server in self.at.items()),
            "asked": self.asked,
        }


def loaded(
    state: lab.LabState, qps: float, seconds: float, held: list[Held], more: Callable[[], Held] | None = None
) -> dict[str, Any]:
    """One load, during which all connections are asked. In its middle *more* are opened, and held too."""
    middle = time.monotonic() + seconds / 2
    load = Load(VIP, clients=CLIENTS, seconds=seconds, max_qps=round(qps), outstanding=2000, timeout=1)
    with traffic.start_dnsperf(state, load) as running:
        while not running.done(_EVERY):
            if more is not None and time.monotonic() > middle:
                held.append(more())
                more = None
            for each in held:
                each.ask()
        found = running.wait(seconds + 20)
    return {"offered": round(qps), "qps": round(found.qps), "lost": found.lost}


def measure(keep: bool, seconds: float, folder: Path, say: Say) -> dict[str, Any]:
    """One experiment."""
    file = folder / "spec.yaml"

    def apply(weights: tuple[int, int], balance: str) -> None:
        text = SPEC.format(balance=balance, weights=weights)
        file.write_text(text + ("    keep: connections\n" if keep else ""))
        dnsteer("apply", str(file), "--db", state.db, "--yes")

    file.write_text(SPEC.format(balance="", weights=(1, 1)))
    state = lab.up(load_spec(file).spec, progress=say)
    with ExitStack() as groups:
        groups.callback(lab.down)  # before the groups go, which must be empty
        quotas = [
            groups.enter_context(CpuQuota(server.name, PARTS[server.name], nameserver.pids_of(n, server.namespace)))
            for n, server in enumerate(state.servers)
        ]
        groups.callback(lab.down)
        total = 0.0
        for weights in ((1, 0), (0, 1)):
            apply(weights, "")
            total += run(state, 3, None).qps
        apply((1, 0), SPILL.format(above=ABOVE))
        with agent(state, quotas, folder / "agent.log"), ExitStack() as opened:
            time.sleep(2)  # the agent looks at the busy share
            before = Held(opened.enter_context(Connections(state, VIP, SLOTS, ports=source_ports(4 * SLOTS, SLOTS))))
            before.ask()
            held = [before]

            def more() -> Held:
                ports = [_FRESH + 2 * slot for slot in range(SLOTS)]
                return Held(opened.enter_context(Connections(state, VIP, SLOTS, ports=ports)))

            loads = [
                loaded(state, LOW * total, 3, held),
                loaded(state, HIGH * total, seconds, held, more),
                loaded(state, LOW * total, seconds, held),
            ]
    found = {"keep": keep, "loads": loads, "before": held[0].as_json(), "while_spilled": held[1].as_json()}
    say(f"{found}")
    return found


def main() -> int:
    """Run the benchmark; exit status 1 when a kept connection broke."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=12, help="of the load at 90 %%, and of that after it")
    options = parser.parse_args()
    say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
    runs = []
    for keep in (True, False):
        with tempfile.TemporaryDirectory(prefix="dnsteer-") as name:
            runs.append(measure(keep, options.seconds, Path(name), say))
    json.dump({"machine": machine(), "parts_of_a_core": PARTS, "above": ABOVE, "runs": runs}, sys.stdout, indent=2)
    sys.stdout.write("\n")
    kept = runs[0]
    return 1 if kept["before"]["broken"] or kept["while_spilled"]["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
