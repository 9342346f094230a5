# SPDX-License-Identifier: Apache-2.0
"""One rig for all comparisons: dnsteer on Open vSwitch beside nftables, iptables and dnsdist, on the same hops. Needs root.

Good queries (dnsperf) go through each peer, alone and beside junk of several kinds, with lists of denied prefixes of several
lengths. Beside each run stands a control: the same queries on a link to one server, without a balancer and without junk. In
each round every peer is measured once, in random order. Prints JSON: the spread over the rounds.

python -m bench.rig [--peers dnsteer,nftables] [--junk all] [--lists 0,1000] [--rate 5000] [--seconds 4] [--repeat 3]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.machine import machine
from bench.rig.campaign import NONE, Campaign, Wanted, changes, summary
from bench.rig.junk import KINDS, built
from bench.rig.limited import LIMITED
from bench.rig.network import FAMILIES, SERVERS, Network, missing
from bench.rig.peers import PEERS, SLOTS, Peer, about

NEEDED = ("dnsperf", "nsd", "kdig", "gcc", "ip", "ethtool")
ALL = {**PEERS, **LIMITED}
LONGEST_LIST = 60_000
"""Prefixes of a list: there are 65,536 /24 of 10.0.0.0/8, and servers have some."""


def words(text: str, known: Collection[str]) -> list[str]:
    """Those that are named; `all` is all. Raises ArgumentTypeError for one that is not known."""
    named = [word.strip() for word in text.split(",")]
    if "all" in named:
        return list(known)
    if wrong := [word for word in named if word not in known]:
        raise argparse.ArgumentTypeError(f"found {', '.join(wrong)}; expected all, or some of {', '.join(known)}")
    return list(dict.fromkeys(named))


def lengths(text: str) -> list[int]:
    """Lengths of lists. Raises ArgumentTypeError."""
    found = [int(word) if word.strip().isdigit() else -1 for word in text.split(",")]
    if any(not 0 <= one <= LONGEST_LIST for one in found):
        raise argparse.ArgumentTypeError(
            f"found {text}; expected numbers from 0 to {LONGEST_LIST}, with commas between"
        )
    return list(dict.fromkeys(found))


def parser() -> argparse.ArgumentParser:
    """The options."""
    kinds = "; ".join(f"{name}: {kind.says}" for name, kind in KINDS.items())
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--peers", type=lambda text: words(text, ALL), default=list(PEERS), help=", ".join(ALL))
    found.add_argument(
        "--junk",
        type=lambda text: words(text, (NONE, *KINDS)),
        default=[NONE],
        metavar="KIND,...",
        help=f"none, or what comes beside the queries. {kinds} (default: none)",
    )
    found.add_argument("--junk-rate", type=int, default=20_000, metavar="PPS", help="0: as many as can be sent")
    found.add_argument("--lists", type=lengths, default=[0], metavar="N,...", help="denied IPv4 prefixes (default: 0)")
    found.add_argument("--rate", type=int, default=5000, metavar="QPS", help="0: as many as are answered")
    found.add_argument("--family", type=int, choices=list(FAMILIES), default=4, help="of the queries")
    found.add_argument(
        "--clients",
        type=int,
        default=0,
        metavar="N",
        help="each of a prefix of its own (default: one client, by dnsperf)",
    )
    found.add_argument("--seconds", type=float, default=4)
    found.add_argument("--repeat", type=int, default=3)
    found.add_argument("--seed", type=int, default=random.randrange(10**6))
    return found


def installed(
    names: Sequence[str], folder: Path, kinds: Mapping[str, type[Peer]] = ALL
) -> tuple[dict[str, Peer], list[str]]:
    """The peers of these *names* among *kinds* whose programs are there, and what is said of the others."""
    peers: dict[str, Peer] = {}
    left_out = []
    for name in names:
        lacking = missing(kinds[name].programs)
        if lacking:
            left_out.append(f"{name}: missing {', '.join(lacking)}: scripts/packages.sh peers")
        else:
            peers[name] = kinds[name](folder)
    return peers, left_out


def main() -> int:
    """Run the benchmark; exit status 1 when no peer could be measured."""
    options = parser().parse_args()
    if os.geteuid() != 0:
        sys.exit("bench.rig needs root, for network namespaces")
    if lacking := missing(NEEDED):
        sys.exit(f"bench.rig: missing on this machine: {', '.join(lacking)}: make packages")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # in order: namespaces are removed
    started = time.monotonic()
    wanted = Wanted(
        options.junk,
        options.lists,
        options.rate,
        options.junk_rate,
        options.seconds,
        options.repeat,
        options.family,
        options.clients,
    )
    with tempfile.TemporaryDirectory(prefix="dnsteer-rig-") as name:
        folder = Path(name)
        peers, left_out = installed(options.peers, folder)
        report: dict[str, Any] = {
            "machine": machine(),
            "peers": {name: about(peer) for name, peer in peers.items()},
            "seed": options.seed,
            "load": {
                "qps": options.rate,
                "family": options.family,
                "seconds": options.seconds,
                "clients": options.clients,
            },
            "junk": {"pps": options.junk_rate, "kinds": {k: KINDS[k].says for k in options.junk if k != NONE}},
            "servers": SERVERS,
            "slots": SLOTS,
            "rounds": options.repeat,
        }
        say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
        with Network(folder) as network:
            campaign = Campaign(network, peers, wanted, built(folder), options.seed, say)
            campaign.run()
    report |= {
        "summary": summary(campaign.runs),
        "changes_of_lists": changes(campaign.lists),
        "left_out": left_out,
        "runs": campaign.runs,
        "seconds": round(time.monotonic() - started, 1),
    }
    json.dump(report, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0 if campaign.runs else 1


if __name__ == "__main__":
    sys.exit(main())
