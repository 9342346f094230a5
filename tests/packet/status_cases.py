# SPDX-License-Identifier: Apache-2.0
"""`status` for tests: switches with something out, packets for them, and what it says of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta, timezone
from itertools import cycle
from typing import Any

from bench.repeated import repeated
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether

from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.overlay_change import change_overlay
from dnsteer.deploy.overlay_edits import take_out
from dnsteer.deploy.run import Options, deploy
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.switch.private_switch import PrivateSwitch
from dnsteer.switch.thread_counters import read_counters
from tests.packet.command import on
from tests.packet.switches import LARGE, Switch, spec_of

NOW = datetime.now(timezone.utc)
GONE = [r"connection (attempt failed|dropped)", r"Connection (refused|reset)"]
"""What the servers log when the other one is killed."""


def deployed(switch: Switch, text: str = LARGE) -> TargetSwitch:
    """A switch with a spec applied."""
    target = TargetSwitch(switch.database)
    deploy(FileSource(spec_of(text)), target, Options(note="change 4711"))
    return target


def out(target: TargetSwitch, name: str, kind: Any = "drain", *, ago: float = 0, **more: Any) -> None:
    """Take a backend out, so many seconds ago."""
    change_overlay(target, None, take_out(name, kind, **more), time=NOW - timedelta(seconds=ago))


def status(switch: Switch, *args: str, code: int = 0) -> dict[str, Any]:
    """What `dnsteer status --json` says."""
    done = on(switch)("status", "--json", "--interval", "0.5s", *args)
    assert (done.code, done.err) == (code, ""), done.out
    found: dict[str, Any] = done.json
    assert found["ok"] is (code == 0)
    return found


def backends(found: dict[str, Any], pool: str) -> dict[str, dict[str, Any]]:
    """A pool's backends by name."""
    (one,) = [p for p in found["pools"] if p["name"] == pool]
    return {b["name"]: b for b in one["backends"]}


def frames(address: str, udp: int, tcp: int) -> list[str]:
    """Packets to port 53, each from a source port of its own."""
    head = Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:53") / IP(src="198.18.0.1", dst=address)
    return [bytes(head / k(sport=20000 + 2 * i, dport=53)).hex() for i, k in enumerate([UDP] * udp + [TCP] * tcp)]


def insert_by_start(switch: PrivateSwitch, address: str, udp: int, tcp: int) -> None:
    """Put packets in and wait until the switch has taken them: it drops what is too much at a time."""

    def received() -> int:
        return read_counters(switch.appctl("dpif-netdev/pmd-stats-show")).received

    some = frames(address, udp, tcp)
    wanted, deadline = received() + len(some), time.monotonic() + 20
    switch.appctl("netdev-dummy/receive", "p0", *some)
    while received() < wanted:
        assert time.monotonic() < deadline
        time.sleep(0.005)


@contextmanager
def load(switch: PrivateSwitch, address: str, udp: int, tcp: int, rounds: int = 50) -> Iterator[None]:
    """So many packets a second of each protocol to port 53 of *address*, in *rounds* rounds a second."""
    with inserted(switch, [frames(address, udp // rounds, tcp // rounds)], rounds):
        time.sleep(0.6)  # the switch has the flows in its datapath and counts
        yield


def inserted(switch: PrivateSwitch, bursts: Sequence[Sequence[str]], rounds: int) -> AbstractContextManager[None]:
    """Put in one burst of frames after the other, again from the first, *rounds* a second."""
    turns = cycle(bursts)
    return repeated(lambda: switch.appctl("netdev-dummy/receive", "p0", *next(turns)), every=1 / rounds)
