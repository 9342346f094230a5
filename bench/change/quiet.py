# SPDX-License-Identifier: Apache-2.0
"""The control of every other figure here: the lab of the campaign under load, all probes at work, and nothing changes."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from bench.change.campaign import carry_out
from bench.change.clients import Answers, Clients
from bench.change.counters import Counters
from bench.change.load import QPS, TCP_QPS, SteadyLoad
from bench.change.priority import prefer
from bench.change.tcp import Checked, Connections
from bench.change.world import Step, slots_behind, whole
from dnsteer import lab


def run(state: lab.LabState, *, seconds: float, qps: int = QPS) -> dict[str, Any]:
    """The campaign's load for so long; every second 2,000 clients ask, and 1,000 connections are checked."""
    prefer(state)
    carry_out(Step("first", applies=whole()))
    answers: list[Answers] = []
    checks: list[Checked] = []
    with ExitStack() as stack:
        behind = slots_behind()
        # The first VIP by IPv4 and the last one by IPv6, as in the campaign: from the same source ports.
        asked = [list(behind.items())[number] for number in (0, -1)]
        clients = [stack.enter_context(Clients(state, address, slots)) for address, slots in asked]
        connections = stack.enter_context(Connections(state, *asked[0]))
        first = [c.ask() for c in clients]
        counters = Counters(state)
        before = counters.read()
        load = stack.enter_context(SteadyLoad(state, behind, qps=qps, tcp_qps=TCP_QPS))
        load.prefer()
        started = time.monotonic()
        turn = 0
        while time.monotonic() < started + seconds:
            answers.append(clients[turn % len(clients)].ask())
            checks.append(connections.check())
            turn += 1
            time.sleep(max(0.0, started + turn - time.monotonic()))
        steady = load.stop()
        time.sleep(0.1)
        received = counters.since(before)
    return {
        "load": {"udp": asdict(steady.udp), "tcp": asdict(steady.tcp)},
        "clients": {
            "asked": sum(a.sent for a in answers),
            "first_try_lost": sum(len(a.first_try_lost) for a in answers),
            "unanswered": sum(len(a.unanswered) for a in answers),
            "moved": sum(len(a.moved_since(first[i % len(first)])) for i, a in enumerate(answers)),
            "slowest_ask_seconds": round(max(a.seconds for a in answers), 3),
        },
        "connections": {
            "checked": sum(len(c.backends) for c in checks),
            "dead": dict(Counter(reason for c in checks for reason in c.dead.values())),
            "slowest_check_seconds": round(max(c.seconds for c in checks), 3),
            "slowest_answer_seconds": round(max(c.slowest for c in checks), 3),
        },
        "received": {name: asdict(r) for name, r in received.items()},
    }
