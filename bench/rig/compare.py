# SPDX-License-Identifier: Apache-2.0
"""DNS through each balancer that runs here, on the same hops, cores, servers and load. Needs root. Prints JSON.

At saturation over UDP and TCP, IPv4 and IPv6 (200 queries wait for an answer), and over UDP and IPv4 at 30, 60 and 90 %
of what the slowest peer did in a first look: latency, lost queries, and CPU time of the whole machine beyond that of the
same rate without a balancer. Beside each run stands a control on the link without a balancer: before and after it at
saturation. Where it moved by more than 15 % the run is repeated, at most twice, and then marked. In each round every peer is
measured once, in random order.

python -m bench.rig.compare [--peers dnsteer,nftables] [--repeat 3] [--seconds 2] > docs/comparison.json
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.events import spread
from bench.hosts import Queries, inside, space
from bench.machine import idle_seconds, machine
from bench.rig.__main__ import NEEDED, installed, words
from bench.rig.asker import SOCKETS, Asker, built_asker
from bench.rig.network import FAMILIES, SERVERS, Network, figures, missing, wait_for_answer
from bench.rig.ovn import Ovn
from bench.rig.peers import BALANCER, PEERS, SLOTS, Peer, about
from bench.rig.proxies import Haproxy, Nginx
from bench.rig.variants import DnsteerAfxdp, DnsteerAfxdpPmd, DnsteerCtNat, DnsteerDsr, DnsteerDsrKeep
from bench.rig.xdp import Xdp
from dnsteer.lab.command import run

COMPARED: Mapping[str, type[Peer]] = {
    "dnsteer": PEERS["dnsteer"],
    "dnsteer-dsr": DnsteerDsr,
    "dnsteer-dsr-keep": DnsteerDsrKeep,
    "dnsteer-ct-nat": DnsteerCtNat,
    "dnsteer-afxdp": DnsteerAfxdp,
    "dnsteer-afxdp-pmd": DnsteerAfxdpPmd,
    **{name: kind for name, kind in PEERS.items() if name != "dnsteer"},
    "nginx": Nginx,
    "haproxy": Haproxy,
    "ovn": Ovn,
    "xdp": Xdp,
}
SHARES = (0.3, 0.6, 0.9)
"""Of what the slowest peer does at saturation."""
_MOVED = 0.15
_TRIES = 3
_CONTROL = 1.0
"""Seconds of a control at saturation."""


@dataclass(frozen=True)
class Kind:
    """A transport over a family."""

    transport: str
    version: int

    def __str__(self) -> str:
        return f"{self.transport} IPv{self.version}"


KINDS = [Kind(transport, version) for transport in ("udp", "tcp") for version in FAMILIES]


class Comparison:
    """Measures *peers* in a network that is there."""

    def __init__(
        self, network: Network, peers: Mapping[str, Peer], seconds: float, seed: int, say: Callable[[str], object]
    ) -> None:
        self._network, self._peers, self._seconds, self._say = network, peers, seconds, say
        self._order = random.Random(seed)
        self._asker = built_asker(network.folder)
        self.rates: list[int] = []
        """Queries a second of the measured shares."""
        self.runs: list[dict[str, Any]] = []

    def run(self, repeat: int) -> None:
        """A first look for the slowest peer's rate, then all rounds."""
        first = {}
        for name in self._shuffled():
            if "udp" in self._peers[name].transports:
                with self._started(name):
                    first[name] = self._load(Kind("udp", 4), self._seconds, 0)["qps"]
        self.rates = [100 * round(min(first.values()) * share / 100) for share in SHARES if first]
        self._say(f"first look: {first}; rates {self.rates}")
        for turn in range(repeat):
            for name in self._shuffled():
                with self._started(name):
                    found = {"round": turn + 1, "peer": name, **self._measured(name)}
                self.runs.append(found)
                self._say(f"{found}")

    def _shuffled(self) -> list[str]:
        return self._order.sample(list(self._peers), len(self._peers))

    @contextmanager
    def _started(self, name: str) -> Iterator[None]:
        peer = self._peers[name]
        try:
            peer.prepare()
            peer.load(())
            for family in FAMILIES.values():
                for transport in peer.transports:
                    wait_for_answer(family.vip, transport)
            yield
        finally:
            peer.stop()

    def _measured(self, name: str) -> dict[str, Any]:
        peer = self._peers[name]
        found: dict[str, Any] = {"saturation": {}, "rates": []}
        for kind in KINDS:
            if kind.transport in peer.transports:
                peer.forget()
                before = packets_of_servers()
                found["saturation"][str(kind)] = row = self._saturated(kind)
                row["balance"] = balance(before, packets_of_servers())
        if "udp" in peer.transports:
            peer.forget()
            found["rates"] = [self._at_rate(rate) for rate in self._order.sample(self.rates, len(self.rates))]
        return found | {"state": peer.state(), "memory_mib": memory_mib()}

    def _saturated(self, kind: Kind) -> dict[str, Any]:
        """A run between two controls."""
        before = self._load(kind, _CONTROL, 0, direct=True)["qps"]
        tries = 0
        while True:
            tries += 1
            found = self._load(kind, self._seconds, 0)
            after = self._load(kind, _CONTROL, 0, direct=True)["qps"]
            control = (before + after) / 2
            moved = abs(after - before) > _MOVED * control
            if not moved or tries == _TRIES:
                break
            before = after
        return found | {
            "control": round(control),
            "of_control": round(found["qps"] / max(1, control), 4),
            "moved": moved,
            "tries": tries,
        }

    def _at_rate(self, rate: int) -> dict[str, Any]:
        kind = Kind("udp", 4)
        direct = self._load(kind, self._seconds, rate, direct=True)
        found = self._load(kind, self._seconds, rate)
        cpu = (found["busy_s"] - direct["busy_s"]) / max(1, found["qps"] * self._seconds) * 1e6
        return found | {"rate": rate, "cpu_s_per_million": round(cpu, 2), "control": direct}

    def _load(self, kind: Kind, seconds: float, rate: int, *, direct: bool = False) -> dict[str, Any]:
        family = FAMILIES[kind.version]
        client, server = family.direct if direct else (family.client, family.vip)
        idle, began = idle_seconds(), time.monotonic()
        if kind.transport == "tcp":
            queries = Queries("client", self._network.folder, server, seconds, rate, outstanding=200, transport="tcp")
            found = figures(queries.result())
        else:
            asker = Asker(self._asker, "client", [client], [server])
            with asker.ask(seconds, rate, self._order.randrange(1 << 32)) as running:
                found = running.figures()
        busy = (time.monotonic() - began) * (os.cpu_count() or 1) - (idle_seconds() - idle)
        return found | {"busy_s": round(busy, 3)}


def packets_of_servers() -> list[int]:
    """Packets that each server has had from the balancer."""
    return [
        int(inside(f"server{n}", "cat", "/sys/class/net/eth0/statistics/rx_packets")) for n in range(1, SERVERS + 1)
    ]


def balance(before: Sequence[int], after: Sequence[int]) -> float:
    """The most that one server had, in relation to an even share."""
    grown = [later - earlier for earlier, later in zip(before, after, strict=True)]
    return round(max(grown) * len(grown) / max(1, sum(grown)), 3)


def memory_mib() -> float:
    """Proportional memory of all programs of the balancer, in MiB; the kernel's own is not in it."""
    total = 0
    for pid in run(["ip", "netns", "pids", space(BALANCER)]).split():
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return round(total / 1024, 1)


def summary(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Spreads over the rounds, of each peer. *marked*: saturated runs whose control moved, of all."""
    out = []
    for name in dict.fromkeys(one["peer"] for one in runs):
        those = [one for one in runs if one["peer"] == name]
        row: dict[str, Any] = {"peer": name, "memory_mib": spread([one["memory_mib"] for one in those])}
        kinds = list(those[0]["saturation"])
        saturated = {kind: [one["saturation"][kind] for one in those] for kind in kinds}
        row["saturation"] = {
            kind: {key: spread([r[key] for r in rows]) for key in ("qps", "of_control", "control", "balance", "lost")}
            for kind, rows in saturated.items()
        }
        flags = [r["moved"] for rows in saturated.values() for r in rows]
        row["marked"] = f"{sum(flags)} of {len(flags)}"
        rates = sorted({r["rate"] for one in those for r in one["rates"]})
        keys = ("latency_ms", "latency_p50_ms", "latency_p99_ms", "latency_p999_ms", "lost", "cpu_s_per_million")
        row["rates"] = [
            {"rate": rate}
            | {key: spread([r[key] for one in those for r in one["rates"] if r["rate"] == rate]) for key in keys}
            for rate in rates
        ]
        out.append(row)
    return out


def not_here() -> list[str]:
    """Peers that cannot run on this machine, and why."""
    return [] if Path("/proc/net/ip_vs").exists() else ["ipvs: this kernel has no IPVS (/proc/net/ip_vs is missing)"]


def main() -> int:
    """Run the benchmark; exit status 1 when no peer could be measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=lambda text: words(text, COMPARED), default=list(COMPARED))
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench.rig.compare needs root, for network namespaces")
    if needed := missing(NEEDED):
        sys.exit(f"bench.rig.compare: missing on this machine: {', '.join(needed)}: make packages")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # in order: namespaces are removed
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dnsteer-rig-") as name:
        folder = Path(name)
        peers, lacking = installed(options.peers, folder, COMPARED)
        with Network(folder) as network:
            found = Comparison(
                network, peers, options.seconds, options.seed, lambda t: print(t, file=sys.stderr, flush=True)
            )
            found.run(options.repeat)
        report = {
            "machine": machine(),
            "peers": {name: about(peer) for name, peer in peers.items()},
            "left_out": [*not_here(), *lacking],
            "load": {"sockets": SOCKETS, "outstanding": 200, "seconds": options.seconds, "rates": found.rates},
            "servers": SERVERS,
            "slots": SLOTS,
            "rounds": options.repeat,
            "seed": options.seed,
            "summary": summary(found.runs),
            "runs": found.runs,
            "seconds": round(time.monotonic() - started, 1),
        }
    json.dump(report, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 0 if found.runs else 1


if __name__ == "__main__":
    sys.exit(main())
