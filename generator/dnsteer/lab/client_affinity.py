"""Do all queries of a client go to one server, and are the clients spread? Where a pool's slots are chosen by the client.

dnsperf has one address; here many addresses of the client ask, a few times each, from other source ports and so from
other sockets.
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
from dnsteer.lab.shares import SIGMAS, Expectation
from dnsteer.lab.state import LabState
from dnsteer.lab.targets import Target
from dnsteer.lab.zone import WHOAMI

ASKS = 4
"""Queries of each client."""
CLIENTS = 1024
"""How many of the addresses ask, unless answers otherwise."""
_PORTS = range(50_000, 65_000)
"""Source ports where the hash sees them: outside of dnsperf's."""
_PACE = 500
"""Queries a second at the least."""


@dataclass(frozen=True)
class Clients:
    """What many clients of a target got. *moved* are those that more than one server answered."""

    target: str
    clients: int
    queries: int
    unanswered: int
    moved: tuple[str, ...]
    seen: dict[str, int]
    """Server -> clients that it answered."""
    expected: dict[str, float]
    allowed: dict[str, float]
    """Server -> how many clients more or less are in order, for a hash that is as good as dice."""

    def problems(self) -> list[str]:
        """What is not as it should be."""
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
    """So many addresses of the first client in an IP version, always the same ones; drawn, as a hash may like rows."""
    network = next(n for n in map(ip_network, lab.client().many) if n.version == version)
    return [str(network[i]) for i in random.Random(version).sample(range(network.num_addresses), number)]


def ask_from(lab: LabState, target: Target, expected: Expectation, number: int = CLIENTS, times: int = ASKS) -> Clients:
    """Ask *target* from so many addresses, so many times from each."""
    locals_ = addresses(lab, target.address.version, number)
    transport = target.endpoint.protocol.value
    ports = [0] * len(locals_)
    if "src_port" in target.hash_fields:
        ports = [_PORTS[i % len(_PORTS)] for i in range(number)]
        times = 1 if transport == "tcp" else times  # a TCP port rests after use
    asks = [(local, port) for _ in range(times) for local, port in zip(locals_, ports, strict=True)]
    given = {
        "server": str(target.address), "port": target.endpoint.port, "transport": transport, "name": WHOAMI, "asks": asks,
    }  # fmt: skip
    argv = [sys.executable, "-I", str(Path(whoami.__file__).resolve())]
    answers: list[str | None] = json.loads(
        run(netns_exec(lab.client().namespace, argv), stdin=json.dumps(given), timeout=60 + len(asks) / _PACE)
    )
    servers: dict[str, set[str]] = {local: set() for local in locals_}
    for (local, _), server in zip(asks, answers, strict=True):
        if server is not None:
            servers[local].add(server)
    parts = expected.shares(target.pool, target.reached)
    return Clients(
        target.label,
        number,
        len(asks),
        answers.count(None),
        tuple(f"{local} {', '.join(sorted(by))}" for local, by in servers.items() if len(by) > 1),
        dict(Counter(next(iter(by)) for by in servers.values() if len(by) == 1)),
        {server: number * part for server, part in parts.items()},
        {server: SIGMAS * math.sqrt(number * part * (1 - part)) for server, part in parts.items()},
    )
