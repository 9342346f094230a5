# SPDX-License-Identifier: Apache-2.0
"""Check, for pools whose slots are chosen by the client, that each client stays on one server and that clients are spread.

dnsperf uses one address; here many addresses of the client send a few queries each, every query from its own socket and
usually from a new source port.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections import Counter
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

from dnsteer.lab import whoami
from dnsteer.lab.command import netns_exec, run
from dnsteer.lab.shares import SIGMAS, ExpectedQueries
from dnsteer.lab.state import LabState
from dnsteer.lab.targets import LoadTarget
from dnsteer.lab.zone import WHOAMI
from dnsteer.spec.model.spec import Selection

ASKS = 4
"""Queries of each client."""
CLIENTS = 1024
"""Default number of client addresses that send queries."""
_PORTS = range(50_000, 65_000)
"""Source ports for pools that hash the source port; dnsperf uses other ones."""
_PACE = 500
"""Minimum queries per second, from which the time limit follows."""


@dataclass(frozen=True)
class ClientAffinity:
    """The result of queries from many clients to a target. *moved* are the clients that more than one server answered."""

    target: str
    clients: int
    queries: int
    unanswered: int
    moved: tuple[str, ...]
    seen: dict[str, int]
    """Server -> number of clients that it alone answered."""
    expected: dict[str, float]
    allowed: dict[str, float]
    """Server -> allowed deviation from *expected*, in clients, for a hash that spreads like chance."""

    def problems(self) -> list[str]:
        """Messages about lost queries, clients with several servers and wrong shares; empty when all is well."""
        found = []
        if self.unanswered:
            found.append(
                f"{self.target}: {self.unanswered} of {self.queries} queries of {self.clients} clients were lost"
            )
        if self.moved:
            found.append(
                f"{self.target}: {len(self.moved)} of {self.clients} clients had several servers: {self.moved[0]}"
            )
        for server, expected in self.expected.items():
            seen = self.seen.get(server, 0)
            if abs(seen - expected) > self.allowed[server]:
                off = f"{expected:.0f} are its share ({self.allowed[server]:.0f} more or less allowed)"
                found.append(f"{self.target}: {server} has {seen} of {self.clients} clients, and {off}")
        return found


def addresses(lab: LabState, version: int, number: int = CLIENTS) -> list[str]:
    """Draw *number* addresses of the first client, always the same; consecutive ones might suit a hash too well."""
    network = next(n for n in map(ip_network, lab.client().many) if n.version == version)
    return [str(network[i]) for i in random.Random(version).sample(range(network.num_addresses), number)]


def ask_from(
    lab: LabState, target: LoadTarget, expected: ExpectedQueries, number: int = CLIENTS, times: int = ASKS
) -> ClientAffinity:
    """Query *target* from *number* addresses, *times* times from each, and return which servers answered."""
    locals_ = addresses(lab, target.address.version, number)
    transport = target.endpoint.protocol.value
    ports = [0] * len(locals_)
    if "src_port" in target.hash_fields:
        ports = [_PORTS[i % len(_PORTS)] for i in range(number)]
        times = 1 if transport == "tcp" else times  # a used TCP port stays in TIME_WAIT
    asks = [(local, port) for _ in range(times) for local, port in zip(locals_, ports, strict=True)]
    given = {
        "server": str(target.address),
        "port": target.endpoint.port,
        "transport": transport,
        "name": WHOAMI,
        "asks": asks,
    }
    argv = [sys.executable, "-I", str(Path(whoami.__file__).resolve())]
    answers: list[str | None] = json.loads(
        run(netns_exec(lab.client().namespace, argv), stdin=json.dumps(given), timeout=60 + len(asks) / _PACE)
    )
    servers: dict[str, set[str]] = {local: set() for local in locals_}
    for (local, _), server in zip(asks, answers, strict=True):
        if server is not None:
            servers[local].add(server)
    due, allowed = _due(target, expected, locals_)
    return ClientAffinity(
        target.label,
        number,
        len(asks),
        answers.count(None),
        tuple(f"{local} {', '.join(sorted(by))}" for local, by in servers.items() if len(by) > 1),
        dict(Counter(next(iter(by)) for by in servers.values() if len(by) == 1)),
        due,
        allowed,
    )


def _due(
    target: LoadTarget, expected: ExpectedQueries, clients: list[str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return how many of the *clients* each server should get, and how many more or less chance allows a hash."""
    parts, number = expected.shares(target.pool, target.reached), len(clients)
    if target.selection is Selection.SOURCE_ADDRESS:  # no chance: the address says it
        own = Counter(expected.server_of_client(target.pool, target.reached, client) for client in clients)
        return {server: float(own[server]) for server in parts}, dict.fromkeys(parts, 0.0)
    return (
        {server: number * part for server, part in parts.items()},
        {server: SIGMAS * math.sqrt(number * part * (1 - part)) for server, part in parts.items()},
    )
