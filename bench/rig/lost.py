# SPDX-License-Identifier: Apache-2.0
"""What kept connections do not survive: a restart of ovs-vswitchd, and another switch in its place. Needs root. Prints JSON.

1,000 connections are open through the rig's VIP, evenly over its slots, while a server is drained: none of them moves, all
answer. Then the tracker is empty: ovs-vswitchd is restarted and the tables are restored, or another switch with the same
spec and drain takes the place of the first, as after VRRP's take-over or a route that moves (ECMP). Each connection is
asked before and after, and whose it should be then is seen by new connections, one of each slot. At last another server
is drained: those that the tracker has not seen begin are not kept any more.

python -m bench.rig.lost [--variants dsr-keep] [--events restart] [--count 1000]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.change.inside import Helper
from bench.change.ports import slot_of, source_ports
from bench.change.tcp import WAIT, WINDOW
from bench.hosts import space
from bench.machine import machine
from bench.rig.__main__ import words
from bench.rig.network import FAMILIES, Network, missing, wait_for_answer
from bench.rig.peers import SLOTS
from bench.rig.tracked import NEEDED, TrackedDnsteer, variant

KEPT = ("dsr-keep", "nat-keep", "ct-nat")
_FAMILY = FAMILIES[4]
DRAINED, NEXT = "servers/s1", "servers/s2"
_OTHERS = 30_000
"""The first source port of connections that ask whose a slot is."""


class Holding:
    """Connections of the client from fixed ports."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._helper = Helper(None, "bench.change.holder", namespace=space("client"))
        self._helper.call("start", timeout=20, server=_FAMILY.vip, port=53, local=_FAMILY.client)
        failed = self._helper.call("open", timeout=60, ports=list(ports), wait=WAIT, window=WINDOW)["failed"]
        if failed:
            self.close()
            raise RuntimeError(f"{len(failed)} connections could not be opened: {failed[0]}")

    def ask(self) -> tuple[dict[int, str], dict[int, str]]:
        """Who answers each connection, and why others do not."""
        found = self._helper.call("check", timeout=120, wait=WAIT, window=WINDOW)
        return dict(found["backends"]), dict(found["dead"])

    def close(self) -> None:
        """Close them."""
        self._helper.call("close", timeout=60, orderly=True)
        self._helper.close()


def owners() -> dict[int, str]:
    """Who answers new connections, by slot."""
    fresh = Holding([_OTHERS + 2 * slot for slot in range(SLOTS)])
    try:
        answers, dead = fresh.ask()
    finally:
        fresh.close()
    if dead:
        raise RuntimeError(f"new connections do not answer: {dead}")
    return {slot_of(port, SLOTS): server for port, server in answers.items()}


def restart(switch: TrackedDnsteer) -> None:
    """Restart ovs-vswitchd, and give it its tables."""
    switch.restart()


def replace(switch: TrackedDnsteer) -> None:
    """Take the switch away, and put another one there, with the same spec and drain."""
    switch.stop()
    switch.load(())
    switch.dnsteer("drain", DRAINED)


EVENTS: Mapping[str, Callable[[TrackedDnsteer], None]] = {"restart": restart, "other-switch": replace}


def measure(name: str, event: str, folder: Path, count: int) -> dict[str, Any]:
    """One event in one mode."""
    switch = variant(name, folder)
    assert isinstance(switch, TrackedDnsteer)
    with ExitStack() as stack:
        stack.callback(switch.stop)
        switch.load(())
        wait_for_answer(_FAMILY.vip)
        held = Holding(source_ports(count, SLOTS))
        stack.callback(held.close)
        began, _ = held.ask()
        switch.dnsteer("drain", DRAINED)
        kept, broken = held.ask()
        of_slot = owners()
        moved = {port for port, server in began.items() if of_slot[slot_of(port, SLOTS)] != server}
        EVENTS[event](switch)
        after, dead = held.ask()
        switch.dnsteer("undrain", DRAINED)
        switch.dnsteer("drain", NEXT)
        of_slot = owners()
        moved_later = {port for port, server in after.items() if of_slot[slot_of(port, SLOTS)] != server}
        _, dead_later = held.ask()
    return {
        "variant": name,
        "event": event,
        "open": len(began),
        "broken_by_the_drain": len(broken),
        "slots_moved_since": len(moved),
        "lost": len(dead),
        "lost_of_moved": len(moved & dead.keys()),
        "why": dict(Counter(dead.values())),
        "left": len(after),
        "at_their_server": sum(kept[port] == server for port, server in after.items()),
        "then_moved": len(moved_later),
        "then_lost": len(dead_later),
        "then_lost_of_moved": len(moved_later & dead_later.keys()),
    }


def main() -> int:
    """Run the benchmark; exit status 1 when a connection was lost whose slot had not moved."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", type=lambda text: words(text, KEPT), default=list(KEPT))
    parser.add_argument("--events", type=lambda text: words(text, EVENTS), default=list(EVENTS))
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench.rig.lost needs root, for network namespaces")
    if lacking := missing(NEEDED):
        sys.exit(f"bench.rig.lost: missing on this machine: {', '.join(lacking)}: make packages")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # in order: namespaces are removed
    runs: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory(prefix="dnsteer-lost-") as folder,
        Network(Path(folder)),
    ):
        for name in options.variants:
            for event in options.events:
                runs.append(measure(name, event, Path(folder), options.count))
                print(runs[-1], file=sys.stderr, flush=True)
    json.dump({"machine": machine(), "slots": SLOTS, "runs": runs}, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 1 if any(run["lost"] != run["lost_of_moved"] for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
