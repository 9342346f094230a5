# SPDX-License-Identifier: Apache-2.0
"""What happens to a name server, and how it is repaired. Each repair ends with a server that can answer again."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.agent.world import VIP
from bench.change.inside import Helper
from dnsteer.lab import names, nameserver
from dnsteer.lab.command import netns_exec, run
from dnsteer.lab.state import LabState, ServerState

DELAY = 0.8
"""Seconds that a slow server takes to answer: more than the time-out of the checks, less than a client's patience."""
LOSS = 30
"""Percent of the queries that are lost on their way to a server with loss."""
_BIND = 2.0


@dataclass
class Fault:
    """A fault of one server. Both are called once and return the time of `time.monotonic` at which they began."""

    begin: Callable[[], float]
    end: Callable[[], float]


def _timed(*actions: Callable[[], object]) -> Callable[[], float]:
    def act() -> float:
        began = time.monotonic()
        for action in actions:
            action()
        return began

    return act


def killed(lab: LabState, server: ServerState) -> Fault:
    """Its processes are killed; repaired by a start."""
    return Fault(
        _timed(lambda: nameserver.kill(server.index, server.namespace)),
        _timed(lambda: nameserver.start(server.index, server.namespace)),
    )


def hung(lab: LabState, server: ServerState) -> Fault:
    """Its processes are stopped (SIGSTOP)."""
    pids = nameserver.pids_of(server.index, server.namespace)

    def send(number: signal.Signals) -> None:
        for pid in pids:
            os.kill(pid, number)

    return Fault(_timed(lambda: send(signal.SIGSTOP)), _timed(lambda: send(signal.SIGCONT)))


def servfail(lab: LabState, server: ServerState) -> Fault:
    """It answers SERVFAIL, as one whose zone has expired."""
    return _replaced(lab, server, rcode=2, delay=0.0)


def slow(lab: LabState, server: ServerState) -> Fault:
    """It answers well, but after DELAY."""
    return _replaced(lab, server, rcode=0, delay=DELAY)


def _replaced(lab: LabState, server: ServerState, rcode: int, delay: float) -> Fault:
    helper = Helper(lab, "bench.agent.responder", namespace=server.namespace)
    helper.call("mute", timeout=10, addresses=[])  # it has started: the port is free for a millisecond only
    return Fault(
        _timed(
            lambda: nameserver.kill(server.index, server.namespace),
            lambda: helper.call("open", timeout=10, server=server.name, rcode=rcode, delay=delay, wait=_BIND),
        ),
        _timed(
            lambda: helper.call("close", timeout=10),
            helper.close,
            lambda: nameserver.start(server.index, server.namespace),
        ),
    )


def without_vip(lab: LabState, server: ServerState) -> Fault:
    """The VIP is gone from its loopback; it answers at its own address."""

    def change(verb: str) -> str:
        return run(["ip", "-n", server.namespace, "address", verb, f"{VIP}/32", "dev", "lo"])

    return Fault(_timed(lambda: change("del")), _timed(lambda: change("add")))


def link_down(lab: LabState, server: ServerState) -> Fault:
    """Its cable is pulled: the port of the fabric that it is at goes down."""
    fabric = f"{names.PREFIX}net-{lab.client().uplink}"
    peer = json.loads(run(["ip", "-n", server.namespace, "-j", "link", "show", "eth0"]))[0]["link_index"]
    port = next(
        link["ifname"] for link in json.loads(run(["ip", "-n", fabric, "-j", "link"])) if link["ifindex"] == peer
    )

    def change(to: str) -> str:
        return run(["ip", "-n", fabric, "link", "set", port, to])

    return Fault(_timed(lambda: change("down")), _timed(lambda: change("up")))


def lossy(lab: LabState, server: ServerState) -> Fault:
    """LOSS percent of the queries do not reach it."""

    def nft(rules: str) -> str:
        return run(netns_exec(server.namespace, ["nft", "-f", "-"]), stdin=rules)

    drop = f"udp dport 53 numgen random mod 100 < {LOSS} drop"
    table = f"table inet loss {{ chain input {{ type filter hook input priority 0; {drop}; }}; }}\n"
    return Fault(_timed(lambda: nft(table)), _timed(lambda: nft("delete table inet loss\n")))


FAULTS: dict[str, Callable[[LabState, ServerState], Fault]] = {
    "killed": killed,
    "hung": hung,
    "SERVFAIL": servfail,
    "slow": slow,
    "without VIP": without_vip,
    "link down": link_down,
}
"""Faults that are there or not; `lossy` is another matter."""
UNSEEN_BY_PROXY = {"without VIP"}
"""No fault for a proxy, which asks the server's own address."""
