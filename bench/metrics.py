# SPDX-License-Identifier: Apache-2.0
"""What scrapes cost the packets of a switch at full load, with 122,648 flows. No root. Prints JSON.

python -m bench.metrics [--rounds 5] [--seconds 30] [--interval 15] [--scrapes 40]

Packets go through a private switch's userspace datapath: a client sends as many as the switch takes, a window at a time,
to the VIPs of the spec of bench-render, and counts those that come back towards a backend (DSR on one arm). Phases with
and without a scrape each *interval* (15 s, as Prometheus is mostly set) alternate; the agent runs in both. On a machine
that has other work to do queries a second mean little; CPU time of the switch for a query still does.

Phases differ among themselves by more than a scrape costs. So what each of *scrapes* costs is measured too, in one run: the
queries that are missing around it, against the rate of the seconds just before and after, in which the machine is the same.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from bench.agent.usage import cpu_of
from bench.machine import machine
from bench.specs import many_vips
from dnsteer.lab.command import program_environment
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.private_switch import PrivateSwitch

VIPS, POOLS, BACKENDS, SLOTS = 1000, 100, 16, 1024
ASKED, CLIENTS = 50, 64
"""VIPs that are asked, and source ports that ask each."""
WINDOW = 64
"""Packets under way: a port of the private switch queues at most 100."""
_LATE = 2.0
"""Seconds after which packets under way are lost."""
_PATIENCE = 60.0
SPACED = 12.0
"""Seconds between scrapes that are measured one by one: a reading is shared for 10 s."""
_BEFORE, _AFTER, _BESIDE = 0.2, 2.5, 3.0
"""Seconds before and after the begin of a scrape in which it may cost queries, and of the time beside that on each side."""
_SLICE = 0.1
"""Seconds in which queries are counted."""


def spec() -> str:
    """The spec of bench-render with its slots written. The port that the load uses is no damage to repair."""
    text = many_vips(VIPS, POOLS, BACKENDS).replace("switch:\n", "switch:\n  repair: report\n", 1)
    return re.sub(r"(  pool\d+:\n)", rf"\1    slots: {SLOTS}\n", text)


def frames() -> list[bytes]:
    """Queries to many VIPs from many ports, all of one length, as a port's stream has them: a length, and the frame."""
    made = []
    for vip in range(ASKED):
        for port in range(CLIENTS):
            packet = (
                Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:53")
                / IP(src="198.51.100.7", dst=f"172.16.0.{vip}")
                / UDP(sport=1024 + 2 * port, dport=53)
                / bytes(40)
            )
            raw = bytes(packet)
            made.append(struct.pack("!H", len(raw)) + raw)
    return made


class Load:
    """Sends as many packets as the switch takes, and counts those that it forwards."""

    def __init__(self, path: Path, queries: list[bytes]) -> None:
        self._size = len(queries[0])
        self._batches = [b"".join(queries[i : i + WINDOW // 2]) for i in range(0, len(queries), WINDOW // 2)]
        self._next = 0
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._socket.settimeout(_LATE)
        self.counted: dict[int, int] = {}
        """Packets that came back in each slice of time, by its number on the machine's clock."""

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def run(self, seconds: float) -> dict[str, float]:
        """Send for so long: packets a second that came back, and how many were lost."""
        half, sent, back = self._size * (WINDOW // 2), 0, 0
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            while sent - back <= half:
                self._socket.sendall(self._batches[self._next % len(self._batches)])
                self._next += 1
                sent += half
            got = self._receive()
            if not got:
                break
            back += got
            now = int(time.monotonic() / _SLICE)
            self.counted[now] = self.counted.get(now, 0) + got // self._size
        took = time.monotonic() - began
        while back < sent and (got := self._receive()):
            back += got
        return {"per_second": back / self._size / took, "sent": sent // self._size, "lost": (sent - back) // self._size}

    def _receive(self) -> int:
        try:
            return len(self._socket.recv(1 << 16))
        except TimeoutError:
            return 0


@contextmanager
def agent(database: str) -> Iterator[tuple[int, str]]:
    """A running agent: its process, and where it serves."""
    argv = [sys.executable, "-m", "dnsteer", "agent", "--db", database, "--metrics", "127.0.0.1:0"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env=program_environment()) as process:
        try:
            assert process.stderr is not None
            at = ""
            for line in process.stderr:
                found = re.search(r"metrics at (\S+)", line)
                at = found[1] if found else at
                if "targets: " in line:
                    break
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield process.pid, at
        finally:
            process.terminate()


SCRAPER = """
import json, sys, time, urllib.request
began, n = time.monotonic(), 0
while True:
    now = time.monotonic()
    body = urllib.request.urlopen(sys.argv[1], timeout=60).read()
    print(json.dumps([time.monotonic() - now, len(body), now]), flush=True)
    n += 1
    time.sleep(max(0.0, began + n * float(sys.argv[2]) - time.monotonic()))
"""
"""Scrapes each so many seconds, in a process of its own: the load must not wait for it."""


@contextmanager
def scraper(url: str, interval: float, found: list[tuple[float, int, float]]) -> Iterator[None]:
    """Scrapes for the time of the context; *found* gets the seconds, bytes and begin of each."""
    with subprocess.Popen(
        [sys.executable, "-c", SCRAPER, url, str(interval)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield
        finally:
            process.terminate()
            assert process.stdout is not None
            found += [tuple(json.loads(line)) for line in process.stdout if line.endswith("\n")]


def cost_of_one(counted: dict[int, int], begins: list[float], interval: float) -> dict[str, float]:
    """What one scrape costs, as the time in which the missing queries would have been served: mean and standard error."""
    missing = []
    for begin in begins:
        first, last, beside = (int(t / _SLICE) for t in (begin - _BEFORE, begin + _AFTER, _BESIDE))
        around = [*range(first - beside, first), *range(last, last + beside)]
        usual = statistics.mean(counted.get(n, 0) for n in around)
        missing.append(_SLICE * sum(1 - counted.get(n, 0) / usual for n in range(first, last)))
    mean, error = statistics.mean(missing), statistics.stdev(missing) / len(missing) ** 0.5
    return {
        "scrapes": len(missing),
        "seconds": round(mean, 3),
        "standard_error_s": round(error, 3),
        "fewer_queries_percent": round(100 * mean / interval, 2),
        "standard_error_percent": round(100 * error / interval, 2),
    }


def measure(
    rounds: int, seconds: float, interval: float, scrapes_of_one: int, folder: Path, order: random.Random
) -> dict[str, Any]:
    """So many phases of each kind, and so many scrapes one by one."""
    file = folder / "metrics.yaml"
    file.write_text(spec())
    queries = frames()
    with PrivateSwitch() as switch:
        apply = [sys.executable, "-m", "dnsteer", "apply", str(file), "--db", switch.database, "--yes"]
        subprocess.run(
            apply, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=program_environment()
        )
        flows = len(OpenFlow(f"unix:{switch.dir}/br-dns.mgmt", switch.env).dump().flows)
        path = switch.dir / "p0"
        switch.vsctl("set", "Interface", "p0", f"options:pstream=punix:{path}")
        deadline = time.monotonic() + _PATIENCE
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        found: dict[str, list[dict[str, float]]] = {"without": [], "with": []}
        scrapes: list[tuple[float, int, float]] = []
        alone: list[tuple[float, int, float]] = []
        with agent(switch.database) as (pid, at):
            load = Load(path, queries)
            load.run(seconds)  # the datapath learns its flows, and the agent compares the switch for the first time
            stat = Path(f"/proc/{pid}/stat")
            datapath = Path(f"/proc/{switch._processes['ovs-vswitchd'].pid}/stat")
            for _ in range(rounds):
                for way in order.sample(["without", "with"], 2):
                    before, busy = cpu_of(stat.read_text()), cpu_of(datapath.read_text())
                    if way == "with":
                        with scraper(at, interval, scrapes):
                            one = load.run(seconds)
                    else:
                        one = load.run(seconds)
                    one["agent_cpu_share"] = (cpu_of(stat.read_text()) - before) / seconds
                    one["switch_cpu_us"] = 1e6 * (cpu_of(datapath.read_text()) - busy) / one["sent"]
                    found[way].append(one)
            load.counted.clear()
            with scraper(at, SPACED, alone):
                one = load.run(scrapes_of_one * SPACED + _BESIDE)
            load.close()
    took = [seconds for seconds, *_ in scrapes]
    medians = {way: statistics.median(one["per_second"] for one in each) for way, each in found.items()}
    pairs = [a["per_second"] / b["per_second"] for a, b in zip(found["with"], found["without"], strict=True)]
    return {
        "flows": flows,
        "interval_s": interval,
        **{
            way: {
                "queries_per_second": round(medians[way]),
                "each": [round(one["per_second"]) for one in each],
                "sent": sum(one["sent"] for one in each),
                "lost": sum(one["lost"] for one in each),
                "switch_cpu_us_per_query": round(statistics.median(one["switch_cpu_us"] for one in each), 2),
                "agent_cpu_share": round(statistics.median(one["agent_cpu_share"] for one in each), 3),
            }
            for way, each in found.items()
        },
        "fewer_queries_percent": round(100 * (1 - statistics.median(pairs)), 2),
        "one_scrape": {
            **cost_of_one(load.counted, [begin for *_, begin in alone[1:scrapes_of_one]], interval),
            "queries_per_second": round(one["per_second"]),
            "sent": one["sent"],
            "lost": one["lost"],
        },
        "scrapes": {
            "number": len(took),
            "median_s": round(statistics.median(took), 3),
            "most_s": round(max(took), 3),
            "bytes": scrapes[-1][1],
        },
    }


def main() -> int:
    """Run the benchmark; exit status 1 when a packet was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=30, help="of each phase")
    parser.add_argument("--interval", type=float, default=15, help="seconds between scrapes")
    parser.add_argument("--scrapes", type=int, default=40, help="that are measured one by one, at least 3")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dnsteer-") as folder:
        order = random.Random(options.seed)
        found = measure(options.rounds, options.seconds, options.interval, options.scrapes, Path(folder), order)
    json.dump({"machine": machine(), "seed": options.seed, **found}, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 1 if any(found[part]["lost"] for part in ("with", "without", "one_scrape")) else 0


if __name__ == "__main__":
    sys.exit(main())
