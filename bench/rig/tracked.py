# SPDX-License-Identifier: Apache-2.0
"""What tracked connections cost: each mode with and without, and nftables' DNAT, on the rig's hops. Needs root. Prints JSON.

TCP connections of one query each are opened as fast as they end, 64 at a time, from 64 addresses (`opener.c`); right
before each such load the control, the same on a link to one server without a balancer. Then connections are opened and
held, and asked once each: memory is what the switch's process has grown by since the first 500, or for nftables the
slab nf_conntrack. In each round every variant is measured once, in random order, from a switch that knows no connection.

python -m bench.rig.tracked [--variants nat,nat-keep] [--seconds 3] [--held 10000] [--repeat 3]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import dns.message

from bench.agent.usage import Usage, resident_of
from bench.change.inside import Helper
from bench.change.tcp import WAIT, WINDOW
from bench.events import spread
from bench.hosts import inside, space, wait_for
from bench.machine import idle_seconds, machine
from bench.rig.__main__ import words
from bench.rig.network import FAMILIES, Network, missing, wait_for_answer
from bench.rig.peers import Dnsteer, NftablesDnat, Peer, connections, spec_text
from dnsteer.lab.command import netns_exec, run
from dnsteer.lab.zone import queries_text

NEEDED = ("ovs-vswitchd", "ovsdb-server", "nsd", "kdig", "gcc", "ip", "ethtool")
SOURCE = Path(__file__).with_name("opener.c")
OPEN = 64
"""Connections under way at any time."""
CLIENTS = 64
FIRST = 500
"""Connections that are open before the memory of further ones is measured."""
PORTS = range(10_000, 30_000)
"""Source ports of those that are held, below those that the kernel chooses."""
_QUERIES = 64


class TrackedDnsteer(Dnsteer):
    """dnsteer with a forwarding mode, and further keys of the VIP."""

    def __init__(self, folder: Path, forwarding: str, more: str = "") -> None:
        super().__init__(folder)
        self._forwarding, self._more = forwarding, more

    def spec(self, denied_file: str = "") -> str:
        """The spec in that mode."""
        return spec_text(denied_file, self._more, self._forwarding)

    def tracked(self) -> int:
        """Entries of the tracker."""
        return int(self._appctl("dpctl/ct-get-nconns"))

    def dnsteer(self, *verb: str) -> None:
        """Run the command at the switch."""
        assert self._host is not None
        self._host.dnsteer(*verb)

    def restart(self) -> None:
        """Restart ovs-vswitchd, and restore its tables."""
        assert self._host is not None
        pid = self._host.folder / "ovs-vswitchd.pid"
        self._host.vswitchd.kill(signal.SIGTERM)
        pid.unlink(missing_ok=True)
        self._host.vswitchd.start()
        wait_for(pid)
        self._host.dnsteer("restore")


KEEP = "keep: connections"
VARIANTS: Mapping[str, tuple[str, str] | None] = {
    "dsr": ("dsr", ""),
    "nat": ("nat", ""),
    "dsr-keep": ("dsr", KEEP),
    "nat-keep": ("nat", KEEP),
    "ct-nat": ("ct-nat", ""),
    "nftables-dnat": None,
}
"""Forwarding mode and further keys of the VIP; nftables has none."""


def variant(name: str, folder: Path) -> Peer:
    """What balances in a variant."""
    words_of = VARIANTS[name]
    return NftablesDnat(folder) if words_of is None else TrackedDnsteer(folder, *words_of)


def slab_bytes(slabs: str) -> int:
    """Memory of the kernel's nf_conntrack objects in /proc/slabinfo, in bytes: those in use, by their size."""
    found = re.search(r"^nf_conntrack +(\d+) +\d+ +(\d+) ", slabs, re.MULTILINE)
    return int(found[1]) * int(found[2]) if found else 0


def memory(peer: Peer) -> int:
    """Memory, in bytes, in which connections are: all of the switch's process, or the kernel's connections."""
    pid = peer.pid()
    if pid is None:
        return slab_bytes(Path("/proc/slabinfo").read_text())
    return round(resident_of(Path(f"/proc/{pid}/status").read_text()) * 1024 * 1024)


def tracked(peer: Peer) -> int:
    """Connections that the tracker has."""
    return peer.tracked() if isinstance(peer, TrackedDnsteer) else connections()["connections"]


class Opener:
    """Opens connections from the client."""

    def __init__(self, folder: Path) -> None:
        # With all that ended in TIME_WAIT the client would spend its time in the search for free ports.
        inside("client", "sysctl", "-qw", f"net.ipv4.tcp_max_tw_buckets={CLIENTS * OPEN}")
        self._program = folder / "opener"
        run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(self._program), str(SOURCE)], timeout=60)

    def measure(self, server: str, clients: Sequence[str], seconds: float) -> dict[str, Any]:
        """Connections answered a second, the share that was lost or reset, and the time of one."""
        queries = [line.split() for line in queries_text().splitlines()[:_QUERIES]]
        lines = [f"query {dns.message.make_query(name, kind).to_wire().hex()}" for name, kind in queries]
        lines += [f"client {address}" for address in clients] + [f"server {server}"]
        argv = [str(self._program), str(OPEN), f"{seconds:g}"]
        said = run(netns_exec(space("client"), argv), stdin="".join(f"{line}\n" for line in lines), timeout=60)
        found = json.loads(said)
        return {
            "per_second": round(found["in_time"] / found["seconds"]),
            "answered": found["answered"],
            "lost": found["lost"],
            "reset": found["refused"],
            "mean_ms": round(found["mean_ms"], 2),
            "p99_ms": round(found["p99_ms"], 2),
        }


def hold(peer: Peer, version: int, count: int) -> dict[str, Any]:
    """Open *count* connections, ask each once, and close them."""
    family = FAMILIES[version]
    ports = list(PORTS[:count])
    with Helper(None, "bench.change.holder", namespace=space("client")) as helper:
        helper.call("start", timeout=20, server=family.vip, port=53, local=family.client)
        failed = helper.call("open", timeout=60, ports=ports[:FIRST], wait=WAIT, window=WINDOW)["failed"]
        before = memory(peer)
        failed += helper.call("open", timeout=120, ports=ports[FIRST:], wait=WAIT, window=WINDOW)["failed"]
        found = helper.call("check", timeout=120, wait=WAIT, window=WINDOW)
        grown, entries = memory(peer) - before, tracked(peer)
        helper.call("close", timeout=60, orderly=True)
        time.sleep(1)  # the kernel repeats a FIN that was lost
    return {
        "opened": count - len(failed),
        "open_failed": len(failed),
        "answered": len(found["backends"]),
        "broken": len(found["dead"]),
        "tracked": entries,
        "bytes_each": round(grown / (count - FIRST)),
    }


def measure(name: str, folder: Path, opener: Opener, version: int, seconds: float, held: int) -> dict[str, Any]:
    """One variant: connections that are held, then connections a second beside the control."""
    family = FAMILIES[version]
    peer = variant(name, folder)
    with ExitStack() as stack:
        stack.callback(peer.stop)
        peer.prepare()
        peer.load(())
        wait_for_answer(family.vip)
        peer.forget()
        at_rest = hold(peer, version, held)
        control = opener.measure(family.direct[1], [family.direct[0]], seconds)
        peer.forget()
        pid = peer.pid()
        usage = Usage(pid) if pid is not None else None
        began, idle = time.monotonic(), idle_seconds()
        found = opener.measure(family.vip, family.clients(CLIENTS), seconds)
        if usage is not None:
            used = usage.figures()
            found |= {
                "cpu_share": used["cpu_share"],
                "cpu_us_each": round(used["cpu_s"] * 1e6 / max(1, found["answered"])),
            }
        passed = time.monotonic() - began
        found["machine"] = round(1 - (idle_seconds() - idle) / passed / (os.cpu_count() or 1), 3)
    return {"variant": name, **found, "held": at_rest, "control": control}


def tracked_summary(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Spreads over the rounds, of each variant and of the controls beside it; *of_control* relates the rates."""
    out = []
    for name in dict.fromkeys(each["variant"] for each in runs):
        those = [each for each in runs if each["variant"] == name]
        row: dict[str, Any] = {"variant": name}
        for key in ("per_second", "lost", "reset", "mean_ms", "p99_ms", "cpu_share", "cpu_us_each", "machine"):
            if key in those[0]:
                row[key] = spread([run[key] for run in those])
        row["of_control"] = spread([round(r["per_second"] / max(1, r["control"]["per_second"]), 3) for r in those])
        row["control"] = {key: spread([r["control"][key] for r in those]) for key in ("per_second", "lost")}
        row["held"] = {key: spread([r["held"][key] for r in those]) for key in those[0]["held"]}
        out.append(row)
    return out


def main() -> int:
    """Run the benchmark; exit status 1 when a variant answered nothing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", type=lambda text: words(text, VARIANTS), default=list(VARIANTS))
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--held", type=int, default=10_000, help=f"from {FIRST + 1} to {len(PORTS)} (default: 10000)")
    parser.add_argument("--family", type=int, choices=list(FAMILIES), default=4)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench.rig.tracked needs root, for network namespaces")
    if not FIRST < options.held <= len(PORTS):
        sys.exit(f"bench.rig.tracked: found --held {options.held}; expected {FIRST + 1} to {len(PORTS)}")
    if lacking := missing(NEEDED):
        sys.exit(f"bench.rig.tracked: missing on this machine: {', '.join(lacking)}: make packages")
    names = [name for name in options.variants if VARIANTS[name] or not missing(NftablesDnat.programs)]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # in order: namespaces are removed
    order, started = random.Random(options.seed), time.monotonic()
    runs: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory(prefix="dnsteer-tracked-") as name,
        Network(Path(name)),
    ):
        folder = Path(name)
        opener = Opener(folder)
        for turn in range(options.repeat):
            for each in order.sample(names, len(names)):
                found = measure(each, folder, opener, options.family, options.seconds, options.held)
                runs.append({"round": turn + 1, **found})
                print(runs[-1], file=sys.stderr, flush=True)
    report = {
        "machine": machine(),
        "load": {"open": OPEN, "clients": CLIENTS, "seconds": options.seconds, "held": options.held},
        "family": options.family,
        "seed": options.seed,
        "left_out": [name for name in options.variants if name not in names],
        "summary": tracked_summary(runs),
        "runs": runs,
        "seconds": round(time.monotonic() - started, 1),
    }
    json.dump(report, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 1 if any(not run["per_second"] for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
