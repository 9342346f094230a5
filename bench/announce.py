# SPDX-License-Identifier: Apache-2.0
"""How soon routers turn away from a switch that fails, and what it costs: two switches with one VIP, two routers, ECMP.

Queries are sent all the time while something happens at one of the switches: all of its backends die, ovs-vswitchd is
killed, the agent is killed or ends, BIRD is killed, somebody withdraws the VIP. Prints JSON: the time until both routers
have the way to the other switch alone, and the queries that were lost, over some repetitions. Needs root, BIRD 2, NSD, Open
vSwitch.

python -m bench.announce [--repeat 5] [--qps 2000] [--seconds 8] [--plot FILE.svg]
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.events import SETTLE, parser, repeated, report, watching
from bench.hosts import Queries
from bench.sites import ROUTERS, SITES, VIP, Network, Site, available

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
    "ovs-vswitchd hangs": Event(lambda site: site.hang(signal.SIGSTOP), lambda site: site.hang(signal.SIGCONT)),
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
}


def measure(network: Network, event: Event, seconds: float, qps: int) -> dict[str, Any]:
    """One event at the first switch, under load."""
    site, others = network.sites[1], set(SITES) - {1}
    queries = Queries("client", network.folder, VIP, seconds, qps)
    time.sleep(SETTLE)
    with watching({r: lambda r=r: network.ways(r) == others for r in ROUTERS}) as seen:
        began = time.monotonic()
        event.act(site)
        sent, lost = queries.counted()
    took = max(seen.values()) - began if len(seen) == len(ROUTERS) else None
    event.after(site)
    began = time.monotonic()
    network.wait_for_ways({r: set(SITES) for r in ROUTERS}, 60)
    return {
        "away_s": None if took is None else round(took, 3),
        "back_s": round(time.monotonic() - began, 3),
        "sent": sent,
        "lost": lost,
    }


def main() -> None:
    """Run it."""
    options = parser("Announcing VIPs: time to withdrawal and lost queries.", seconds=8).parse_args()
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
                measured = partial(measure, network, event, options.seconds, options.qps)
                found[name] = repeated(name, options.repeat, 1, measured)
    report(options, found, "both routers have the other switch alone")


if __name__ == "__main__":
    main()
