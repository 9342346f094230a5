# SPDX-License-Identifier: Apache-2.0
"""CPU time of the agent with 0, 1 and 10 browsers at its console, at 4 and at 1,000 VIPs, each with queries. Prints JSON.

A browser is a connection that reads the events of one page; all VIPs have queries, so all rates change. Beside that, a real
one says when it has painted each page first, where there is one.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import cycle, islice
from pathlib import Path
from urllib.parse import urlencode

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from bench.first_paint import first_paints
from bench.machine import machine
from bench.repeated import repeated
from bench.specs import many_vips
from dnsteer.switch.private_switch import PrivateSwitch

CONSOLE = "--console", "127.0.0.1:0"
TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def agent(database: str, folder: Path, *options: str) -> Iterator[tuple[int, str]]:
    """An agent: its process, and with --console its address and port."""
    log = folder / "agent.log"
    argv = [sys.executable, "-m", "dnsteer", "agent", "--db", database, *options]
    with log.open("w") as file:
        process = subprocess.Popen(argv, stderr=file)
    try:
        deadline = time.monotonic() + 60
        found = None
        while "state 1" not in log.read_text() or (
            options and not (found := re.search(r"console at http://(\S+)/\n", log.read_text()))
        ):
            if time.monotonic() > deadline:
                raise SystemExit(log.read_text())
            time.sleep(0.1)
        yield process.pid, found[1] if found is not None else ""
    finally:
        process.terminate()
        process.wait(30)


def queries(switch: PrivateSwitch, vips: int, most: int = 200) -> AbstractContextManager[None]:
    """Queries for all VIPs by turns, at most so many in each tenth of a second."""
    frames = []
    for v in range(vips):
        address = f"172.{16 + v // 65536}.{v // 256 % 256}.{v % 256}"
        head = Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:53") / IP(src="198.18.0.1", dst=address)
        frames.append(bytes(head / UDP(sport=20000 + v, dport=53)).hex())

    turns = cycle(frames)
    return repeated(lambda: switch.appctl("netdev-dummy/receive", "p0", *islice(turns, min(most, 8 * vips))), every=0.1)


def read(at: str, path: str) -> str:
    """A page."""
    with urllib.request.urlopen(f"http://{at}{path}", timeout=30) as answer:
        return str(answer.read().decode())


def not_yet(text: str) -> bool:
    """Whether a page waits for its first reading, or for its prediction."""
    return 'aria-busy="true"' in text or "is being computed" in text


class Browser:
    """Reads a page, then its events."""

    def __init__(self, at: str, path: str) -> None:
        began = time.monotonic()
        text = read(at, path)
        self.page_seconds, self.page_bytes = time.monotonic() - began, len(text.encode())
        found = re.search(r'data-page="([^"]*)" data-since="([^"]*)"', text)
        assert found is not None
        asked = urlencode({"page": html.unescape(found[1]), "since": found[2]})
        host, port = at.split(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.sendall(f"GET /events?{asked} HTTP/1.1\r\nHost: {at}\r\n\r\n".encode())
        self.bytes = 0
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while some := self._socket.recv(1 << 16):
            self.bytes += len(some)

    def close(self) -> None:
        """Go away."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()


def cpu(pid: int) -> float:
    """Seconds of CPU time that a process has used, with the programs that it ran and that ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def measure(text: str, vips: int, pages: dict[str, str], seconds: float) -> dict[str, object]:
    """The share of a core that the agent uses, in per cent, by the number of browsers, and what they are sent."""
    report: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name, PrivateSwitch() as switch:
        folder = Path(name)
        (folder / "spec.yaml").write_text(text)
        argv = [sys.executable, "-m", "dnsteer", "apply", str(folder / "spec.yaml"), "--db", switch.database]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        with agent(switch.database, folder) as (pid, _), queries(switch, vips):
            time.sleep(12)
            before = cpu(pid)
            time.sleep(seconds)
            report["no console"] = {"cpu_percent": round(100 * (cpu(pid) - before) / seconds, 2)}
        with agent(switch.database, folder, *CONSOLE) as (pid, at), queries(switch, vips):
            time.sleep(12)
            report["first_paint_seconds"] = first_paints(at, {**pages, "changes": "/changes", "state": "/changes/1"})
        with agent(switch.database, folder, *CONSOLE) as (pid, at), queries(switch, vips):
            time.sleep(12)  # the first look at the switch and the first reading
            for page, path in pages.items():
                for number in (0, 1, 10) if page == "overview" else (1, 10):
                    browsers = [Browser(at, path) for _ in range(number)]
                    time.sleep(3)
                    while not_yet(read(at, path)):
                        time.sleep(1)  # once for a spec
                    before, sent, began = cpu(pid), sum(b.bytes for b in browsers), time.monotonic()
                    time.sleep(seconds)
                    passed = time.monotonic() - began
                    report[f"{page} {number}"] = {
                        "cpu_percent": round(100 * (cpu(pid) - before) / passed, 2),
                        "kilobytes_a_second_each": round(
                            (sum(b.bytes for b in browsers) - sent) / passed / 1000 / max(1, number), 2
                        ),
                        **(
                            {
                                "page_seconds": round(min(b.page_seconds for b in browsers), 3),
                                "page_kilobytes": round(browsers[0].page_bytes / 1000),
                            }
                            if browsers
                            else {}
                        ),
                    }
                    for browser in browsers:
                        browser.close()
    return report


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--vips", type=int, default=1000)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    few = many_vips(4, pools=1, backends=5)
    pages = {
        "overview": "/",
        "pool": "/pools/pool0",
        "offload": "/offload",
        "path": "/path?client=198.18.0.1&port=20000&vip=172.16.0.0&service=53/udp",
    }
    report = {
        "machine": machine(),
        "4 vips": measure(few, 4, pages, options.seconds),
        f"{options.vips} vips": measure(many_vips(options.vips), options.vips, pages, options.seconds),
    }
    json.dump(report, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
