"""The control of every other figure here: a lab under load, all probes at work, and nothing changes. Prints JSON.

The lab must be up and the spec applied: `dnsteer lab up SPEC`, then `dnsteer apply SPEC --db unix:/run/dnsteer-lab/db.sock`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from bench.change.clients import Answers, Clients
from bench.change.counters import Counters
from bench.change.load import QPS, TCP_QPS, SteadyLoad
from bench.change.priority import prefer
from bench.change.tcp import Checked, Connections
from bench.machine import machine
from dnsteer import lab
from dnsteer.spec import meaning
from dnsteer.spec.load import load_spec
from dnsteer.spec.model import Spec


def quiet(state: lab.LabState, spec: Spec, *, seconds: float, qps: int, tcp_qps: int) -> dict[str, object]:
    """Load the first VIP of *spec* for so long; every second 2,000 clients ask and 1,000 connections are checked."""
    prefer(state)
    vip = next(iter(spec.vips.values()))
    slots = meaning.slot_count(spec, spec.pools[vip.pool])
    addresses = [str(a) for a in vip.addresses]
    answers: list[Answers] = []
    checks: list[Checked] = []
    with ExitStack() as stack:
        clients = [stack.enter_context(Clients(state, a, slots)) for a in addresses]
        connections = [stack.enter_context(Connections(state, a, slots)) for a in addresses]
        first = [c.ask() for c in clients]
        counters = Counters(state)
        before = counters.read()
        load = stack.enter_context(SteadyLoad(state, addresses, slots, qps=qps, tcp_qps=tcp_qps))
        started = time.monotonic()
        turn = 0
        while time.monotonic() < started + seconds:
            which = turn % len(addresses)
            answers.append(clients[which].ask())
            checks.append(connections[which].check())
            turn += 1
            time.sleep(max(0.0, started + turn - time.monotonic()))
        steady = load.stop()
        time.sleep(0.1)
        received = counters.since(before)
    return {
        "machine": machine(),
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


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spec", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--qps", type=int, default=QPS)
    parser.add_argument("--tcp-qps", type=int, default=TCP_QPS)
    options = parser.parse_args()
    state = lab.status()
    if state is None or not state.applied:
        raise SystemExit("no lab with a bridge: run `dnsteer lab up SPEC` and `dnsteer apply SPEC` first")
    spec = load_spec(options.spec).spec
    report = quiet(state, spec, seconds=options.seconds, qps=options.qps, tcp_qps=options.tcp_qps)
    json.dump(report, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
