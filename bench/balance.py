# SPDX-License-Identifier: Apache-2.0
"""Zipf clients on a pool that hashes the client: the load of its servers before and after balancing. Needs root (the lab).

A few resolvers ask most of the queries, as behind a popular VIP. Each round draws queries by the same Zipf law, sends each
from the address of its client through the VIP, and counts who answered: without an agent, with one that balances by slots,
and without one again, which leaves what it did. Prints JSON.

python -m bench.balance [--queries 4000] [--rounds 6] [--seed N]
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
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.machine import machine
from dnsteer import lab
from dnsteer.checks.load import load_spec
from dnsteer.lab import client_affinity, names, whoami
from dnsteer.lab.command import netns_exec, program_environment, run
from dnsteer.lab.zone import WHOAMI
from dnsteer.slots.maintenance import NO_OVERLAY, Overlay
from dnsteer.status.record import read_record

SERVERS, SLOTS, CLIENTS = 4, 256, 1024
TOLERANCE = 5
"""Per cent of a share that a server may have more: half of the default, as the load is steady."""
SPEC = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  uplinks:
    p0:
  extension:
    ingress: {{port: ext-in}}
    egress: {{port: ext-out}}
pools:
  resolvers:
    selection: client
    slots: {slots}
    balance: {{by: slots, tolerance: {tolerance}%, moves: {moves}, interval: 2s}}
    backends:
{backends}
vips:
  resolver:
    addresses: [192.0.2.53]
    services: [dns]
    pool: resolvers
"""


def spec_text(moves: int) -> str:
    """A pool of equal servers."""
    backends = "\n".join(
        f"      - {{name: r{n}, ipv4: 192.0.2.{10 + n}, mac: '02:00:00:00:01:{n:02x}'}}" for n in range(1, SERVERS + 1)
    )
    return SPEC.format(slots=SLOTS, tolerance=TOLERANCE, moves=moves, backends=backends)


def zipf(number: int, exponent: float) -> list[float]:
    """Shares of clients by rank, which add up to 1."""
    shares = [1 / rank**exponent for rank in range(1, number + 1)]
    return [share / sum(shares) for share in shares]


class Load:
    """Clients with Zipf shares of the queries."""

    def __init__(self, state: lab.LabState, shares: Sequence[float], order: random.Random, queries: int) -> None:
        self._state, self._shares, self._order, self._queries = state, shares, order, queries
        self.clients = client_affinity.addresses(state, 4, len(shares))
        self.served: dict[str, str] = {}
        """The server that answered a client last."""

    def round(self) -> dict[str, Any]:
        """Send one round of queries."""
        asked = self._order.choices(self.clients, self._shares, k=self._queries)
        given = {
            "server": "192.0.2.53",
            "port": 53,
            "transport": "udp",
            "name": WHOAMI,
            "asks": [(one, 0) for one in asked],
        }
        argv = [sys.executable, "-I", str(Path(whoami.__file__).resolve())]
        began = time.monotonic()
        text = run(netns_exec(self._state.client().namespace, argv), stdin=json.dumps(given), timeout=120)
        answers: list[str | None] = json.loads(text)
        took = time.monotonic() - began
        by = Counter(server for server in answers if server is not None)
        moved = {
            one for one, server in zip(asked, answers, strict=True) if server and self.served.get(one, server) != server
        }
        self.served.update({one: server for one, server in zip(asked, answers, strict=True) if server})
        load = [by[f"r{n}"] for n in range(1, SERVERS + 1)]
        return {
            "queries": load,
            "lost": answers.count(None),
            "clients_moved": len(moved),
            "qps": round(len(asked) / took),
            "cv": round(statistics.pstdev(load) / statistics.mean(load), 4),
            "most_of_mean": round(max(load) * SERVERS / sum(load), 3),
        }


@contextmanager
def agent(state: lab.LabState, log: Path) -> Iterator[None]:
    """A running agent."""
    with log.open("w") as file:
        argv = [sys.executable, "-m", "dnsteer", "agent", "--db", state.db]
        process = subprocess.Popen(argv, stdout=file, stderr=file, env={**program_environment(), **os.environ})
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


def overlay(state: lab.LabState) -> Overlay:
    """What is recorded."""
    return read_record(state.db, None, 1).overlay or NO_OVERLAY


def measure(options: argparse.Namespace, folder: Path, say: Any) -> dict[str, Any]:
    """All rounds."""
    file = folder / "bench.yaml"
    file.write_text(spec_text(options.moves))
    loaded = load_spec(file)
    state = lab.up(loaded.spec, progress=say)
    os.environ["DNSTEER_EXTENSION_SOCKET"] = str(names.EXTENSION_SOCKET)
    try:
        apply = [sys.executable, "-m", "dnsteer", "apply", str(file), "--db", state.db]
        subprocess.run(apply, check=True, stdout=sys.stderr, env={**program_environment(), **os.environ})
        shares = zipf(CLIENTS, options.exponent)
        load = Load(state, shares, random.Random(options.seed), options.queries)
        found: dict[str, list[dict[str, Any]]] = {"before": [], "balancing": [], "after": []}
        for _ in range(options.rounds):
            found["before"].append(load.round())
            say(f"before: {found['before'][-1]}")
        with agent(state, folder / "agent.log"):
            for _ in range(2 * options.rounds):
                found["balancing"].append(load.round())
                say(f"balancing: {found['balancing'][-1]}")
        for _ in range(options.rounds):
            found["after"].append(load.round())
            say(f"after: {found['after'][-1]}")
        slots = sum(len(entry.slots) for entry in overlay(state))
        say((folder / "agent.log").read_text())
    finally:
        del os.environ["DNSTEER_EXTENSION_SOCKET"]
        lab.down()
    half = next(n for n in range(len(shares)) if sum(shares[: n + 1]) >= 0.5) + 1
    return {
        "load": {
            "clients": CLIENTS,
            "exponent": options.exponent,
            "clients_with_half_of_it": half,
            "largest_client": round(shares[0], 4),
            "queries_a_round": options.queries,
        },
        "cv": {name: round(statistics.mean(r["cv"] for r in rounds), 4) for name, rounds in found.items()},
        "cv_by_chance": round((SERVERS - 1) ** 0.5 / options.queries**0.5, 4),
        "most_of_mean": {
            name: round(statistics.mean(r["most_of_mean"] for r in rounds), 3) for name, rounds in found.items()
        },
        "slots_given": slots,
        "slots": SLOTS,
        "clients_moved": sum(r["clients_moved"] for r in found["balancing"]),
        "lost": sum(r["lost"] for rounds in found.values() for r in rounds),
        "rounds": found,
    }


def main() -> int:
    """Run the benchmark; exit status 1 if a query was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--exponent", type=float, default=1.0)
    parser.add_argument("--moves", type=int, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    report: dict[str, Any] = {"machine": machine(), "seed": options.seed}
    with tempfile.TemporaryDirectory(prefix="dnsteer-") as name:
        report |= measure(options, Path(name), lambda text: print(text, file=sys.stderr, flush=True))
    json.dump(report, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 1 if report["lost"] else 0


if __name__ == "__main__":
    sys.exit(main())
