"""How soon routers turn away from a switch that fails, and what it costs: two switches with one VIP, two routers, ECMP.

Queries are sent all the time while something happens at one of the switches: all of its backends die, ovs-vswitchd is
killed, the agent is killed or ends, BIRD is killed, somebody withdraws the VIP. Prints JSON: the time until both routers
have the way to the other switch alone, and the queries that were lost, over some repetitions. Needs root, BIRD 2, NSD, Open
vSwitch.

python -m bench.announce [--repeat 5] [--qps 2000] [--seconds 8] [--plot FILE.svg]
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.announce_plot import svg
from bench.hosts import Queries
from bench.machine import machine
from bench.sites import ROUTERS, SITES, VIP, Network, Site, available

_SETTLE = 1.5
"""Seconds of load before it happens."""
_POLL = 0.004
"""Seconds between two looks at the routers' routes."""
Act = Callable[[Site], None]


@dataclass(frozen=True)
class Event:
    """Something that happens at a switch, with `switch.announce.on_stop` as given. *after* puts it right."""

    act: Act
    after: Act
    on_stop: str = "withdraw"


EVENTS: dict[str, Event] = {
    "all backends die": Event(lambda site: site.servers.kill(), lambda site: site.servers.start()),
    "ovs-vswitchd is killed": Event(lambda site: site.vswitchd.kill(), lambda site: site.vswitchd.start()),
    "ovs-vswitchd hangs": Event(
        lambda site: site.hang(signal.SIGSTOP), lambda site: site.hang(signal.SIGCONT)
    ),
    "agent is killed, on_stop: withdraw": Event(lambda site: site.agent.kill(), lambda site: site.agent.start()),
    "agent is killed, on_stop: keep": Event(
        lambda site: site.agent.kill(), lambda site: site.agent.start(), on_stop="keep"
    ),
    "agent ends, on_stop: withdraw": Event(
        lambda site: site.agent.kill(signal.SIGTERM), lambda site: site.agent.start()
    ),
    "BIRD is killed": Event(lambda site: site.bird.kill(), lambda site: site.bird.start()),
    "dnsteer withdraw": Event(
        lambda site: site.dnsteer("withdraw", "dns"), lambda site: site.dnsteer("announce", "dns")
    ),
}  # fmt: skip


class Watch:
    """Looks at the routers' ways until they are as wanted, and notes when each was."""

    def __init__(self, network: Network, wanted: set[int]) -> None:
        self._network, self._wanted = network, wanted
        self.seen: dict[int, float] = {}
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._look, args=(r,)) for r in ROUTERS]
        for thread in self._threads:
            thread.start()

    def _look(self, router: int) -> None:
        while not self._ends.wait(_POLL):
            if self._network.ways(router) == self._wanted:
                self.seen[router] = time.monotonic()
                return

    def end(self) -> None:
        """Look no more."""
        self._ends.set()
        for thread in self._threads:
            thread.join()


def measure(network: Network, event: Event, seconds: float, qps: int) -> dict[str, Any]:
    """One event at the first switch, under load."""
    site, others = network.sites[1], set(SITES) - {1}
    queries = Queries("client", network.folder, VIP, seconds, qps)
    time.sleep(_SETTLE)
    watch = Watch(network, others)
    began = time.monotonic()
    try:
        event.act(site)
        sent, lost = queries.counted()
    finally:
        watch.end()
    took = max(watch.seen.values()) - began if len(watch.seen) == len(ROUTERS) else None
    event.after(site)
    began = time.monotonic()
    network.wait_for_ways({r: set(SITES) for r in ROUTERS}, 60)
    return {
        "away_s": None if took is None else round(took, 3), "back_s": round(time.monotonic() - began, 3), "sent": sent,
        "lost": lost,
    }  # fmt: skip


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The middle and the extremes of several runs."""
    away = sorted(one["away_s"] for one in runs if one["away_s"] is not None)
    lost = sorted(one["lost"] for one in runs)
    return {
        "away_s": {"min": away[0], "median": statistics.median(away), "max": away[-1]} if away else None,
        "withdrawn": f"{len(away)} of {len(runs)}",
        "lost": {"min": lost[0], "median": statistics.median(lost), "max": lost[-1]},
        "sent": sum(one["sent"] for one in runs), "runs": runs,
    }  # fmt: skip


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description="Announcing VIPs: time to withdrawal and lost queries.")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--qps", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--plot", type=Path, default=None, metavar="FILE.svg")
    parser.add_argument("--only", default="", help="events whose name has this")
    options = parser.parse_args()
    missing = available()
    if missing:
        sys.exit(f"bench.announce: missing on this machine: {missing}")
    found: dict[str, Any] = {}
    for on_stop in ("withdraw", "keep"):
        events = {name: e for name, e in EVENTS.items() if e.on_stop == on_stop and options.only in name}
        if not events:
            continue
        with (
            tempfile.TemporaryDirectory(prefix="dnsteer-sites-") as folder,
            Network(Path(folder), on_stop=on_stop) as network,
        ):
            for name, event in events.items():
                runs = []
                for _ in range(options.repeat):
                    time.sleep(1)
                    runs.append(measure(network, event, options.seconds, options.qps))
                    print(f"{name}: {runs[-1]}", file=sys.stderr)
                found[name] = summary(runs)
    if options.plot is not None:
        options.plot.write_text(svg(found, options.qps, "seconds until both routers have the other switch alone"))
    print(json.dumps({"machine": machine(), "qps": options.qps, "repeat": options.repeat, "events": found}, indent=1))


if __name__ == "__main__":
    main()
