# SPDX-License-Identifier: Apache-2.0
"""Many clients of a pool whose slots are chosen by the client: each has one server, and the servers have their shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.extension.running import example, lab_of
from dnsteer.checks.load import load_spec
from dnsteer.lab import client_affinity
from dnsteer.lab.shares import ExpectedQueries
from dnsteer.lab.targets import targets_of
from dnsteer.lab.topology import plan_network

CLIENTS = 65_536
TIMES = 2


def run(say: Callable[[str], None]) -> dict[str, Any]:
    """Ask over UDP from 65,536 addresses of each family; raises RuntimeError where a query is lost or a client moves."""
    spec = example("client-hash")
    loaded = load_spec(spec).spec
    network = plan_network(loaded)
    out = {}
    with lab_of(spec, say) as state:
        for target in targets_of(loaded, network):
            if target.endpoint.protocol.value != "udp":
                continue
            say(f"{CLIENTS} clients: {target.label}")
            found = client_affinity.ask_from(state, target, ExpectedQueries(loaded, network.server_of), CLIENTS, TIMES)
            if found.problems():
                raise RuntimeError("; ".join(found.problems()))
            out[target.label] = {
                "clients": found.clients,
                "queries": found.queries,
                "lost": found.unanswered,
                "moved": len(found.moved),
                "shares": {server: round(n / found.clients, 4) for server, n in found.seen.items()},
                "due": {server: round(n / found.clients, 4) for server, n in found.expected.items()},
                "worst_deviation": round(max(abs(found.seen[s] / n - 1) for s, n in found.expected.items()), 4),
            }
    return out
