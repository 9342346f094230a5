# SPDX-License-Identifier: Apache-2.0
"""A server and an accelerator with a sixth of its speed, at 10 to 100 % of what both can do: as P4Mite was measured.

Two name servers (NSD) of the lab get parts of a core by control groups, 6 : 1. The same load is sent through the VIP while
queries go to the server alone, to both alike (ECMP), 5 : 1 by weight (WRR), or to the server, which spills slots to the
accelerator while it is busy (`balance: {policy: spill}`), at three thresholds. Busy is the share of its part that a server
uses, pushed to the agent ten times a second. Prints JSON: the share of queries that were answered, mean and p99 latency.
Needs root.

A part of a core does as much as the machine is fast, which on a shared one changes within minutes: the load follows
that, and what was measured while it changed is measured again.

python -m bench.spill [--seconds 4] [--settle 4] [--plot FILE.svg]
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from bench.machine import machine
from bench.quota import CpuQuota
from bench.repeated import repeated
from dnsteer import lab
from dnsteer.checks.load import load_spec
from dnsteer.lab import nameserver, traffic
from dnsteer.lab.command import netns_exec, program_environment
from dnsteer.lab.traffic import Load, LoadResult
from dnsteer.lab.zone import queries_text

PARTS = {"server": 0.12, "card": 0.02}
"""Parts of a core, 6 : 1. The kernel gives no less than 1 ms in each period."""
VIP, SERVER = "192.0.2.53", "192.0.2.11"
PUSH = 9854
SPEC = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  uplinks:
    p0:
pools:
  farm:
    slots: 64
{balance}    backends:
      - {{name: server, ipv4: 192.0.2.11, mac: '02:00:00:00:01:01', weight: {weights[0]}}}
      - {{name: card, ipv4: 192.0.2.12, mac: '02:00:00:00:01:02', weight: {weights[1]}}}
vips:
  dns:
    addresses: [192.0.2.53]
    services: [dns]
    pool: farm
"""
SPILL = """\
    balance:
      {{policy: spill, to: card, above: {above}%, interval: 250ms, half_life: 500ms, change: 5%, moves: 1000,
       source: {{push: true, allow: [127.0.0.0/8]}}}}
"""
POLICIES: dict[str, tuple[tuple[int, int], int]] = {
    "server alone": ((1, 0), 0),
    "ECMP": ((1, 1), 0),
    "WRR 5:1": ((5, 1), 0),
    "spill above 50%": ((1, 0), 50),
    "spill above 65%": ((1, 0), 65),
    "spill above 80%": ((1, 0), 80),
}
"""Weights of server and accelerator, and the threshold."""
LOADS = tuple(range(10, 101, 10))
CLIENTS = 128
ATTEMPTS, STEADY = 4, 0.15
"""How often a load is measured at most, and the part by which the machine's speed may change meanwhile."""

Say = Callable[[str], None]
Found = TypeVar("Found")


def dnsteer(*args: str) -> None:
    """Run the command."""
    subprocess.run([sys.executable, "-m", "dnsteer", *args], check=True, stdout=sys.stderr, env=program_environment())


@contextmanager
def agent(state: lab.LabState, quotas: Sequence[CpuQuota], log: Path) -> Iterator[None]:
    """A running agent, to which each group's busy share is pushed ten times a second."""
    with log.open("w") as file:
        argv = [sys.executable, "-m", "dnsteer", "agent", "--db", state.db, "--push", f"127.0.0.1:{PUSH}"]
        process = subprocess.Popen(argv, stdout=file, stderr=file, env=program_environment())
    names = dict(zip(PARTS, quotas, strict=True))

    def push() -> None:
        for name, quota in names.items():
            url = f"http://127.0.0.1:{PUSH}/load/farm/{name}"
            try:
                with urllib.request.urlopen(url, data=f"{quota.busy():.4f}".encode(), timeout=1):
                    pass
            except OSError:  # the agent is about to start, or to end
                pass

    try:
        with repeated(push, 0.1):
            yield
    finally:
        process.terminate()
        process.wait(20)


def run(state: lab.LabState, seconds: float, qps: int | None) -> LoadResult:
    """One load. Without *qps* as many queries as are answered, with so many outstanding as last while servers must wait."""
    load = Load(
        VIP,
        clients=CLIENTS,
        seconds=seconds,
        max_qps=qps,
        outstanding=512 if qps is None else 2000,
        timeout=1,
        report_queries=True,
    )
    with traffic.start_dnsperf(state, load) as running:
        return running.wait(seconds + 20)


class Speed:
    """How fast the machine is now: how many queries the server answers to somebody on its own host."""

    def __init__(self, state: lab.LabState, folder: Path) -> None:
        server, queries = state.servers[0], folder / "queries"
        queries.write_text(queries_text())
        argv = ["dnsperf", "-s", SERVER, "-d", str(queries), "-l", "1", "-q", "512", "-c", "16"]
        self._argv = netns_exec(server.namespace, argv)
        self._now = self._measured()

    def _measured(self) -> float:
        done = subprocess.run(
            self._argv, capture_output=True, text=True, check=True, env=program_environment(), timeout=60
        )
        return float(re.findall(r"Queries per second: +([0-9.]+)", done.stdout)[0])

    def steady(self, measure: Callable[[float], Found]) -> Found:
        """Measure at a speed, again where that changes meanwhile."""
        for _ in range(ATTEMPTS):
            before = self._now
            found = measure(before)
            self._now = self._measured()
            if abs(self._now / before - 1) < STEADY:
                break
        return found


def figures(result: LoadResult, offered: float) -> dict[str, Any]:
    """What is reported of a load of so many *offered* queries: dnsperf sends fewer while too many are unanswered."""
    took = sorted(result.latencies)
    return {
        "qps": round(result.qps),
        "served": round(result.completed / offered, 4),
        "mean_ms": round(statistics.mean(took) * 1000, 3),
        "p99_ms": round(took[int(len(took) * 0.99)] * 1000, 3),
    }


def measure(options: argparse.Namespace, folder: Path, say: Say) -> dict[str, Any]:
    """All policies at all loads, each policy after what the servers can do alone."""
    file = folder / "spec.yaml"

    def apply(weights: tuple[int, int], above: int) -> None:
        balance = SPILL.format(above=above) if above else ""
        file.write_text(SPEC.format(balance=balance, weights=weights))
        dnsteer("apply", str(file), "--db", state.db, "--yes")

    def capacity(now: float) -> tuple[dict[str, int], float]:
        found = {}
        for name, weights in (("server", (1, 0)), ("card", (0, 1))):
            apply(weights, 0)
            found[name] = round(run(state, options.seconds, None).qps)
        return found, now

    def loaded(at: float, now: float, settle: bool) -> dict[str, Any]:
        qps = round(at * now)
        if settle:
            run(state, options.settle, qps)
        return {"offered": qps, **figures(run(state, options.seconds, qps), qps * options.seconds)}

    file.write_text(SPEC.format(balance="", weights=(1, 1)))
    state = lab.up(load_spec(file).spec, progress=say)
    capacities: dict[str, dict[str, int]] = {}
    policies: dict[str, list[dict[str, Any]]] = {}
    try:
        with ExitStack() as groups:
            groups.callback(lab.down)  # before the groups go, which must be empty
            quotas = [
                groups.enter_context(CpuQuota(server.name, PARTS[server.name], nameserver.pids_of(n, server.namespace)))
                for n, server in enumerate(state.servers)
            ]
            groups.callback(lab.down)
            speed = Speed(state, folder)
            for policy, (weights, above) in POLICIES.items():
                alone, then = speed.steady(capacity)
                say(f"{policy}: alone they answer {alone}")
                apply(weights, above)
                capacities[policy], rows = alone, policies.setdefault(policy, [])
                with agent(state, quotas, folder / "agent.log") if above else ExitStack():
                    for load in LOADS:
                        at = sum(alone.values()) * load / 100 / then
                        rows.append({"load": load, **speed.steady(partial(loaded, at, settle=bool(above)))})
                        say(f"{policy}: {rows[-1]}")
    finally:
        lab.down()
    return {"capacity_qps": capacities, "policies": policies}


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--settle", type=float, default=4)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dnsteer-") as name:
        say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
        report = {"machine": machine(), "parts_of_a_core": PARTS, **measure(options, Path(name), say)}
    if options.plot is not None:
        from bench.plots import spill_svg

        options.plot.write_text(spill_svg(report["policies"]))
    json.dump(report, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
