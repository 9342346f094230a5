# SPDX-License-Identifier: Apache-2.0
"""Four workers of one host: dispatched by the kernel (SO_REUSEPORT), and each by the switch, static and balanced.

1,024 clients, each with a port of its own, ask by a Zipf law. The workers answer one query at a time, as if each had a core
for itself, after a time of service: alike and fixed, exponential, or one of them half as fast. Each way gets the same
clients at the same load; several draws of clients' ports. Reported of each: the coefficient of variation of what the workers
served and of their busy shares, as they say it themselves; mean and p99 latency at the clients, and the part that was not
answered within two seconds. Prints JSON. Needs root (the lab).

A load during which more of the machine was in use than it and the switch need, by whomever, is measured again.

python -m bench.workers [--seconds 8] [--settle 25] [--draws 2] [--seed N] [--in-use 0.5] [--plot FILE.svg]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import slow_server, zipf_clients
from bench.balance import zipf
from bench.machine import idle_seconds, machine
from bench.repeated import repeated
from dnsteer import lab
from dnsteer.checks.load import load_spec
from dnsteer.lab import nameserver, whoami
from dnsteer.lab.command import netns_exec, program_environment
from dnsteer.lab.zone import WHOAMI

WORKERS, SLOTS, CLIENTS, EXPONENT = 4, 256, 1024, 1.0
MEAN = 0.004
"""Seconds of service: four workers can do 1,000 queries a second, of which the machine itself notices little."""
FIRST_PORT, PUSH = 5300, 9854
VIP, HOST = "198.51.100.53", "10.53.0.11"
LOADS = (60, 80)
"""Per cent of what all workers together can do."""
PATIENCE, WARM_UP = 2.0, 2.0
ATTEMPTS = 10
"""How often a load is measured at most, where others use the machine."""
SPEC = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  gateways: [10.53.0.1]
  uplinks:
    p0: {{next_hop: 02:00:00:00:00:fe}}
pools:
  resolvers:
    slots: {slots}
{balance}    backends:
      - {{name: r1, ipv4: {host}, mac: '02:00:00:00:04:01'{workers}}}
vips:
  resolver:
    addresses: [{vip}]
    services: [{{protocol: udp, port: 53, target_port: {port}}}]
    pool: resolvers
    forwarding: nat
"""
BY_SLOTS = "    balance: {by: slots, interval: 1s, tolerance: 5%, moves: 1000}\n"
BY_METRIC = """\
    balance:
      {by: metric, interval: 500ms, half_life: 1s, tolerance: 5%, moves: 1000, source: {push: true, allow: [127.0.0.0/8]}}
"""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Way:
    """A way to hand queries to the workers."""

    name: str
    shares_a_port: bool = False
    balance: str = ""


WAYS = (
    Way("SO_REUSEPORT", shares_a_port=True),
    Way("workers, static"),
    Way("workers, by slots", balance=BY_SLOTS),
    Way("workers, by metric", balance=BY_METRIC),
)


@dataclass(frozen=True)
class Service:
    """How long the workers take: the law of chance, and how many times as long as others each takes."""

    law: str
    slower: tuple[int, ...] = (1,) * WORKERS

    @property
    def capacity(self) -> float:
        """Queries a second of all workers together."""
        return sum(1 / (MEAN * times) for times in self.slower)


SERVICES = {
    "fixed": Service("fixed"),
    "exponential": Service("exponential"),
    "one half as fast": Service("fixed", (2, 1, 1, 1)),
}


def spec_text(way: Way) -> str:
    """The spec for a way to hand queries over."""
    workers = "" if way.shares_a_port else f", workers: {WORKERS}"
    return SPEC.format(slots=SLOTS, balance=way.balance, workers=workers, host=HOST, vip=VIP, port=FIRST_PORT)


def dnsteer(*args: str) -> None:
    """Run the command."""
    subprocess.run([sys.executable, "-m", "dnsteer", *args], check=True, stdout=sys.stderr, env=program_environment())


class Servers:
    """The workers' processes, while the block runs."""

    def __init__(self, namespace: str, way: Way, service: Service, folder: Path, seed: int) -> None:
        self.files = [folder / f"stats{n}" for n in range(WORKERS)]
        self._argv = []
        for n, file in enumerate(self.files):
            file.write_bytes(bytes(slow_server.STATS.size))
            given = {
                "name": f"r1.{n}",
                "address": HOST,
                "port": FIRST_PORT + (0 if way.shares_a_port else n),
                "reuse": way.shares_a_port,
                "mean": MEAN * service.slower[n],
                "law": service.law,
                "seed": seed + n,
                "stats": str(file),
            }
            script = str(Path(slow_server.__file__).resolve())
            self._argv.append(netns_exec(namespace, [sys.executable, "-I", script, json.dumps(given)]))
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Servers:
        self._processes = [subprocess.Popen(argv) for argv in self._argv]
        time.sleep(0.3)  # until they are bound
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()

    def done(self) -> list[tuple[float, float]]:
        """Queries and seconds of service of each worker so far."""
        return [slow_server.STATS.unpack(file.read_bytes()) for file in self.files]


@contextmanager
def agent(state: lab.LabState, servers: Servers, log: Path) -> Iterator[None]:
    """A running agent, to which each worker's busy share is pushed ten times a second."""
    with log.open("w") as file:
        argv = [sys.executable, "-m", "dnsteer", "agent", "--db", state.db, "--push", f"127.0.0.1:{PUSH}"]
        process = subprocess.Popen(argv, stdout=file, stderr=file, env=program_environment())
    last = time.monotonic(), servers.done()

    def push() -> None:
        nonlocal last
        now, done = time.monotonic(), servers.done()
        for n, ((_, busy), (_, before)) in enumerate(zip(done, last[1], strict=True)):
            share = (busy - before) / (now - last[0])
            url = f"http://127.0.0.1:{PUSH}/load/resolvers/r1.{n}"
            try:
                with urllib.request.urlopen(url, data=f"{share:.4f}".encode(), timeout=1):
                    pass
            except OSError:  # the agent is about to start, or to end, or does not ask for it
                pass
        last = now, done

    try:
        with repeated(push, 0.1):
            yield
    finally:
        process.terminate()
        process.wait(20)


@dataclass(frozen=True)
class Seen:
    """What was seen of a load: seconds of the answers, how many there were not, and of each worker queries and its time.

    *machine* is the share of all cores that was in use meanwhile, by whomever.
    """

    took: list[float]
    lost: int
    queries: list[float]
    busy: list[float]
    machine: float


def run(state: lab.LabState, servers: Servers, draw: random.Random, qps: float, settle: float, seconds: float) -> Seen:
    """One load; its clients are those of *draw*."""
    shares = zipf(CLIENTS, EXPONENT)
    client = state.client()
    given = {
        "server": VIP,
        "port": 53,
        "local": client.addresses[0],
        "ports": draw.sample(range(10_240, 60_000), CLIENTS),
        "shares": shares,
        "qps": qps,
        "settle": settle,
        "seconds": seconds,
        "patience": PATIENCE,
        "seed": draw.randrange(1 << 30),
        "query": whoami.question(0, WHOAMI).hex(),
    }
    argv = netns_exec(client.namespace, [sys.executable, "-I", str(Path(zipf_clients.__file__).resolve())])
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as clients:
        assert clients.stdin is not None and clients.stdout is not None
        clients.stdin.write(json.dumps(given))
        clients.stdin.close()
        time.sleep(settle)
        before, idle = servers.done(), idle_seconds()
        time.sleep(seconds)
        after, idle = servers.done(), idle_seconds() - idle
        found = json.load(clients.stdout)
    grown = [(b[0] - a[0], (b[1] - a[1]) / seconds) for a, b in zip(before, after, strict=True)]
    in_use = 1 - idle / seconds / (os.cpu_count() or 1)
    return Seen(found["took"], found["lost"], [queries for queries, _ in grown], [busy for _, busy in grown], in_use)


def cv(values: list[float]) -> float:
    """The coefficient of variation."""
    return round(statistics.pstdev(values) / statistics.mean(values), 4)


def figures(seen: Seen) -> dict[str, Any]:
    """What is reported of a load: a query without an answer counts as one that took as long as was waited."""
    took = sorted([*seen.took, *[PATIENCE] * seen.lost])
    return {
        "queries": [round(n) for n in seen.queries],
        "busy": [round(share, 3) for share in seen.busy],
        "cv_queries": cv(seen.queries),
        "cv_busy": cv(seen.busy),
        "mean_ms": round(statistics.mean(took) * 1000, 2),
        "p99_ms": round(took[int(len(took) * 0.99)] * 1000, 2),
        "lost": round(seen.lost / len(took), 4),
        "machine": round(seen.machine, 2),
    }


def measure(options: argparse.Namespace, folder: Path, say: Say) -> list[dict[str, Any]]:
    """All ways with all times of service at all loads."""
    file = folder / "spec.yaml"
    rows: list[dict[str, Any]] = []

    def one(state: lab.LabState, draw: int, load: int, service: str, way: Way) -> None:
        of = SERVICES[service]
        qps = of.capacity * load / 100
        balanced = bool(way.balance)
        seed = options.seed + draw
        attempts = 0
        while True:
            attempts += 1
            for each in (Way("none"), way) if balanced else (way,):  # the first one forgets what was given before
                file.write_text(spec_text(each))
                dnsteer("apply", str(file), "--db", state.db, "--yes", "--grace", "0")
            with Servers(state.servers[0].namespace, way, of, folder, seed) as servers, ExitStack() as stack:
                if balanced:
                    stack.enter_context(agent(state, servers, folder / "agent.log"))
                settle = options.settle if balanced else WARM_UP
                seen = run(state, servers, random.Random(seed), qps, settle, options.seconds)
            if seen.machine <= options.in_use or attempts == ATTEMPTS:
                break
            say(f"{seen.machine:.0%} of the machine in use")
        about = {"service": service, "load": load, "way": way.name, "draw": draw, "offered_qps": round(qps)}
        rows.append({**about, **figures(seen), "attempts": attempts})
        say(f"{rows[-1]}")

    file.write_text(spec_text(WAYS[1]))
    state = lab.up(load_spec(file).spec, progress=say)
    try:
        for index, server in enumerate(state.servers):
            nameserver.kill(index, server.namespace)
        for draw in range(options.draws):
            for service in SERVICES:
                for load in LOADS:
                    for way in WAYS:
                        one(state, draw, load, service, way)
    finally:
        lab.down()
    return rows


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean, least and most over the draws, of each way with each time of service at each load."""
    out = []
    for key in dict.fromkeys((row["service"], row["load"], row["way"]) for row in rows):
        those = [row for row in rows if (row["service"], row["load"], row["way"]) == key]
        found: dict[str, Any] = dict(zip(("service", "load", "way"), key, strict=True))
        for name in ("cv_queries", "cv_busy", "mean_ms", "p99_ms", "lost"):
            values = [row[name] for row in those]
            found[name] = {"mean": round(statistics.mean(values), 4), "least": min(values), "most": max(values)}
        out.append(found)
    return out


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--settle", type=float, default=25)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--in-use", type=float, default=0.5)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dnsteer-") as name:
        say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
        rows = measure(options, Path(name), say)
    shares = zipf(CLIENTS, EXPONENT)
    report = {
        "machine": machine(),
        "seed": options.seed,
        "workers": WORKERS,
        "slots": SLOTS,
        "mean_service_ms": MEAN * 1000,
        "clients": {"number": CLIENTS, "exponent": EXPONENT, "largest": round(shares[0], 4)},
        "seconds": options.seconds,
        "settle": options.settle,
        "summary": summary(rows),
        "rows": rows,
    }
    if options.plot is not None:
        from bench.plots import workers_svg

        options.plot.write_text(workers_svg(report["summary"]))
    json.dump(report, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
