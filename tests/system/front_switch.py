# SPDX-License-Identifier: Apache-2.0
"""A switch in front of the balancer in the lab: the bridge `front` has the client's port, and cables to the balancer."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from dnsteer.lab import names, traffic
from dnsteer.lab.command import python_environment, run
from dnsteer.lab.state import LabState
from dnsteer.lab.traffic import client_command
from dnsteer.lab.zone import WHOAMI

FLOWS = 64
"""Source ports of the load."""


def vsctl(*args: str) -> str:
    """Run ovs-vsctl on the lab's switch."""
    return run(["ovs-vsctl", f"--db={names.db_target()}", *args])


def add_cable(balancer: str, front: str) -> None:
    """A cable between a port of the balancer and one of the switch in front."""
    run(["ip", "-n", names.SWITCH_NAMESPACE, "link", "add", balancer, "type", "veth", "peer", "name", front])
    for end in (balancer, front):
        run(["ip", "-n", names.SWITCH_NAMESPACE, "link", "set", end, "up"])


def remove_cable(balancer: str) -> None:
    """Remove a cable."""
    run(["ip", "-n", names.SWITCH_NAMESPACE, "link", "del", balancer])


def set_link(port: str, state: str) -> None:
    """Pull the plug at a port, or put it in: *state* is up or down."""
    run(["ip", "-n", names.SWITCH_NAMESPACE, "link", "set", port, state])


@contextmanager
def front_switch(*commands: str) -> Iterator[None]:
    """The bridge in front, with its ports by *commands* of ovs-vsctl."""
    words = [word for command in commands for word in ("--", *command.split())]
    vsctl("add-br", "front", "--", "set", "Bridge", "front", "datapath_type=netdev", *words)
    try:
        yield
    finally:
        vsctl("del-br", "front")


class Stream:
    """Queries of a client to a VIP, so many a second, of which those without an answer count as lost."""

    def __init__(self, state: LabState, vip: str, rate: int) -> None:
        local = next(a for a in state.client().addresses if (":" in a) == (":" in vip))
        first = traffic.reserve_ports(local, FLOWS)
        self._process = subprocess.Popen(
            client_command(state, [sys.executable, "-m", "dnsteer.lab.stream"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=python_environment(),
        )
        flows = [(vip, 53, first + number) for number in range(FLOWS)]
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"local": local, "flows": flows, "name": WHOAMI, "rate": rate}) + "\n")
        self._process.stdin.flush()

    def end(self) -> list[tuple[float, bool]]:
        """When each query was sent, on the clock of time.monotonic, and whether it was answered."""
        out, _ = self._process.communicate(timeout=30)
        assert self._process.returncode == 0
        return [(sent, took >= 0) for sent, took, _, _ in json.loads(out)["queries"]]
